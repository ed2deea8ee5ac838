#include "assemble.h"

#include <algorithm>
#include <map>

namespace dy2st {
namespace {

const std::map<std::string, Opcode> opcodes = {
    {"jump", Opcode::Jump}, {"unless", Opcode::Unless}, {"move", Opcode::Move},     {"assert", Opcode::Assert},
    {"grad", Opcode::Grad}, {"enter", Opcode::Enter},   {"exit", Opcode::Exit},     {"return", Opcode::Return},
    {"number", Opcode::Do}, {"list", Opcode::Do},       {"operator", Opcode::Do},   {"python", Opcode::Do},
};

// A moved register that dies is not copied.
void find_last(Instruction& instruction) {
  instruction.last.assign(instruction.inputs.size(), 0);
  for (size_t index = 0; index < instruction.inputs.size(); ++index) {
    const auto same = [&](int32_t other) { return other == instruction.inputs[index]; };
    const bool dies = std::any_of(instruction.dead.begin(), instruction.dead.end(), same);
    instruction.last[index] = dies && std::none_of(instruction.inputs.begin() + index + 1, instruction.inputs.end(), same);
  }
}

}  // namespace

int32_t register_in(const Program& program, int32_t given) {
  if (given < -1) return -2 - given;
  return given < 0 ? given : given + static_cast<int32_t>(program.constants.size());
}

std::vector<int32_t> registers_in(const Program& program, const std::vector<int32_t>& given) {
  std::vector<int32_t> found;
  for (int32_t one : given) found.push_back(register_in(program, one));
  return found;
}

Instruction assembled(const Program& program, const Step& step) {
  Instruction instruction;
  const auto opcode = opcodes.find(step.kind);
  TORCH_CHECK(opcode != opcodes.end(), "dy2st: there is no instruction ", step.kind);
  instruction.opcode = opcode->second;
  instruction.name = step.name;
  instruction.outputs = registers_in(program, step.outputs);
  instruction.inputs = registers_in(program, step.inputs);
  instruction.dead = registers_in(program, step.dead);
  instruction.reads = registers_in(program, step.reads);
  instruction.target = step.target;
  instruction.spread = step.spread;
  instruction.is_own = step.kind == "list" || step.name.rfind("item_", 0) == 0 || step.name.rfind("list_", 0) == 0;
  if (step.kind == "number") instruction.handler = number_handler(step.name);
  if (step.kind == "list") instruction.handler = list_handler(step.name);
  if (step.kind == "number" || step.kind == "list") instruction.aliases = false, instruction.only_reads = true;
  if (step.kind == "move") find_last(instruction);
  return instruction;
}

std::optional<c10::OperatorHandle> operator_of(const std::string& name) {
  const auto dot = name.find('.');
  return c10::Dispatcher::singleton().findSchema({name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
}

bool take_default(const c10::Argument& parameter, Argument& argument) {
  const auto& standard = parameter.default_value();
  if (!standard) return false;
  argument.constant = *standard;
  if (standard->isIntList()) argument.ints = standard->toIntVector();
  return true;
}

}  // namespace dy2st
