// Strings among the values of a program, and what Python would have done to raise or print.
#pragma once

#include <string>
#include <vector>

#include "../program.h"
#include "files/json.h"

namespace dy2st {

Value text_value(std::string text);
const std::string& text_of(const Value& value);  // of one that text_value made
// A number, string, truth value or None as archives write it; throws Error for any other constant.
Value constant_value(const Json& json);

// A value that a text shows: of a register, a constant, or a list or tuple of such.
struct Operand {
  int32_t source = -1;
  Kind kind = Kind::Empty;  // List or Tuple, if it has items
  Value constant;
  std::vector<Operand> items;
};

// An operation that the machine leaves to Python, and that is done here. Instructions keep it as their function.
struct Deed {
  enum class Kind : uint8_t { Raise, Assert, Print, Format };
  // A part of a text: as it is, or a value with its conversion.
  struct Part {
    std::string text;
    Operand shown;
    char conversion = 0;  // 0 for text as it is
  };
  Kind kind = Kind::Raise;
  std::string exception;
  std::vector<std::vector<Part>> arguments;  // of the exception; the text that is printed or made
  std::string end;
};

}  // namespace dy2st
