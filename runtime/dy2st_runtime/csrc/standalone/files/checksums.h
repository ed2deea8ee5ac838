// Checksums of what lies in several pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dy2st {

using Parts = std::vector<std::string_view>;

std::string sha256(const Parts& parts);
// As zip files have it.
uint32_t crc32(const Parts& parts);

}  // namespace dy2st
