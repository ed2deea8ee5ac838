// A program as text: what two lowerings of one program are compared by.
#pragma once

#include <functional>
#include <string>

#include "program.h"

namespace dy2st {

// One line for the inputs, one for each constant, one for each instruction; without the user's lines.
// The function tells of an object of Python, or of what stands for one.
std::string listing(const Program& program, const std::function<std::string(const Value&)>& of_object);

}  // namespace dy2st
