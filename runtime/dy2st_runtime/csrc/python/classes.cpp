#include "classes.h"

#include <structmember.h>

#include <algorithm>
#include <unordered_map>

namespace dy2st {
namespace {

struct Known {
  PyTypeObject* cell = nullptr;
  Py_ssize_t items = 0;  // where a cell has its list
  PyObject* slots_of = nullptr;
  PyObject* without_cells = nullptr;
  PyObject* plain = nullptr;
};

Known known;

bool is_of_one(PyTypeObject* kind, PyObject* classes) {
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(classes); ++index) {
    if (PyType_IsSubtype(kind, reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(classes, index)))) return true;
  }
  return false;
}

bool is_one_of(PyTypeObject* kind, PyObject* classes) {
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(classes); ++index) {
    if (reinterpret_cast<PyObject*>(kind) == PyTuple_GET_ITEM(classes, index)) return true;
  }
  return false;
}

bool refers_to(PyObject* reference, PyTypeObject* kind) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* found = nullptr;
  if (PyWeakref_GetRef(reference, &found) < 0) throw_python_error();
  Py_XDECREF(found);
#else
  PyObject* found = PyWeakref_GetObject(reference);
#endif
  return found == reinterpret_cast<PyObject*>(kind);
}

ClassLayout look_at(PyTypeObject* kind) {
  ClassLayout found;
  found.reference = Owned(PyWeakref_NewRef(reinterpret_cast<PyObject*>(kind), nullptr));
  found.is_plain = is_one_of(kind, known.plain);
  found.holds_none = is_of_one(kind, known.without_cells);
  found.has_table = kind->tp_dictoffset != 0;
  if (found.is_plain || found.holds_none) return found;
  Owned slots(PyObject_CallOneArg(known.slots_of, reinterpret_cast<PyObject*>(kind)));
  for (Py_ssize_t index = 0; index < PyList_Size(slots.get()); ++index) {
    PyObject* pair = PyList_GET_ITEM(slots.get(), index);
    found.slots.push_back({Owned(Py_NewRef(PyTuple_GET_ITEM(pair, 0))), Owned(Py_NewRef(PyTuple_GET_ITEM(pair, 1)))});
  }
  return found;
}

}  // namespace

void use_classes(PyObject* cell, PyObject* slots_of, PyObject* without_cells, PyObject* plain) {
  Owned described(PyObject_GetAttrString(cell, "items"));
  TORCH_CHECK(Py_IS_TYPE(described.get(), &PyMemberDescr_Type), "dy2st: a cell has its list in a slot");
  known.items = reinterpret_cast<PyMemberDescrObject*>(described.get())->d_member->offset;
  known.cell = reinterpret_cast<PyTypeObject*>(Py_NewRef(cell));
  known.slots_of = Py_NewRef(slots_of);
  known.without_cells = Py_NewRef(without_cells);
  known.plain = Py_NewRef(plain);
}

const ClassLayout& layout_of(PyTypeObject* kind) {
  static size_t many = 1024;
  static auto& layouts = *new std::unordered_map<PyTypeObject*, ClassLayout>();  // nothing of Python is there any more when a process ends
  const auto found = layouts.find(kind);
  if (found != layouts.end() && refers_to(found->second.reference.get(), kind)) return found->second;
  ClassLayout made = look_at(kind);
  if (layouts.size() > many) {
    std::erase_if(layouts, [](const auto& pair) { return !refers_to(pair.second.reference.get(), pair.first); });
    many = std::max(many, 2 * layouts.size());
  }
  return layouts.insert_or_assign(kind, std::move(made)).first->second;
}

Owned table_of(PyObject* object) { return Owned(PyObject_GenericGetDict(object, nullptr)); }

bool is_hidden(PyObject* name) {
  static const char prefix[] = "__dy2st_";
  constexpr Py_ssize_t size = sizeof prefix - 1;
  if (!PyUnicode_Check(name) || PyUnicode_GET_LENGTH(name) < size) return false;
  for (Py_ssize_t index = 0; index < size; ++index) {
    if (PyUnicode_READ_CHAR(name, index) != static_cast<Py_UCS4>(prefix[index])) return false;
  }
  return true;
}

PyObject* in_table(PyObject* table, PyObject* name) {
  PyObject* found = PyDict_GetItemWithError(table, name);
  if (found == nullptr && PyErr_Occurred() != nullptr) throw_python_error();
  return found;
}

Owned in_slot(const Slot& slot, PyObject* object) { return in_slot(slot.described.get(), object); }

Owned in_slot(PyObject* described, PyObject* object) {
  PyObject* found = Py_TYPE(described)->tp_descr_get(described, object, reinterpret_cast<PyObject*>(Py_TYPE(object)));
  if (found != nullptr) return Owned(found);
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw_python_error();
  PyErr_Clear();
  return Owned();
}

Owned attribute_of(PyObject* object, PyObject* table, PyObject* name, PyObject* described) {
  PyObject* found = table == nullptr ? nullptr : in_table(table, name);
  if (found != nullptr) return Owned(Py_NewRef(found));
  return described == Py_None ? Owned() : in_slot(described, object);
}

void set_attribute(PyObject* object, PyObject* table, PyObject* name, PyObject* described, PyObject* given) {
  const bool is_in_table = table != nullptr && in_table(table, name) != nullptr;
  if ((is_in_table ? PyDict_SetItem(table, name, given) : Py_TYPE(described)->tp_descr_set(described, object, given)) != 0) {
    throw_python_error();
  }
}

bool is_cell(PyObject* object) { return Py_IS_TYPE(object, known.cell); }

PyObject* items_of(PyObject* cell) { return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(cell) + known.items); }

Owned new_cell(PyObject* items) {
  Owned made(known.cell->tp_alloc(known.cell, 0));
  *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(made.get()) + known.items) = Py_NewRef(items);
  return made;
}

PyObject* inside_of(PyObject* cell) {
  PyObject* items = items_of(cell);
  if (items == nullptr || !PyList_Check(items) || PyList_GET_SIZE(items) == 0) {
    PyErr_SetString(PyExc_TypeError, "there is nothing in a cell of a way that the program has not gone");
    throw_python_error();
  }
  return PyList_GET_ITEM(items, 0);
}

}  // namespace dy2st
