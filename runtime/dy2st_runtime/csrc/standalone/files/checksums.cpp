#include "checksums.h"

#include <algorithm>
#include <array>
#include <bit>

namespace dy2st {
namespace {

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


// FIPS 180-4.
class Sha256 {
 public:
  void add(std::string_view bytes) {
    length_ += bytes.size();
    if (!rest_.empty()) {
      const size_t taken = std::min<size_t>(64 - rest_.size(), bytes.size());
      rest_ += bytes.substr(0, taken);
      bytes.remove_prefix(taken);
      if (rest_.size() < 64) return;
      digest_block(reinterpret_cast<const unsigned char*>(rest_.data()), state_);
      rest_.clear();
    }
    for (; bytes.size() >= 64; bytes.remove_prefix(64)) digest_block(reinterpret_cast<const unsigned char*>(bytes.data()), state_);
    rest_ = bytes;
  }
  std::string end() {
    const uint64_t bits = length_ * 8;
    std::string padding(1, '\x80');
    while ((length_ + padding.size()) % 64 != 56) padding += '\0';
    for (int shift = 56; shift >= 0; shift -= 8) padding += static_cast<char>(bits >> shift);
    add(padding);
    std::string made;
    for (uint32_t word : state_) {
      for (int shift = 28; shift >= 0; shift -= 4) made += "0123456789abcdef"[word >> shift & 15];
    }
    return made;
  }

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string rest_;
  uint64_t length_ = 0;
};

constexpr std::array<uint32_t, 256> make_remainders() {
  std::array<uint32_t, 256> remainders{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? 0xEDB88320U ^ value >> 1 : value >> 1;
    remainders[byte] = value;
  }
  return remainders;
}

constexpr std::array<uint32_t, 256> kRemainders = make_remainders();

}  // namespace

std::string sha256(const Parts& parts) {
  Sha256 digest;
  for (std::string_view part : parts) digest.add(part);
  return digest.end();
}

uint32_t crc32(const Parts& parts) {
  uint32_t sum = 0xFFFFFFFF;
  for (std::string_view part : parts) {
    for (char byte : part) sum = kRemainders[(sum ^ static_cast<unsigned char>(byte)) & 0xFF] ^ sum >> 8;
  }
  return ~sum;
}

}  // namespace dy2st
