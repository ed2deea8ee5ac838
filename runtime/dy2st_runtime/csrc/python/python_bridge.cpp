#include <Python.h>

#include "../python_bridge.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_arg_parser.h>

#include "owned.h"

namespace dy2st {
namespace {

PyObject* tuple_to_python(const Items& items) {
  const auto size = static_cast<Py_ssize_t>(items.values.size());
  Owned made(PyTuple_New(size));
  for (Py_ssize_t index = 0; index < size; ++index) {
    PyTuple_SET_ITEM(made.get(), index, to_python(items.values[index]));
  }
  if (!items.is_size) return made.release();
  static PyObject* const size_class = PyObject_GetAttrString(Owned(PyImport_ImportModule("torch")).get(), "Size");
  return Owned(PyObject_CallOneArg(size_class, made.get())).release();
}

// From now on the list is this list of Python.
PyObject* list_to_python(Items& items) {
  if (items.python == nullptr) {
    items.python = Owned(PyList_New(0)).release();
    std::vector<Value> values;
    values.swap(items.values);
    for (const Value& value : values) {
      Owned item(to_python(value));
      if (PyList_Append(items.python, item.get()) != 0) throw_python_error();
    }
  }
  Py_INCREF(items.python);
  return items.python;
}

PyObject* python_function(const Program& program, const Instruction& instruction) {
  if (instruction.function == nullptr) {
    const auto index = static_cast<Py_ssize_t>(&instruction - program.instructions.data());
    PyObject* made = Owned(PyObject_CallFunction(program.resolve, "n", index)).release();
    if (instruction.function == nullptr) {
      instruction.function = made;
    } else {
      Py_DECREF(made);  // another thread was faster
    }
  }
  return instruction.function;
}

// Needs the GIL. What the Python function of an instruction gives for these values; a new reference.
PyObject* called(const Program& program, const Instruction& instruction, const std::vector<Value>& values) {
  PyObject* function = python_function(program, instruction);
  std::vector<PyObject*> arguments;
  const auto forget = [&] {
    for (PyObject* argument : arguments) Py_DECREF(argument);
  };
  try {
    for (const Value& value : values) arguments.push_back(to_python(value));
    Owned result(PyObject_Vectorcall(function, arguments.data(), arguments.size(), nullptr));
    forget();
    return result.release();
  } catch (...) {
    forget();
    throw;
  }
}

void store_results(const Instruction& instruction, Frame& frame, PyObject* result) {
  const auto& outputs = instruction.outputs;
  if (!instruction.spread) {
    if (!outputs.empty()) frame[outputs[0]] = from_python(result);
    return;
  }
  Owned parts(PySequence_Tuple(result));
  for (size_t index = 0; index < outputs.size(); ++index) {
    if (outputs[index] < 0) continue;
    Owned part(PySequence_GetItem(parts.get(), static_cast<Py_ssize_t>(index)));
    frame[outputs[index]] = from_python(part.get());
  }
}

}  // namespace

Gil::Gil() : state_(static_cast<int>(PyGILState_Ensure())) {}
Gil::~Gil() { PyGILState_Release(static_cast<PyGILState_STATE>(state_)); }

void release_object(Object* object) noexcept {
  Gil gil;
  Py_DECREF(object);
}

void retain_object(Object* object) noexcept {
  Gil gil;
  Py_INCREF(object);
}

Value from_python(Object* object) {
  if (THPVariable_CheckExact(object)) return Value::of(THPVariable_Unpack(object));
  if (object == Py_None) return Value::none();
  if (PyBool_Check(object)) return Value::of(object == Py_True);
  if (PyFloat_CheckExact(object)) return Value::of(PyFloat_AS_DOUBLE(object));
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) return Value::of(static_cast<int64_t>(number));
  }
  Py_INCREF(object);
  return Value::stealing(object);
}

Object* to_python(const Value& value) {
  switch (value.kind()) {
    case Kind::Bool:
      return PyBool_FromLong(value.as_bool());
    case Kind::Int:
      return Owned(PyLong_FromLongLong(value.as_int())).release();
    case Kind::Float:
      return Owned(PyFloat_FromDouble(value.as_float())).release();
    case Kind::Tensor:
      return Owned(THPVariable_Wrap(value.tensor())).release();
    case Kind::List:
      return list_to_python(value.items());
    case Kind::Tuple:
      return tuple_to_python(value.items());
    case Kind::Object:
      Py_INCREF(value.object());
      return value.object();
    default:
      Py_RETURN_NONE;
  }
}

std::optional<c10::IValue> constant_of(Object* object, const c10::TypePtr& given) {
  using c10::TypeKind;
  c10::TypePtr type = given;
  if (type->kind() == TypeKind::OptionalType) type = type->castRaw<c10::OptionalType>()->getElementType();
  const auto kind = type->kind();
  const auto enumeration = [&](TypeKind expected) { return kind == expected || kind == TypeKind::IntType; };
  if (enumeration(TypeKind::ScalarTypeType) && THPDtype_Check(object)) {
    return c10::IValue(static_cast<int64_t>(reinterpret_cast<THPDtype*>(object)->scalar_type));
  }
  if (enumeration(TypeKind::LayoutType) && THPLayout_Check(object)) {
    return c10::IValue(static_cast<int64_t>(reinterpret_cast<THPLayout*>(object)->layout));
  }
  if (enumeration(TypeKind::MemoryFormatType) && THPMemoryFormat_Check(object)) {
    return c10::IValue(static_cast<int64_t>(reinterpret_cast<THPMemoryFormat*>(object)->memory_format));
  }
  if (kind == TypeKind::DeviceObjType && THPDevice_Check(object)) {
    return c10::IValue(reinterpret_cast<THPDevice*>(object)->device);
  }
  if (kind == TypeKind::StringType && PyUnicode_CheckExact(object)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) throw_python_error();
    return c10::IValue(std::string(text, static_cast<size_t>(size)));
  }
  if (kind == TypeKind::NumberType && PyComplex_CheckExact(object)) {
    return c10::IValue(c10::complex<double>(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object)));
  }
  return std::nullopt;
}

void call_python(const Program& program, const Instruction& instruction, Frame& frame) {
  Gil gil;
  if (frame.keeper != nullptr && !instruction.is_own) tell_kept(program, frame);  // a block of the program may keep something in there
  std::vector<Value> values;
  for (int32_t source : instruction.reads) values.push_back(frame[source]);
  Owned result(called(program, instruction, values));
  store_results(instruction, frame, result.get());
}

void hold_python(Frame& frame) {
  if (frame.holds_python) return;
  PyEval_RestoreThread(static_cast<PyThreadState*>(frame.python));
  frame.holds_python = true;
}

void release_python(Frame& frame) {
  if (!frame.holds_python) return;
  frame.python = PyEval_SaveThread();
  frame.holds_python = false;
}

void tell_kept(const Program& program, Frame& frame) {
  Gil gil;
  const Instruction* keeper = std::exchange(frame.keeper, nullptr);
  if (keeper == nullptr) return;
  std::vector<Value> values;
  values.swap(frame.kept);
  Owned(called(program, *keeper, values));
}

Object* list_in_python(const Value& value) {
  if (value.is(Kind::List)) return value.items().python;
  return value.is(Kind::Object) && PyList_CheckExact(value.object()) ? value.object() : nullptr;
}

namespace {

// Whether an object is a tuple whose class takes its items as Python's own does.
bool is_tuple(Object* object) {
  return PyTuple_Check(object) && Py_TYPE(object)->tp_as_mapping != nullptr &&
         Py_TYPE(object)->tp_as_mapping->mp_subscript == PyTuple_Type.tp_as_mapping->mp_subscript;
}

// Where an index is in a list or tuple, or -1.
Py_ssize_t place_in(Object* sequence, const Value& index) {
  if (!index.is(Kind::Int)) return -1;
  const Py_ssize_t size = Py_SIZE(sequence);
  const int64_t place = index.as_int() < 0 ? index.as_int() + size : index.as_int();
  return place < size ? static_cast<Py_ssize_t>(place) : -1;
}

}  // namespace

bool get_in_python(Frame& frame, Object* sequence, const Value& index, Value& to) {
  hold_python(frame);
  const bool is_list = PyList_CheckExact(sequence);
  if (!is_list && !is_tuple(sequence)) return false;
  const Py_ssize_t place = place_in(sequence, index);
  if (place < 0) return false;
  to = from_python(is_list ? PyList_GET_ITEM(sequence, place) : PyTuple_GET_ITEM(sequence, place));
  return true;
}

bool set_in_python(Frame& frame, Object* list, const Value& index, const Value& item) {
  hold_python(frame);
  const Py_ssize_t place = place_in(list, index);
  if (place < 0) return false;
  Owned replaced(Py_NewRef(PyList_GET_ITEM(list, place)));
  PyList_SetItem(list, place, to_python(item));
  return true;
}

bool append_in_python(Frame& frame, Object* list, const Value& item) {
  hold_python(frame);
  Owned added(to_python(item));
  if (PyList_Append(list, added.get()) != 0) throw_python_error();
  return true;
}

bool length_in_python(Frame& frame, Object* list, Value& to) {
  hold_python(frame);
  to = Value::of(static_cast<int64_t>(PyList_GET_SIZE(list)));
  return true;
}

void note_autocast(const Instruction& instruction, Frame& frame) {
  Gil gil;
  auto& open = frame.autocasts;
  if (instruction.opcode == Opcode::Enter) {
    open.push_back(to_python(frame[instruction.outputs[0]]));
    return;
  }
  Owned left(to_python(frame[instruction.reads[0]]));
  for (auto mode = open.rbegin(); mode != open.rend(); ++mode) {
    if (*mode != left.get()) continue;
    Py_DECREF(*mode);
    open.erase(std::next(mode).base());
    return;
  }
}

bool truth_in_python(const Value& value) {
  Gil gil;
  Owned object(to_python(value));
  const int result = PyObject_IsTrue(object.get());
  if (result < 0) throw_python_error();
  return result != 0;
}

bool takes_numbers(const std::string& name) { return torch::should_allow_numbers_as_tensors(name); }

void check_signals() {
  Gil gil;
  if (PyErr_CheckSignals() != 0) throw_python_error();
}

void raise_in_python() { torch::translate_exception_to_python(std::current_exception()); }

Program::~Program() {
  Gil gil;
  for (Instruction& instruction : instructions) Py_XDECREF(instruction.function);
  Py_XDECREF(resolve);
  Py_XDECREF(leave_autocast);
}

}  // namespace dy2st
