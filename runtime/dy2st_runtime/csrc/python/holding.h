// Whether an object is in what an input of a program holds, see capture/types/kinds_of_items.py.
#pragma once

#include <Python.h>

namespace dy2st {

// Needs the GIL; throws the error of Python. Takes the items, the classes of what holds nothing, a function that tells of a class whether
// its objects are no more than what is in them, and the objects that are looked for, in a tuple.
bool holds_one_of(PyObject* items, PyObject* values, PyObject* is_plain, PyObject* others);

}  // namespace dy2st
