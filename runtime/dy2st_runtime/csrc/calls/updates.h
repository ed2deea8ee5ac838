// Operators that change a small tensor in place.
#pragma once

#include "../program.h"

namespace dy2st {

// For an operator that changes its first argument; nullptr where there is none.
Handler update_handler(const Instruction& instruction);

}  // namespace dy2st
