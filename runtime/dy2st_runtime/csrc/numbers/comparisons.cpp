// Comparisons, truth, and what chooses by them.
#include <cmath>

#include "numbers.h"

namespace dy2st {
namespace {

using namespace numbers;

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

}  // namespace

const Handlers& comparison_handlers() {
  static const Handlers table = {
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
  };
  return table;
}

}  // namespace dy2st
