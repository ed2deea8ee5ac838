#include "holding.h"

#include <torch/csrc/autograd/python_variable.h>

#include <unordered_map>
#include <unordered_set>

#include "classes.h"

namespace dy2st {
namespace {

class Search {
 public:
  Search(PyObject* values, PyObject* is_plain, PyObject* others) : values_(values), is_plain_(is_plain) {
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(others); ++index) others_.insert(PyTuple_GET_ITEM(others, index));
  }

  bool finds_in(PyObject* sequence) {
    Deeper deeper;
    const bool is_list = PyList_Check(sequence);
    for (Py_ssize_t index = 0; index < (is_list ? PyList_GET_SIZE(sequence) : PyTuple_GET_SIZE(sequence)); ++index) {
      if (finds(is_list ? PyList_GET_ITEM(sequence, index) : PyTuple_GET_ITEM(sequence, index))) return true;
    }
    return false;
  }

 private:
  bool finds(PyObject* item) {
    if (is_cell(item)) return finds_in(items_of(item));
    if (PyLong_CheckExact(item) || PyFloat_CheckExact(item) || PyUnicode_CheckExact(item) || item == Py_None || THPVariable_Check(item)) {
      return false;
    }
    if (PyTuple_Check(item)) return finds_in(item);
    if (!PyList_Check(item) && !PyDict_Check(item) && !is_container(Py_TYPE(item))) return false;
    if (others_.count(item) != 0) return true;
    if (!seen_.insert(item).second) return false;
    if (PyList_Check(item)) return finds_in(item);
    Deeper deeper;
    if (PyDict_Check(item)) return finds_under(item, true);
    const ClassLayout& layout = layout_of(Py_TYPE(item));
    if (layout.has_table && finds_under(table_of(item).get(), false)) return true;
    for (const Slot& slot : layout.slots) {
      const Owned part = in_slot(slot, item);
      if (part.get() != nullptr && finds(part.get())) return true;
    }
    return false;
  }

  bool finds_under(PyObject* table, bool is_dict) {
    PyObject *key = nullptr, *part = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(table, &position, &key, &part)) {
      if ((is_dict || !is_hidden(key)) && finds(part)) return true;
    }
    return false;
  }

  bool is_container(PyTypeObject* kind) {
    const auto known = containers_.find(kind);
    if (known != containers_.end()) return known->second;
    bool found = true;
    for (Py_ssize_t index = 0; found && index < PyTuple_GET_SIZE(values_); ++index) {
      found = !PyType_IsSubtype(kind, reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(values_, index)));
    }
    if (found) {
      const Owned answer(PyObject_CallOneArg(is_plain_, reinterpret_cast<PyObject*>(kind)));
      found = PyObject_IsTrue(answer.get()) == 1;
    }
    containers_[kind] = found;
    return found;
  }

  PyObject *values_, *is_plain_;
  std::unordered_set<PyObject*> others_, seen_;
  std::unordered_map<PyTypeObject*, bool> containers_;
};

}  // namespace

bool holds_one_of(PyObject* items, PyObject* values, PyObject* is_plain, PyObject* others) {
  const Owned sequence(PySequence_Fast(items, "what is in a list is looked at"));
  return Search(values, is_plain, others).finds_in(sequence.get());
}

}  // namespace dy2st
