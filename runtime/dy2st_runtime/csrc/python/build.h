// Makes a program from its description, see executors/native/instructions.py.
#pragma once

#include <Python.h>

#include "../program.h"

namespace dy2st {

// Needs the GIL; throws the error of Python.
std::unique_ptr<Program> build(PyObject* description);

}  // namespace dy2st
