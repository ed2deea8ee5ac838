// The inputs of a run, as they come from Python.
#pragma once

#include <Python.h>

#include "../program.h"

namespace dy2st {

// Needs the GIL. Puts the inputs in their registers, and what they say of the run in the frame. False for a tensor of another class,
// which may have a say in what is done with it, and for tangents of forward-mode differentiation, whose formulas may be Python's.
bool load_inputs(const Program& program, Frame& frame, PyObject* const* values);

}  // namespace dy2st
