// Attributes of objects in cells, see primitives/cells.py; all of it needs the GIL, and throws the error of Python.
#pragma once

#include <Python.h>

namespace dy2st {

// Puts the attributes of objects of some classes in cells; appends the objects to a list. The owners of cells are noted in a dict,
// unless that is None.
void close_cells(PyObject* value, PyObject* classes, PyObject* closed, PyObject* owners);
// Puts what is in cells of all objects in a list into their places.
void open_cells(PyObject* values);

}  // namespace dy2st
