// Writes the file of an archive: the zip around its members, byte for byte as archive/container.py does, in the place of an old one.
#pragma once

#include <string>
#include <vector>

#include "../files/checksums.h"

namespace dy2st {

struct Member {
  std::string name;
  Parts parts;
};

// The length of pieces that follow each other.
uint64_t size_of(const Parts& parts);

// Writes a new file beside the old one, then puts it in its place; on any failure the old one stays. Throws Error.
void write_container(const std::string& path, const std::vector<Member>& members);

// Throws Error where that cannot be done: before something takes long.
void check_target(const std::string& path);

}  // namespace dy2st
