// What programs do with the gradients that tensors hold: primitives/gradients.py without Python.
#pragma once

#include "../program.h"

namespace dy2st {

// By the name of the function; nullptr where only Python does it.
Handler gradient_handler(const std::string& name);

}  // namespace dy2st
