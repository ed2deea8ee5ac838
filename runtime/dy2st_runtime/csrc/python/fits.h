// Conditions on what is in lists from outside, see capture/types/fits.py.
#pragma once

#include <Python.h>

namespace dy2st {

// The type whose objects tell whether all items of a list are of a kind; a new reference.
PyObject* fits_type();

}  // namespace dy2st
