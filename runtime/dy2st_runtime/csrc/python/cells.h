// Attributes of objects in cells, see primitives/cells.py; all of it needs the GIL, and throws the error of Python.
#pragma once

#include "owned.h"

namespace dy2st {

// From now on, in this thread, objects get cells, and are appended to the first of a tuple, a list; the second is a dict which takes the
// owners of cells, or None. Gives the tuple until now, which may be None; a new reference.
PyObject* collect_closed(PyObject* to);
// Whether objects get cells in this thread now.
bool is_collecting();
// Notes that an object has got a cell.
void note_closed(PyObject* object, PyObject* cell);
// A cell with something in it.
Owned cell_with(PyObject* part);
// Puts what is in an object, or in a dict, in cells, unless it is, or nobody wants to know of it.
void close_cells(PyObject* value);
// Puts what is in cells of all objects in a list into their places.
void open_cells(PyObject* values);

}  // namespace dy2st
