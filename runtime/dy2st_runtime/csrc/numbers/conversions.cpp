// Conversions, rounding, the math module, sizes.
#include <cfenv>
#include <cmath>

#include "numbers.h"

namespace dy2st {
namespace {

using namespace numbers;

template <class T, T (*from_float)(const Value&, bool&)>
bool convert(const Instruction& instruction, Frame& frame) {
  const Value& value = input(instruction, frame, 0);
  bool done = true;
  if (!value.is(Kind::Tensor)) {
    const T result = from_float(value, done);
    return done && give(instruction, frame, result);
  }
  const at::Tensor& tensor = value.tensor();
  if (tensor.numel() != 1 || !tensor.is_cpu() || !tensor.has_storage() || tensor.is_neg()) return false;
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

const Handlers& conversion_handlers() {
  static const Handlers table = {
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
  return table;
}

}  // namespace dy2st
