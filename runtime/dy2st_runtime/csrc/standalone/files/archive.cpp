#include "archive.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>

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

constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void digest_block(const unsigned char* block, std::array<uint32_t, 8>& state) {
  std::array<uint32_t, 64> words{};
  for (int i = 0; i < 16; ++i) {
    words[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + words[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRounds[i] + words[i];
    const uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
  }
  const std::array<uint32_t, 8> mixed = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += mixed[i];
}

}  // namespace

// FIPS 180-4.
std::string sha256(std::string_view bytes) {
  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t at = 0;
  for (; bytes.size() - at >= 64; at += 64) digest_block(data + at, state);
  std::string rest(bytes.substr(at));
  rest += '\x80';
  while (rest.size() % 64 != 56) rest += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) rest += static_cast<char>(uint64_t{bytes.size()} * 8 >> shift);
  for (size_t start = 0; start < rest.size(); start += 64) digest_block(reinterpret_cast<const unsigned char*>(rest.data()) + start, state);
  std::string made;
  for (uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) made += "0123456789abcdef"[word >> shift & 15];
  }
  return made;
}

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
      if (sha256(member(name)) != described["sha256"].text()) throw Error("its member " + name + " was altered");
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
