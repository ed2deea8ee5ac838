// Functions on numbers, as Python computes them. A handler takes the plain cases; where Python would raise, or go beyond 64
// bits, it gives false, and Python does it.
#include <cfenv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "program.h"

namespace dy2st {
namespace {

constexpr int64_t kExact = int64_t{1} << 53;  // up to here a double holds every integer

bool integral(const Value& value, int64_t& to) {
  if (value.is(Kind::Int)) return to = value.as_int(), true;
  return value.is(Kind::Bool) ? (to = value.as_bool(), true) : false;
}

bool number(const Value& value, double& to) {
  int64_t whole = 0;
  if (value.is(Kind::Float)) return to = value.as_float(), true;
  return integral(value, whole) ? (to = static_cast<double>(whole), true) : false;
}

bool exact(const Value& value, double& to) {
  int64_t whole = 0;
  if (integral(value, whole) && (whole > kExact || whole < -kExact)) return false;
  return number(value, to);
}

const Value& input(const Instruction& instruction, Frame& frame, size_t index) { return frame[instruction.inputs[index]]; }

template <class T>
bool give(const Instruction& instruction, Frame& frame, T result) {
  if (!instruction.outputs.empty()) frame[instruction.outputs[0]] = Value::of(result);
  return true;
}

bool give_value(const Instruction& instruction, Frame& frame, const Value& result) {
  if (!instruction.outputs.empty()) frame[instruction.outputs[0]] = Value(result);
  return true;
}

// -- arithmetic

struct Add {
  static bool whole(int64_t a, int64_t b, int64_t& r) { return !__builtin_add_overflow(a, b, &r); }
  static bool real(double a, double b, double& r) { return r = a + b, true; }
};
struct Subtract {
  static bool whole(int64_t a, int64_t b, int64_t& r) { return !__builtin_sub_overflow(a, b, &r); }
  static bool real(double a, double b, double& r) { return r = a - b, true; }
};
struct Multiply {
  static bool whole(int64_t a, int64_t b, int64_t& r) { return !__builtin_mul_overflow(a, b, &r); }
  static bool real(double a, double b, double& r) { return r = a * b, true; }
};

bool divides(int64_t a, int64_t b) { return b != 0 && !(a == std::numeric_limits<int64_t>::min() && b == -1); }

struct FloorDivide {
  static bool whole(int64_t a, int64_t b, int64_t& r) {
    if (!divides(a, b)) return false;
    r = a / b;
    if (a % b != 0 && (a < 0) != (b < 0)) --r;
    return true;
  }
  static bool real(double a, double b, double& r) {
    if (b == 0) return false;
    const double rest = std::fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
    if (quotient != 0) {
      r = std::floor(quotient);
      if (quotient - r > 0.5) r += 1;
    } else {
      r = std::copysign(0.0, a / b);
    }
    return true;
  }
};
struct Modulo {
  static bool whole(int64_t a, int64_t b, int64_t& r) {
    if (!divides(a, b)) return false;
    r = a % b;
    if (r != 0 && (r < 0) != (b < 0)) r += b;
    return true;
  }
  static bool real(double a, double b, double& r) {
    if (b == 0) return false;
    r = std::fmod(a, b);
    if (r == 0) {
      r = std::copysign(0.0, b);
    } else if ((b < 0) != (r < 0)) {
      r += b;
    }
    return true;
  }
};
struct Power {
  static bool whole(int64_t a, int64_t b, int64_t& r) {
    if (b < 0) return false;
    r = 1;
    while (b > 0) {
      if ((b & 1) != 0 && __builtin_mul_overflow(r, a, &r)) return false;
      b >>= 1;
      if (b > 0 && __builtin_mul_overflow(a, a, &a)) return false;
    }
    return true;
  }
  static bool real(double a, double b, double& r) {
    if (!(a > 0) || !std::isfinite(a) || !std::isfinite(b)) return false;
    r = std::pow(a, b);
    return std::isfinite(r);
  }
};

template <class Operation>
bool arithmetic(const Instruction& instruction, Frame& frame) {
  if (instruction.inputs.size() != 2) return false;
  const Value &a = input(instruction, frame, 0), &b = input(instruction, frame, 1);
  int64_t x = 0, y = 0, whole = 0;
  if (integral(a, x) && integral(b, y)) return Operation::whole(x, y, whole) && give(instruction, frame, whole);
  double u = 0, v = 0, real = 0;
  return number(a, u) && number(b, v) && Operation::real(u, v, real) && give(instruction, frame, real);
}

bool true_divide(const Instruction& instruction, Frame& frame) {
  double a = 0, b = 0;
  const Value &x = input(instruction, frame, 0), &y = input(instruction, frame, 1);
  const bool whole = !x.is(Kind::Float) && !y.is(Kind::Float);  // beyond 2 ** 53 Python rounds only once
  if (!(whole ? exact(x, a) && exact(y, b) : number(x, a) && number(y, b)) || b == 0) return false;
  return give(instruction, frame, a / b);
}

bool negative(const Instruction& instruction, Frame& frame) {
  const Value& value = input(instruction, frame, 0);
  int64_t whole = 0;
  if (value.is(Kind::Float)) return give(instruction, frame, -value.as_float());
  return integral(value, whole) && whole != std::numeric_limits<int64_t>::min() && give(instruction, frame, -whole);
}

bool positive(const Instruction& instruction, Frame& frame) {
  const Value& value = input(instruction, frame, 0);
  int64_t whole = 0;
  if (value.is(Kind::Float)) return give(instruction, frame, value.as_float());
  return integral(value, whole) && give(instruction, frame, whole);
}

bool absolute(const Instruction& instruction, Frame& frame) {
  const Value& value = input(instruction, frame, 0);
  int64_t whole = 0;
  if (value.is(Kind::Float)) return give(instruction, frame, std::fabs(value.as_float()));
  return integral(value, whole) && whole != std::numeric_limits<int64_t>::min() &&
         give(instruction, frame, whole < 0 ? -whole : whole);
}

bool invert(const Instruction& instruction, Frame& frame) {
  const Value& value = input(instruction, frame, 0);
  return value.is(Kind::Int) && give(instruction, frame, ~value.as_int());
}

template <class Operation>
bool bitwise(const Instruction& instruction, Frame& frame) {
  const Value &a = input(instruction, frame, 0), &b = input(instruction, frame, 1);
  int64_t x = 0, y = 0;
  if (!integral(a, x) || !integral(b, y)) return false;
  const int64_t result = Operation()(x, y);
  if (a.is(Kind::Bool) && b.is(Kind::Bool)) return give(instruction, frame, result != 0);
  return give(instruction, frame, result);
}

// -- comparisons

// -1, 0 or 1; 2 where a nan is in it.
bool compare(const Value& a, const Value& b, int& order) {
  int64_t x = 0, y = 0;
  if (integral(a, x) && integral(b, y)) return order = x < y ? -1 : x > y, true;
  double u = 0, v = 0;
  if (!exact(a, u) || !exact(b, v)) return false;
  return order = std::isnan(u) || std::isnan(v) ? 2 : u < v ? -1 : u > v, true;
}

struct Equal { static bool holds(int order) { return order == 0; } };
struct Unequal { static bool holds(int order) { return order != 0; } };
struct Less { static bool holds(int order) { return order == -1; } };
struct LessEqual { static bool holds(int order) { return order == -1 || order == 0; } };
struct Greater { static bool holds(int order) { return order == 1; } };
struct GreaterEqual { static bool holds(int order) { return order == 1 || order == 0; } };

template <class Test>
bool comparison(const Instruction& instruction, Frame& frame) {
  int order = 0;
  return instruction.inputs.size() == 2 && compare(input(instruction, frame, 0), input(instruction, frame, 1), order) &&
         give(instruction, frame, Test::holds(order));
}

template <class Test>
bool extremum(const Instruction& instruction, Frame& frame) {
  if (instruction.inputs.empty()) return false;
  const Value* best = &input(instruction, frame, 0);
  for (size_t index = 1; index < instruction.inputs.size(); ++index) {
    const Value& value = input(instruction, frame, index);
    int order = 0;
    if (!compare(value, *best, order)) return false;
    if (Test::holds(order)) best = &value;
  }
  double unused = 0;
  return number(*best, unused) && give_value(instruction, frame, *best);
}

bool identity(const Instruction& instruction, Frame& frame) {
  const Value &a = input(instruction, frame, 0), &b = input(instruction, frame, 1);
  if (a.is(Kind::None) || b.is(Kind::None)) return give(instruction, frame, a.kind() == b.kind());
  if (a.is(Kind::Bool) && b.is(Kind::Bool)) return give(instruction, frame, a.as_bool() == b.as_bool());
  if (a.is(Kind::Tensor) && b.is(Kind::Tensor)) return give(instruction, frame, a.tensor().is_same(b.tensor()));
  return false;
}

// -- truth

bool plain(const Value& value) { return value.kind() >= Kind::None && value.kind() <= Kind::Tensor; }

bool logical_not(const Instruction& instruction, Frame& frame) {
  const Value& value = input(instruction, frame, 0);
  return plain(value) && give(instruction, frame, !truth(value));
}

bool to_bool(const Instruction& instruction, Frame& frame) {
  const Value& value = input(instruction, frame, 0);
  return plain(value) && give(instruction, frame, truth(value));
}

template <bool stop>
bool combine(const Instruction& instruction, Frame& frame) {
  for (int32_t source : instruction.inputs) {
    if (!plain(frame[source])) return false;
  }
  for (int32_t source : instruction.inputs) {
    if (truth(frame[source]) == stop) return give(instruction, frame, stop);
  }
  return give(instruction, frame, !stop);
}

bool where(const Instruction& instruction, Frame& frame) {
  const Value& condition = input(instruction, frame, 0);
  return plain(condition) && give_value(instruction, frame, input(instruction, frame, truth(condition) ? 1 : 2));
}

// -- conversions

template <class T, T (*from_float)(const Value&, bool&)>
bool convert(const Instruction& instruction, Frame& frame) {
  const Value& value = input(instruction, frame, 0);
  bool done = true;
  if (!value.is(Kind::Tensor)) {
    const T result = from_float(value, done);
    return done && give(instruction, frame, result);
  }
  const at::Tensor& tensor = value.tensor();
  if (tensor.numel() != 1 || !tensor.is_cpu() || !tensor.has_storage()) return false;
  const void* data = tensor.const_data_ptr();
  Value item;
  switch (tensor.scalar_type()) {
    case at::kFloat:
      item = Value::of(static_cast<double>(*static_cast<const float*>(data)));
      break;
    case at::kDouble:
      item = Value::of(*static_cast<const double*>(data));
      break;
    case at::kLong:
      item = Value::of(*static_cast<const int64_t*>(data));
      break;
    case at::kBool:
      item = Value::of(*static_cast<const bool*>(data));
      break;
    default:
      return false;
  }
  const T result = from_float(item, done);
  return done && give(instruction, frame, result);
}

constexpr double kWide = 9.0e18;

int64_t whole_part(const Value& value, bool& done) {
  int64_t whole = 0;
  if (value.is(Kind::Float)) {
    done = std::fabs(value.as_float()) < kWide;
    return done ? static_cast<int64_t>(value.as_float()) : 0;
  }
  done = integral(value, whole);
  return whole;
}

double real_part(const Value& value, bool& done) {
  double real = 0;
  done = number(value, real);
  return real;
}

template <double (*round)(double)>
bool rounded(const Instruction& instruction, Frame& frame) {
  const Value& value = input(instruction, frame, 0);
  int64_t whole = 0;
  if (instruction.inputs.size() != 1) return false;
  if (integral(value, whole)) return give(instruction, frame, whole);
  if (!value.is(Kind::Float) || !(std::fabs(value.as_float()) < kWide)) return false;
  return give(instruction, frame, static_cast<int64_t>(round(value.as_float())));
}

double half_even(double value) { return std::fegetround() == FE_TONEAREST ? std::nearbyint(value) : std::rint(value); }

// -- the math module

bool always(double) { return true; }
bool from_zero(double value) { return value >= 0; }
bool above_zero(double value) { return value > 0; }

template <double (*function)(double), bool (*domain)(double)>
bool math(const Instruction& instruction, Frame& frame) {
  double value = 0;
  if (instruction.inputs.size() != 1 || !number(input(instruction, frame, 0), value)) return false;
  if (!std::isfinite(value) || !domain(value)) return false;
  const double result = function(value);
  return std::isfinite(result) && give(instruction, frame, result);
}

template <bool (*test)(double)>
bool classify(const Instruction& instruction, Frame& frame) {
  double value = 0;
  return instruction.inputs.size() == 1 && number(input(instruction, frame, 0), value) && give(instruction, frame, test(value));
}

bool is_nan(double value) { return std::isnan(value); }
bool is_inf(double value) { return std::isinf(value); }
bool is_finite(double value) { return std::isfinite(value); }

// -- sizes

bool range_length(const Instruction& instruction, Frame& frame) {
  int64_t start = 0, stop = 0, step = 0;
  if (!integral(input(instruction, frame, 0), start) || !integral(input(instruction, frame, 1), stop)) return false;
  if (!integral(input(instruction, frame, 2), step) || step == 0) return false;
  constexpr int64_t limit = int64_t{1} << 61;
  for (int64_t bound : {start, stop, step}) {
    if (bound > limit || bound < -limit) return false;
  }
  const int64_t span = step > 0 ? stop - start : start - stop, stride = step > 0 ? step : -step;
  return give(instruction, frame, span <= 0 ? int64_t{0} : (span - 1) / stride + 1);
}

bool size_of(const Instruction& instruction, Frame& frame) {
  std::vector<Value> sizes;
  for (int32_t source : instruction.inputs) {
    if (!frame[source].is(Kind::Int)) return false;
    sizes.push_back(frame[source]);
  }
  if (!instruction.outputs.empty()) frame[instruction.outputs[0]] = Value::tuple(std::move(sizes), true);
  return true;
}

double dsqrt(double v) { return std::sqrt(v); }
double dexp(double v) { return std::exp(v); }
double dlog(double v) { return std::log(v); }
double dlog2(double v) { return std::log2(v); }
double dsin(double v) { return std::sin(v); }
double dcos(double v) { return std::cos(v); }
double dtan(double v) { return std::tan(v); }
double dtanh(double v) { return std::tanh(v); }
double datan(double v) { return std::atan(v); }
double dfloor(double v) { return std::floor(v); }
double dceil(double v) { return std::ceil(v); }
double dtrunc(double v) { return std::trunc(v); }

}  // namespace

Handler number_handler(const std::string& name) {
  static const std::unordered_map<std::string, Handler> table = {
      {"operator.add", arithmetic<Add>},
      {"operator.sub", arithmetic<Subtract>},
      {"operator.mul", arithmetic<Multiply>},
      {"operator.truediv", true_divide},
      {"operator.floordiv", arithmetic<FloorDivide>},
      {"operator.mod", arithmetic<Modulo>},
      {"operator.pow", arithmetic<Power>},
      {"pow", arithmetic<Power>},
      {"operator.neg", negative},
      {"operator.pos", positive},
      {"operator.abs", absolute},
      {"operator.invert", invert},
      {"operator.and_", bitwise<std::bit_and<int64_t>>},
      {"operator.or_", bitwise<std::bit_or<int64_t>>},
      {"operator.xor", bitwise<std::bit_xor<int64_t>>},
      {"operator.eq", comparison<Equal>},
      {"operator.ne", comparison<Unequal>},
      {"operator.lt", comparison<Less>},
      {"operator.le", comparison<LessEqual>},
      {"operator.gt", comparison<Greater>},
      {"operator.ge", comparison<GreaterEqual>},
      {"operator.is_", identity},
      {"operator.not_", logical_not},
      {"scalar.same_size", comparison<Equal>},
      {"scalar.logical_not", logical_not},
      {"scalar.logical_and", combine<false>},
      {"scalar.logical_or", combine<true>},
      {"scalar.minimum", extremum<Less>},
      {"scalar.maximum", extremum<Greater>},
      {"scalar.where", where},
      {"scalar.to_bool", to_bool},
      {"scalar.to_int", convert<int64_t, whole_part>},
      {"scalar.to_float", convert<double, real_part>},
      {"scalar.range_length", range_length},
      {"scalar.size_of", size_of},
      {"round", rounded<half_even>},
      {"math.floor", rounded<dfloor>},
      {"math.ceil", rounded<dceil>},
      {"math.trunc", rounded<dtrunc>},
      {"math.sqrt", math<dsqrt, from_zero>},
      {"math.exp", math<dexp, always>},
      {"math.log", math<dlog, above_zero>},
      {"math.log2", math<dlog2, above_zero>},
      {"math.sin", math<dsin, always>},
      {"math.cos", math<dcos, always>},
      {"math.tan", math<dtan, always>},
      {"math.tanh", math<dtanh, always>},
      {"math.atan", math<datan, always>},
      {"math.isnan", classify<is_nan>},
      {"math.isinf", classify<is_inf>},
      {"math.isfinite", classify<is_finite>},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace dy2st
