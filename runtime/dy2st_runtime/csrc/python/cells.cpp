#include "cells.h"

#include <torch/csrc/autograd/python_variable.h>

#include <unordered_set>
#include <utility>
#include <vector>

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

// Cells that nobody has any more, for those that are needed next: a program that changes a thousand objects would have Python look for
// garbage several times in each call.
std::vector<PyObject*> spare;

void give_up(Owned cell) {
  constexpr size_t most = 1 << 14;
  PyObject* items = items_of(cell.get());
  if (spare.size() == most || Py_REFCNT(cell.get()) != 1 || Py_REFCNT(items) != 1 || PyList_GET_SIZE(items) != 1) return;
  PyList_SetItem(items, 0, Py_NewRef(Py_None));
  spare.push_back(cell.release());
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
      if (!is_cell(part)) return open(part);
      Owned cell(Py_NewRef(part)), inside(Py_NewRef(inside_of(part)));
      set(inside.get());
      open(inside.get());
      give_up(std::move(cell));
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

bool is_collecting() { return closed_here != nullptr; }

void note_closed(PyObject* object, PyObject* cell) {
  PyObject *closed = PyTuple_GET_ITEM(closed_here, 0), *owners = PyTuple_GET_ITEM(closed_here, 1);
  const Py_ssize_t count = PyList_GET_SIZE(closed);
  const bool is_noted = count > 0 && PyList_GET_ITEM(closed, count - 1) == object;
  if (!is_noted && PyList_Append(closed, object) != 0) throw_python_error();
  if (owners == Py_None) return;
  Owned key(PyLong_FromVoidPtr(items_of(cell)));
  if (PyDict_SetItem(owners, key.get(), object) != 0) throw_python_error();
}

Owned cell_with(PyObject* part) {
  if (spare.empty()) {
    Owned items(PyList_New(1));
    PyList_SET_ITEM(items.get(), 0, Py_NewRef(part));
    return new_cell(items.get());
  }
  Owned cell(spare.back());
  spare.pop_back();
  PyList_SetItem(items_of(cell.get()), 0, Py_NewRef(part));
  return cell;
}

void close_cells(PyObject* value) {
  if (!is_collecting() || is_sequence(value)) return;
  visit_parts(value, layout_of(Py_TYPE(value)), [&](PyObject* part, auto set) {
    if (is_cell(part)) return;
    const Owned cell = cell_with(part);
    note_closed(value, cell.get());
    set(cell.get());
  });
}

void open_cells(PyObject* values) {
  Opening opening;
  visit_items(values, [&](PyObject* value) { opening.open(value); });
}

}  // namespace dy2st
