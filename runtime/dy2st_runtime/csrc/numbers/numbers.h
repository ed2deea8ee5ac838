// Functions on numbers, as Python computes them. A handler takes the plain cases; where Python would raise, or go beyond 64
// bits, it gives false, and Python does it.
#pragma once

#include <string>
#include <unordered_map>

#include "../program.h"

namespace dy2st {

using Handlers = std::unordered_map<std::string, Handler>;

const Handlers& arithmetic_handlers();
const Handlers& comparison_handlers();
const Handlers& conversion_handlers();

namespace numbers {

constexpr int64_t kExact = int64_t{1} << 53;  // up to here a double holds every integer

inline bool integral(const Value& value, int64_t& to) {
  if (value.is(Kind::Int)) return to = value.as_int(), true;
  return value.is(Kind::Bool) ? (to = value.as_bool(), true) : false;
}

inline bool number(const Value& value, double& to) {
  int64_t whole = 0;
  if (value.is(Kind::Float)) return to = value.as_float(), true;
  return integral(value, whole) ? (to = static_cast<double>(whole), true) : false;
}

inline bool exact(const Value& value, double& to) {
  int64_t whole = 0;
  if (integral(value, whole) && (whole > kExact || whole < -kExact)) return false;
  return number(value, to);
}

inline const Value& input(const Instruction& instruction, Frame& frame, size_t index) { return frame[instruction.inputs[index]]; }

template <class T>
bool give(const Instruction& instruction, Frame& frame, T result) {
  if (!instruction.outputs.empty()) frame[instruction.outputs[0]] = Value::of(result);
  return true;
}

inline bool give_value(const Instruction& instruction, Frame& frame, const Value& result) {
  if (!instruction.outputs.empty()) frame[instruction.outputs[0]] = Value(result);
  return true;
}

}  // namespace numbers
}  // namespace dy2st
