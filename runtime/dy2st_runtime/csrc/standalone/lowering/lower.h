// From the blocks of an archive to instructions; lowering.h tells how.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../../program.h"
#include "../files/json.h"

namespace dy2st {

struct Lowered {
  std::unique_ptr<Program> program;
  std::vector<std::string> places;  // the user's line of each instruction
};

// Whether a program differentiates something: then it runs with gradients, else without.
bool trains(const Json& described);

// Throws Error where an operation needs Python; names the user's line.
Lowered lower(const Json& described);

}  // namespace dy2st
