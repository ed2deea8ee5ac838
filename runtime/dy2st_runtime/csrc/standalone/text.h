// Strings among the values of a program, and what Python would have done to raise, print, warn or differentiate.
#pragma once

#include <string>
#include <vector>

#include "../program.h"
#include "files/json.h"

namespace dy2st {

Value text_value(std::string text);
const std::string& text_of(const Value& value);  // of one that text_value made
// As Python's repr.
std::string number_text(double number);
// A number, string, truth value or None as archives write it; throws Error for any other constant.
Value constant_value(const Json& json);

// A value that a text shows: of a register, a constant, or a list or tuple of such.
struct Operand {
  int32_t source = -1;
  Kind kind = Kind::Empty;  // List or Tuple, if it has items
  Value constant;
  std::vector<Operand> items;
};

// The value of an operand in a run.
Value value_of(const Operand& operand, Frame& frame);

// An operation that the machine leaves to Python, and that is done here. Instructions keep it as their function.
struct Deed {
  enum class Kind : uint8_t { Raise, Assert, Print, Format, Warn, Other };
  // A part of a text: as it is, or a value with its conversion.
  struct Part {
    std::string text;
    Operand shown;
    char conversion = 0;  // 0 for text as it is
  };
  Kind kind = Kind::Raise;
  std::string exception;  // or the category of a warning
  std::vector<std::vector<Part>> arguments;  // of the exception; the text that is printed or made
  std::string end;  // of what is printed; the file and line of a warning
  Value (*other)(const std::vector<Value>& given) = nullptr;
  std::vector<Operand> operands;  // what that is given
};

}  // namespace dy2st
