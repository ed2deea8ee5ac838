// Sums, products, quotients, powers, bits.
#include <cmath>
#include <functional>
#include <limits>

#include "numbers.h"

namespace dy2st {
namespace {

using namespace numbers;

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

}  // namespace

const Handlers& arithmetic_handlers() {
  static const Handlers table = {
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
  };
  return table;
}

}  // namespace dy2st
