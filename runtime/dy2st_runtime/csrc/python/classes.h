// Where objects of a class have their attributes, and which classes have none that a program looks at. All of it needs the GIL.
#pragma once

#include <vector>

#include "owned.h"

namespace dy2st {

struct Slot {
  Owned name;
  Owned described;
};

struct ClassLayout {
  Owned reference;          // to the class, weakly: another one may come to stand where it was
  bool is_plain = false;    // its objects are numbers, strings, tensors: there is nothing in them
  bool holds_none = false;  // its objects have attributes, and no cells in them
  bool has_table = false;   // its objects have a __dict__
  std::vector<Slot> slots;
};

// Takes the class of cells, the function that gives the slots of a class, a tuple of classes whose objects have no cells, and one of
// those whose objects have nothing in them.
void use_classes(PyObject* cell, PyObject* slots_of, PyObject* without_cells, PyObject* plain);

const ClassLayout& layout_of(PyTypeObject* kind);
// The __dict__ of an object of a class that has some; a new reference.
Owned table_of(PyObject* object);
// Whether this library keeps something of its own under a name.
bool is_hidden(PyObject* name);
// A borrowed reference to what an object has under a name in its __dict__, or nullptr.
PyObject* in_table(PyObject* table, PyObject* name);
// What is in a slot, or nothing.
Owned in_slot(const Slot& slot, PyObject* object);
Owned in_slot(PyObject* described, PyObject* object);

// What an object has under a name in its __dict__, or else in the slot that something describes, if that is not None; or nothing.
Owned attribute_of(PyObject* object, PyObject* table, PyObject* name, PyObject* described);

// Puts something there, where there is something.
void set_attribute(PyObject* object, PyObject* table, PyObject* name, PyObject* described, PyObject* given);

bool is_cell(PyObject* object);
// A borrowed reference to the list of a cell.
PyObject* items_of(PyObject* cell);
// A new cell with a list.
Owned new_cell(PyObject* items);
// What is in a cell, a borrowed reference; throws where it is one of a way that a program has not gone.
PyObject* inside_of(PyObject* cell);

}  // namespace dy2st
