#include "cells.h"

#include <torch/csrc/autograd/python_variable.h>

#include <unordered_set>

#include "classes.h"

namespace dy2st {
namespace {

// The parts of an object, or of a dict, one after the other. A part may be given another value meanwhile, and there are no others.
template <class Visit>
void visit_table(PyObject* table, bool is_dict, Visit visit) {
  PyObject *key = nullptr, *part = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(table, &position, &key, &part)) {
    if (!is_dict && is_hidden(key)) continue;
    Owned name(Py_NewRef(key));
    visit(part, [&](PyObject* given) {
      Owned before(Py_NewRef(part));
      if (PyDict_SetItem(table, name.get(), given) != 0) throw_python_error();
    });
  }
}

template <class Visit>
void visit_parts(PyObject* value, const ClassLayout& layout, Visit visit) {
  if (PyDict_Check(value)) return visit_table(value, true, visit);
  if (layout.has_table) {
    Owned table = table_of(value);
    if (PyDict_Check(table.get())) visit_table(table.get(), false, visit);
  }
  for (const Slot& slot : layout.slots) {
    Owned part = in_slot(slot, value);
    if (part.get() == nullptr) continue;
    PyObject* described = slot.described.get();
    visit(part.get(), [&](PyObject* given) {
      if (Py_TYPE(described)->tp_descr_set(described, value, given) != 0) throw_python_error();
    });
  }
}

template <class Visit>
void visit_items(PyObject* value, Visit visit) {
  if (PyTuple_Check(value)) {
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(value); ++index) visit(PyTuple_GET_ITEM(value, index));
  } else {
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(value); ++index) visit(PyList_GET_ITEM(value, index));
  }
}

// Most values: it takes no look at their class to know that.
bool holds_nothing(PyObject* value) {
  return value == Py_None || PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) || PyBool_Check(value) ||
         THPVariable_CheckExact(value);
}

bool is_sequence(PyObject* value) { return PyList_Check(value) || PyTuple_Check(value); }

thread_local PyObject* closed_here = nullptr;

void note_owner(PyObject* owners, PyObject* items, PyObject* value) {
  Owned key(PyLong_FromVoidPtr(items));
  if (PyDict_SetDefault(owners, key.get(), value) == nullptr) throw_python_error();
}

class Opening {
 public:
  void open(PyObject* value) {
    if (holds_nothing(value)) return;
    const ClassLayout& layout = layout_of(Py_TYPE(value));
    if (layout.is_plain || layout.holds_none || !seen_.insert(value).second) return;
    Deeper deeper;
    if (is_sequence(value)) return visit_items(value, [&](PyObject* part) { open(part); });
    visit_parts(value, layout, [&](PyObject* part, auto set) {
      Owned inside(Py_NewRef(is_cell(part) ? inside_of(part) : part));
      if (inside.get() != part) set(inside.get());
      open(inside.get());
    });
  }

 private:
  std::unordered_set<PyObject*> seen_;
};

}  // namespace

PyObject* collect_closed(PyObject* to) {
  PyObject* before = std::exchange(closed_here, to == Py_None ? nullptr : Py_NewRef(to));
  return before == nullptr ? Py_NewRef(Py_None) : before;
}

void close_cells(PyObject* value) {
  if (closed_here == nullptr || is_sequence(value)) return;
  const Owned collected(Py_NewRef(closed_here));
  PyObject *closed = PyTuple_GET_ITEM(collected.get(), 0), *owners = PyTuple_GET_ITEM(collected.get(), 1);
  PyObject* first = nullptr;  // the list of its first cell
  bool is_closed = true;
  visit_parts(value, layout_of(Py_TYPE(value)), [&](PyObject* part, auto set) {
    PyObject* items = is_cell(part) ? items_of(part) : nullptr;
    if (items == nullptr) {
      if (is_closed && PyList_Append(closed, value) != 0) throw_python_error();
      is_closed = false;
      Owned made(PyList_New(1));
      PyList_SET_ITEM(made.get(), 0, Py_NewRef(part));
      items = made.get();
      set(new_cell(items).get());
    }
    if (first == nullptr) first = items;
  });
  if (!is_closed && owners != Py_None) note_owner(owners, first, value);
}

void open_cells(PyObject* values) {
  Opening opening;
  visit_items(values, [&](PyObject* value) { opening.open(value); });
}

}  // namespace dy2st
