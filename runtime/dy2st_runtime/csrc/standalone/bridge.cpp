// Stands in for python_bridge.cpp where there is no Python: strings are the only objects, and what would be left to Python is an
// error, or done by a Deed.
#include "../python_bridge.h"

#include <ATen/core/Formatting.h>

#include <atomic>
#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>
#include <set>

#include "files/json.h"
#include "text.h"

namespace dy2st {
namespace {

struct Text {
  std::atomic<int64_t> count{1};
  std::string text;
};

Text* as_text(Object* object) { return reinterpret_cast<Text*>(object); }

std::string in_quotes(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string made(1, quote);
  for (char one : text) {
    if (one == quote || one == '\\') made += '\\';
    made += one == '\n' ? std::string("\\n") : std::string(1, one);
  }
  return made + quote;
}

std::string shown(const Value& value, char conversion) {
  switch (value.kind()) {
    case Kind::Bool:
      return value.as_bool() ? "True" : "False";
    case Kind::Int:
      return std::to_string(value.as_int());
    case Kind::Float:
      return number_text(value.as_float());
    case Kind::None:
      return "None";
    case Kind::Object:
      return conversion == 's' ? text_of(value) : in_quotes(text_of(value));
    case Kind::List:
    case Kind::Tuple: {
      const auto& items = value.items().values;
      std::string made = value.is(Kind::List) ? "[" : "(";
      for (size_t index = 0; index < items.size(); ++index) made += (index > 0 ? ", " : "") + shown(items[index], 'r');
      return made + (value.is(Kind::List) ? "]" : items.size() == 1 ? ",)" : ")");
    }
    default:
      throw Error("the text of a tensor needs Python");
  }
}

std::string joined(const std::vector<Deed::Part>& parts, Frame& frame) {
  std::string made;
  for (const auto& part : parts) made += part.conversion == 0 ? part.text : shown(value_of(part.shown, frame), part.conversion);
  return made;
}

[[noreturn]] void raise(const Deed& deed, Frame& frame) {
  std::string message;
  for (const auto& argument : deed.arguments) {
    message += message.empty() ? ": " : ", ";
    try {
      message += joined(argument, frame);
    } catch (const Error&) {
      message += "...";  // of a tensor; what is raised matters more than its words
    }
  }
  throw Error(deed.exception + message);
}

// As Python's standard filters: each text once for each line, and nothing that is for developers.
void warn(const Deed& deed, Frame& frame) {
  static const std::set<std::string> hidden = {"DeprecationWarning", "PendingDeprecationWarning", "ImportWarning", "ResourceWarning"};
  static std::set<std::string> shown;
  const std::string line = deed.end + ": " + deed.exception + ": " + joined(deed.arguments[0], frame);
  if (hidden.count(deed.exception) == 0 && shown.insert(line).second) std::cerr << line << std::endl;
}

}  // namespace

// As Python's repr: the shortest digits that give the number back.
std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char digits[64];
  const auto format = number != 0 && (std::abs(number) < 1e-4 || std::abs(number) >= 1e16) ? std::chars_format::scientific
                                                                                          : std::chars_format::fixed;
  const auto written = std::to_chars(digits, digits + sizeof digits, number, format);
  std::string made(digits, written.ptr);
  return made.find_first_of(".e") == std::string::npos ? made + ".0" : made;
}

Value value_of(const Operand& operand, Frame& frame) {
  if (operand.source >= 0) return frame[operand.source];
  if (operand.kind == Kind::Empty) return operand.constant;
  std::vector<Value> items;
  for (const Operand& item : operand.items) items.push_back(value_of(item, frame));
  return operand.kind == Kind::List ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value text_value(std::string text) {
  auto* made = new Text;
  made->text = std::move(text);
  return Value::stealing(reinterpret_cast<Object*>(made));
}

Value constant_value(const Json& json) {
  switch (json.kind()) {
    case Json::Kind::Null:
      return Value::none();
    case Json::Kind::Bool:
      return Value::of(json.boolean());
    case Json::Kind::Int:
      return Value::of(json.integer());
    case Json::Kind::Float:
      return Value::of(json.number());
    case Json::Kind::Object:
      if (const Json* text = json.find("str")) return text_value(text->text());
      if (const Json* name = json.find("float")) {
        const double limit = std::numeric_limits<double>::infinity();
        return Value::of(name->text() == "inf" ? limit : name->text() == "-inf" ? -limit : std::numeric_limits<double>::quiet_NaN());
      }
      [[fallthrough]];
    default:
      throw Error("a constant of another kind than numbers and strings needs Python");
  }
}

const std::string& text_of(const Value& value) { return as_text(value.object())->text; }

void release_object(Object* object) noexcept {
  if (--as_text(object)->count == 0) delete as_text(object);
}

void retain_object(Object* object) noexcept { ++as_text(object)->count; }

void call_python(const Program&, const Instruction& instruction, Frame& frame) {
  const auto* deed = reinterpret_cast<const Deed*>(instruction.function);
  if (deed == nullptr) {
    throw Error(instruction.name + " is given something that needs Python, or would raise there: a division by zero, an index out of range, "
                                   "a number beyond 64 bits");
  }
  switch (deed->kind) {
    case Deed::Kind::Raise:
    case Deed::Kind::Assert:
      raise(*deed, frame);
    case Deed::Kind::Print:
      std::cout << joined(deed->arguments[0], frame) << deed->end;
      break;
    case Deed::Kind::Format:
      frame[instruction.outputs[0]] = text_value(joined(deed->arguments[0], frame));
      break;
    case Deed::Kind::Warn:
      warn(*deed, frame);
      break;
    case Deed::Kind::Other: {
      std::vector<Value> given;
      for (const Operand& operand : deed->operands) given.push_back(value_of(operand, frame));
      frame[instruction.outputs[0]] = deed->other(given);
      break;
    }
  }
}

void note_autocast(const Instruction&, Frame&) {}
void hold_python(Frame&) {}
void release_python(Frame&) {}
Object* list_in_python(const Value&) { return nullptr; }
bool get_in_python(Frame&, Object*, const Value&, Value&) { return false; }
bool set_in_python(Frame&, Object*, const Value&, const Value&) { return false; }
bool append_in_python(Frame&, Object*, const Value&) { return false; }
bool length_in_python(Frame&, Object*, Value&) { return false; }

bool truth_in_python(const Value& value) {
  if (value.is(Kind::Object)) return !text_of(value).empty();
  throw Error("the truth of this value needs Python");
}

void check_signals() {}

bool takes_numbers(const std::string& name) {
  static const std::set<std::string> names = {
      "add", "add_", "add_out", "sub", "sub_", "sub_out", "mul", "mul_", "mul_out", "div", "div_", "div_out", "divide", "divide_",
      "divide_out", "multiply", "multiply_", "multiply_out", "subtract", "subtract_", "subtract_out", "true_divide", "true_divide_",
      "true_divide_out", "to", "_to_copy", "copy_", "copy", "floor_divide", "floor_divide_", "floor_divide_out", "_conj"};
  return names.count(name) > 0;
}

Program::~Program() = default;

}  // namespace dy2st
