// What programs do with objects of Python in their lists, without calling Python.
#pragma once

#include "../program.h"

namespace dy2st {

// Handlers by name, see executors/native/lowering.py; nullptr where there is none.
Handler object_handler(const std::string& name);

}  // namespace dy2st
