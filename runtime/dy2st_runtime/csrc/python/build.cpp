#include "build.h"

#include <torch/csrc/Exceptions.h>

#include "../assemble.h"
#include "../calls/gradients.h"
#include "../python_bridge.h"
#include "objects.h"

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

std::vector<int32_t> numbers(PyObject* object) {
  TORCH_CHECK(PyTuple_Check(object) || PyList_Check(object), "dy2st: a sequence of registers is expected");
  std::vector<int32_t> found;
  for (Py_ssize_t index = 0; index < PySequence_Fast_GET_SIZE(object); ++index) {
    found.push_back(number(PySequence_Fast_GET_ITEM(object, index)));
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
    argument.source = register_in(program, number(object));
  } else if (PyList_CheckExact(object)) {
    argument.is_list = true;
    argument.sources = registers_in(program, numbers(object));
  } else if (PyTuple_GET_SIZE(object) == 0) {
    return take_default(parameter, argument);
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
  instruction.op = operator_of(instruction.name);
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

Instruction make(Program& program, PyObject* described) {
  enum { kKind, kName, kOutputs, kInputs, kArguments, kDead, kReads, kTarget, kSpread, kLabel };
  const auto part = [&](Py_ssize_t index) { return PyTuple_GET_ITEM(described, index); };
  Step step;
  step.kind = text(part(kKind));
  step.name = text(part(kName));
  step.outputs = numbers(part(kOutputs));
  step.inputs = numbers(part(kInputs));
  step.dead = numbers(part(kDead));
  step.reads = numbers(part(kReads));
  step.target = number(part(kTarget));
  step.spread = part(kSpread) == Py_True;
  Instruction instruction = assembled(program, step);
  instruction.label = text(part(kLabel));
  PyObject* arguments = part(kArguments);
  if (step.kind == "python" && PyTuple_GET_SIZE(arguments) == 2) {
    const std::string name = text(PyTuple_GET_ITEM(arguments, 0));
    instruction.handler = gradient_handler(name);
    if (instruction.handler == nullptr) instruction.handler = object_handler(name);
    instruction.numbers = numbers(PyTuple_GET_ITEM(arguments, 1));
  }
  if (step.kind == "operator" && !describe_operator(program, instruction, arguments)) instruction.handler = nullptr;
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
  program->inputs = registers_in(*program, numbers(entry(description, "inputs")));
  program->outputs = registers_in(*program, numbers(entry(description, "outputs")));
  PyObject* instructions = entry(description, "instructions");
  for (Py_ssize_t index = 0; index < PyList_Size(instructions); ++index) {
    program->instructions.push_back(make(*program, PyList_GET_ITEM(instructions, index)));
  }
  return program;
}

}  // namespace dy2st
