#include "inputs.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/python_variable.h>

#include "../observe.h"
#include "../python_bridge.h"
#include "classes.h"

namespace dy2st {
namespace {

// Whether small operations may do without the dispatcher.
bool is_unobserved() {
  const auto excluded = c10::impl::tls_local_dispatch_key_set().excluded_;
  return excluded == c10::default_excluded_set && !at::hasCallbacks() && !c10::InferenceMode::is_enabled();
}

// Whether somebody is called when its gradient comes, and may see in which order gradients do.
bool is_hooked(const at::Tensor& tensor) {
  using namespace torch::autograd;
  if (!impl::hooks(tensor).empty() || impl::post_acc_grad_hooks(tensor) != nullptr) return true;
  const auto accumulator = impl::try_get_grad_accumulator(tensor);
  return accumulator && !(accumulator->pre_hooks().empty() && accumulator->post_hooks().empty());
}

// What the tensors among the inputs say of a run.
struct Found {
  bool gradients = false, tangents = false, hooked = false, held = false, of_other_class = false;

  void add(const at::Tensor& tensor, bool in_list) {
    gradients = gradients || tensor.requires_grad();
    hooked = hooked || (tensor.requires_grad() && is_hooked(tensor));
    held = held || (tensor.requires_grad() && in_list);
    tangents = tangents || tensor._fw_grad(0).defined() || tensor.key_set().has(c10::DispatchKey::Python);
  }
};

// What is in an object that is an item of a list; where that cannot be told, there may be anything.
void look_into(PyObject* object, Found& found, int depth = 0) {
  if (THPVariable_CheckExact(object)) return found.add(THPVariable_Unpack(object), true);
  if (THPVariable_Check(object)) {
    found.of_other_class = true;
    return;
  }
  if (is_cell(object)) return look_into(items_of(object), found, depth + 1);
  const bool holds_nothing = object == Py_None || PyUnicode_Check(object) || PyLong_Check(object) || PyFloat_Check(object) ||
                             PyBytes_Check(object) || PyComplex_Check(object) || PyType_Check(object);
  if (holds_nothing) return;
  if (depth > 64) {
    found.gradients = found.held = true;
  } else if (PyList_Check(object)) {
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(object); ++index) look_into(PyList_GET_ITEM(object, index), found, depth + 1);
  } else if (PyTuple_Check(object)) {
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(object); ++index) look_into(PyTuple_GET_ITEM(object, index), found, depth + 1);
  } else if (PyDict_Check(object)) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &item)) look_into(item, found, depth + 1);
  } else {
    PyObject* table = PyObject_GenericGetDict(object, nullptr);
    if (table == nullptr) {  // it has slots
      PyErr_Clear();
      found.gradients = found.held = true;
    } else {
      look_into(table, found, depth + 1);
      Py_DECREF(table);
    }
  }
}

// A list is one of its own; what is in it stays the object that it is, since Python tells that.
Value load_input(PyObject* object, Found& found) {
  if (PyList_CheckExact(object)) {
    std::vector<Value> values;
    values.reserve(static_cast<size_t>(PyList_GET_SIZE(object)));
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(object); ++index) {
      PyObject* item = PyList_GET_ITEM(object, index);
      values.push_back(from_python(item));
      look_into(item, found);
    }
    return Value::list(std::move(values));
  }
  Value value = from_python(object);
  if (value.is(Kind::Tensor)) {
    found.add(value.tensor(), false);
  } else if (value.is(Kind::Object) && (PyTuple_Check(object) || THPVariable_Check(object))) {
    look_into(object, found);
  }
  return value;
}

}  // namespace

bool load_inputs(const Program& program, Frame& frame, PyObject* const* values) {
  Found found;
  for (size_t index = 0; index < program.inputs.size(); ++index) {
    frame[program.inputs[index]] = load_input(values[index], found);
    if (found.of_other_class) return false;
  }
  if (found.tangents) return false;
  const bool recorded = found.gradients && (program.switches_grad || at::GradMode::is_enabled());
  frame.gradients = found.gradients;
  frame.unobserved = is_unobserved();
  frame.counted = counting;
  frame.labelled = at::hasCallbacks();
  frame.skips_autograd = program.may_skip_autograd && !recorded && !c10::InferenceMode::is_enabled();
  frame.records = program.may_skip_autograd && !*program.traced_back && recorded && !found.hooked && !found.held &&
                  frame.unobserved &&
                  !torch::autograd::AnomalyMode::is_enabled() && !at::SavedTensorDefaultHooks::get_hooks();
  if (frame.records) frame.first_node = at::sequence_number::peek();
  return true;
}

}  // namespace dy2st
