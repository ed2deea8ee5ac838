#include "listing.h"

#include <iomanip>
#include <sstream>

namespace dy2st {
namespace {

const char* name_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::Do: return "do";
    case Opcode::Jump: return "jump";
    case Opcode::Unless: return "unless";
    case Opcode::Move: return "move";
    case Opcode::Assert: return "assert";
    case Opcode::Grad: return "grad";
    case Opcode::Enter: return "enter";
    case Opcode::Exit: return "exit";
    case Opcode::Return: return "return";
  }
  return "?";
}

template <class Numbers>
void write(std::ostream& to, const char* what, const Numbers& numbers) {
  if (numbers.empty()) return;
  to << ' ' << what << '(';
  for (size_t index = 0; index < numbers.size(); ++index) to << (index > 0 ? " " : "") << static_cast<int64_t>(numbers[index]);
  to << ')';
}

void write(std::ostream& to, const Value& value, const std::function<std::string(const Value&)>& of_object) {
  switch (value.kind()) {
    case Kind::None: to << "None"; break;
    case Kind::Bool: to << (value.as_bool() ? "True" : "False"); break;
    case Kind::Int: to << "int " << value.as_int(); break;
    case Kind::Float: to << "float " << value.as_float(); break;
    case Kind::Object: to << of_object(value); break;
    default: to << "value of kind " << static_cast<int>(value.kind()); break;
  }
}

void write(std::ostream& to, const Argument& argument) {
  to << " [" << static_cast<int>(argument.want) << (argument.optional ? "?" : "");
  if (argument.is_list) {
    write(to, "list", argument.sources);
  } else if (argument.source >= 0) {
    to << " from " << argument.source;
  } else {
    to << ' ' << argument.constant;
  }
  if (argument.number_as_tensor) to << " number " << argument.number_source << " with " << argument.partner;
  write(to, "ints", argument.ints);
  to << ']';
}

}  // namespace

std::string listing(const Program& program, const std::function<std::string(const Value&)>& of_object) {
  std::ostringstream text;
  text << std::setprecision(17) << program.registers << " registers";
  write(text, "inputs", program.inputs);
  write(text, "outputs", program.outputs);
  for (const Value& constant : program.constants) {
    text << "\nconstant ";
    write(text, constant, of_object);
  }
  for (const Instruction& instruction : program.instructions) {
    text << '\n' << name_of(instruction.opcode) << ' ' << instruction.name << (instruction.spread ? " spread" : "");
    if (instruction.target >= 0) text << " to " << instruction.target;
    for (const Argument& argument : instruction.arguments) write(text, argument);
    write(text, "inputs", instruction.inputs);
    write(text, "outputs", instruction.outputs);
    write(text, "dead", instruction.dead);
    write(text, "reads", instruction.reads);
    write(text, "last", instruction.last);
  }
  return text.str();
}

}  // namespace dy2st
