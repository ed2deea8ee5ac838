// Writes an archive again, with the state as it is now.
#pragma once

#include <string>

#include "../files/archive.h"
#include "../files/json.h"
#include "../files/state.h"

namespace dy2st {

// Given the archive that was read, its program.json, and the state; programs and texts stay as they are. Throws Error: a value is
// none that programs and files can have, or the file cannot be written.
void write_model(const std::string& path, const Archive& archive, const Json& document, State& state);

}  // namespace dy2st
