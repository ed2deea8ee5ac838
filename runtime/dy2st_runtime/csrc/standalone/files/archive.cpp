#include "archive.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "checksums.h"
#include "json.h"

namespace dy2st {
namespace {

constexpr size_t kEnd = 22, kLocator = 20, kEnd64 = 56, kEntry = 46, kHeader = 30;
constexpr uint64_t kLongestDirectory = 1 << 20;

template <class Number>
Number read(std::string_view bytes, uint64_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(Number)) throw Error("it was cut short or altered");
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof(Number));
  static_assert(std::endian::native == std::endian::little);
  return number;
}

std::string_view part(std::string_view bytes, uint64_t at, uint64_t size) {
  if (at > bytes.size() || size > bytes.size() - at) throw Error("it was cut short or altered");
  return bytes.substr(at, size);
}

std::map<std::string, std::string_view> read_members(std::string_view bytes) {
  if (bytes.size() < kEnd + kLocator + kEnd64) throw Error("it is too short for an archive");
  const uint64_t end64 = bytes.size() - kEnd - kLocator - kEnd64;
  if (read<uint32_t>(bytes, end64) != 0x06064b50) throw Error("it is no archive of dy2st, or was cut short");
  const auto count = read<uint64_t>(bytes, end64 + 32), size = read<uint64_t>(bytes, end64 + 40);
  uint64_t at = read<uint64_t>(bytes, end64 + 48);
  if (size > kLongestDirectory) throw Error("its directory was altered");
  std::map<std::string, std::string_view> found;
  for (uint64_t index = 0; index < count; ++index) {
    if (read<uint32_t>(bytes, at) != 0x02014b50 || read<uint16_t>(bytes, at + 10) != 0) throw Error("its directory was altered");
    const auto name_length = read<uint16_t>(bytes, at + 28), extra_length = read<uint16_t>(bytes, at + 30);
    const std::string name(part(bytes, at + kEntry, name_length));
    const uint64_t extra = at + kEntry + name_length;
    const auto length = read<uint64_t>(bytes, extra + 4), offset = read<uint64_t>(bytes, extra + 20);
    const uint64_t data = offset + kHeader + read<uint16_t>(bytes, offset + 26) + read<uint16_t>(bytes, offset + 28);
    if (!found.emplace(name, part(bytes, data, length)).second) throw Error("it has a member twice");
    at = extra + extra_length;
  }
  return found;
}

}  // namespace

Archive::Archive(const std::string& path) {
  const int handle = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (handle < 0) throw Error(path + ": " + std::strerror(errno));
  struct stat info {};
  const bool known = fstat(handle, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
  const auto size = known ? static_cast<size_t>(info.st_size) : 0;
  void* mapped = known ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, handle, 0) : MAP_FAILED;
  close(handle);
  if (mapped == MAP_FAILED) throw Error(path + " cannot be read, or is empty");
  file_ = std::shared_ptr<void>(mapped, [size](void* start) { munmap(start, size); });
  bytes_ = {static_cast<const char*>(mapped), size};
  try {
    members_ = read_members(bytes_);
    const Json manifest = Json::parse(member("manifest.json"), "manifest.json");
    for (const auto& [name, described] : manifest["members"].fields()) {
      if (sha256({member(name)}) != described["sha256"].text()) throw Error("its member " + name + " was altered");
    }
    for (const auto& [name, contents] : members_) {
      if (name != "manifest.json" && manifest["members"].find(name) == nullptr) throw Error("its manifest does not know " + name);
    }
  } catch (const Error& error) {
    throw Error(path + " cannot be loaded: " + error.what());
  }
}

std::string_view Archive::member(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) throw Error("it has no member " + name);
  return found->second;
}

}  // namespace dy2st
