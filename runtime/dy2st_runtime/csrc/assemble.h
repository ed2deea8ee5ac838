// From what a lowering gives, executors/native/lowering.py or standalone/lowering, to an instruction.
#pragma once

#include <string>
#include <vector>

#include "program.h"

namespace dy2st {

// An instruction before the constants of its program have their registers: they have the numbers -2, -3, ... until then.
struct Step {
  std::string kind, name;
  std::vector<int32_t> outputs, inputs, dead, reads;
  int32_t target = -1;
  bool spread = false;
};

// The register in a program that has all its constants: those are the first.
int32_t register_in(const Program& program, int32_t given);
std::vector<int32_t> registers_in(const Program& program, const std::vector<int32_t>& given);

// Everything but the arguments of an operator.
Instruction assembled(const Program& program, const Step& step);

// The operator of a name with its overload; nothing where there is none.
std::optional<c10::OperatorHandle> operator_of(const std::string& name);

// False: the parameter has no default.
bool take_default(const c10::Argument& parameter, Argument& argument);

}  // namespace dy2st
