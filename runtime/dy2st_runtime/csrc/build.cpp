#include "build.h"

#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <map>

#include "python_bridge.h"

namespace dy2st {
namespace {

PyObject* checked(PyObject* object) {
  if (object == nullptr) {
    python_error error;
    error.persist();
    throw error;
  }
  return object;
}

int32_t number(PyObject* object) {
  const long result = PyLong_AsLong(object);
  if (result == -1 && PyErr_Occurred() != nullptr) checked(nullptr);
  return static_cast<int32_t>(result);
}

std::string text(PyObject* object) {
  const char* found = PyUnicode_AsUTF8(object);
  if (found == nullptr) checked(nullptr);
  return found;
}

// Constants have the numbers -2, -3, ... in a description, and the first registers here.
int32_t register_of(const Program& program, PyObject* object) {
  const int32_t given = number(object);
  if (given < -1) return -2 - given;
  return given < 0 ? given : given + static_cast<int32_t>(program.constants.size());
}

std::vector<int32_t> registers_of(const Program& program, PyObject* object) {
  TORCH_CHECK(PyTuple_Check(object) || PyList_Check(object), "dy2st: a sequence of registers is expected");
  std::vector<int32_t> found;
  for (Py_ssize_t index = 0; index < PySequence_Fast_GET_SIZE(object); ++index) {
    found.push_back(register_of(program, PySequence_Fast_GET_ITEM(object, index)));
  }
  return found;
}

PyObject* entry(PyObject* description, const char* name) {
  PyObject* found = PyDict_GetItemString(description, name);
  TORCH_CHECK(found != nullptr, "dy2st: the description of a program has no ", name);
  return found;
}

// What an argument is described by: (), a register, a list of registers, or a constant in a tuple.
bool describe(const Program& program, PyObject* object, const c10::Argument& parameter, Argument& argument) {
  if (PyLong_CheckExact(object)) {
    argument.source = register_of(program, object);
  } else if (PyList_CheckExact(object)) {
    argument.is_list = true;
    argument.sources = registers_of(program, object);
  } else if (PyTuple_GET_SIZE(object) == 0) {
    const auto standard = parameter.default_value();
    if (!standard) return false;
    argument.constant = *standard;
    if (standard->isIntList()) argument.ints = standard->toIntVector();
  } else if (PyTuple_GET_ITEM(object, 0) == Py_None) {
    return parameter.real_type()->kind() == c10::TypeKind::OptionalType;  // the constant is None already
  } else {
    auto constant = constant_of(PyTuple_GET_ITEM(object, 0), parameter.real_type());
    if (!constant) return false;
    argument.constant = *constant;
  }
  return true;
}

bool describe_operator(Program& program, Instruction& instruction, PyObject* arguments) {
  const auto dot = instruction.name.find('.');
  const std::string overload = dot == std::string::npos ? "" : instruction.name.substr(dot + 1);
  instruction.op = c10::Dispatcher::singleton().findSchema({instruction.name.substr(0, dot), overload});
  if (!instruction.op) return false;
  const auto& parameters = instruction.op->schema().arguments();
  if (PyTuple_GET_SIZE(arguments) != static_cast<Py_ssize_t>(parameters.size())) return false;
  for (size_t index = 0; index < parameters.size(); ++index) {
    Argument argument;
    if (!describe(program, PyTuple_GET_ITEM(arguments, index), parameters[index], argument)) return false;
    instruction.arguments.push_back(std::move(argument));
  }
  return prepare_operator(program, instruction);
}

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

Instruction make(Program& program, PyObject* described) {
  enum { kKind, kName, kOutputs, kInputs, kArguments, kDead, kReads, kTarget, kSpread, kLabel };
  const auto part = [&](Py_ssize_t index) { return PyTuple_GET_ITEM(described, index); };
  Instruction instruction;
  const std::string kind = text(part(kKind));
  const auto opcode = opcodes.find(kind);
  TORCH_CHECK(opcode != opcodes.end(), "dy2st: there is no instruction ", kind);
  instruction.opcode = opcode->second;
  instruction.name = text(part(kName));
  instruction.outputs = registers_of(program, part(kOutputs));
  instruction.inputs = registers_of(program, part(kInputs));
  instruction.dead = registers_of(program, part(kDead));
  instruction.reads = registers_of(program, part(kReads));
  instruction.target = number(part(kTarget));
  instruction.spread = part(kSpread) == Py_True;
  instruction.label = text(part(kLabel));
  if (kind == "number") instruction.handler = number_handler(instruction.name);
  if (kind == "list") instruction.handler = list_handler(instruction.name);
  if (kind == "operator" && !describe_operator(program, instruction, part(kArguments))) instruction.handler = nullptr;
  if (kind == "number" || kind == "list") instruction.aliases = false, instruction.only_reads = true;
  if (kind == "move") find_last(instruction);
  return instruction;
}

}  // namespace

std::unique_ptr<Program> build(PyObject* description) {
  auto program = std::make_unique<Program>();
  program->resolve = Py_NewRef(entry(description, "resolve"));
  program->leave_autocast = Py_NewRef(entry(description, "leave_autocast"));
  program->may_skip_autograd = entry(description, "may_skip_autograd") == Py_True;
  program->switches_grad = entry(description, "switches_grad") == Py_True;
  PyObject* constants = entry(description, "constants");
  for (Py_ssize_t index = 0; index < PyList_Size(constants); ++index) {
    program->constants.push_back(from_python(PyList_GET_ITEM(constants, index)));
  }
  program->registers = program->constants.size() + static_cast<size_t>(number(entry(description, "registers")));
  program->inputs = registers_of(*program, entry(description, "inputs"));
  program->outputs = registers_of(*program, entry(description, "outputs"));
  PyObject* instructions = entry(description, "instructions");
  for (Py_ssize_t index = 0; index < PyList_Size(instructions); ++index) {
    program->instructions.push_back(make(*program, PyList_GET_ITEM(instructions, index)));
  }
  return program;
}

}  // namespace dy2st
