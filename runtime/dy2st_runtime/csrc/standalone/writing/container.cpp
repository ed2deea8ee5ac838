#include "container.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <random>

#include "../files/json.h"

namespace dy2st {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint16_t kNeeded = 45, kMadeBy = 3 << 8 | 45, kDate = 1 << 5 | 1;
constexpr uint32_t kRights = 0100644U << 16, kFull = 0xFFFFFFFF;

// Numbers as zip files have them.
class Record {
 public:
  template <class Number>
  Record& add(Number number) {
    static_assert(std::endian::native == std::endian::little);
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  Record& add(const std::string& text) { return bytes_ += text, *this; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

std::string local_header(const Member& member, uint64_t size, uint32_t checksum, uint64_t position) {
  constexpr uint64_t kFixed = 30 + 20 + 6;
  const uint64_t zeros = (kAlignment - (position + kFixed + member.name.size()) % kAlignment) % kAlignment;
  Record extra;
  extra.add<uint16_t>(1).add<uint16_t>(16).add(size).add(size);
  extra.add<uint16_t>(0xD935).add(static_cast<uint16_t>(2 + zeros)).add(static_cast<uint16_t>(kAlignment)).add(std::string(zeros, '\0'));
  Record header;
  header.add(std::string("PK\x03\x04")).add(kNeeded).add<uint16_t>(0).add<uint16_t>(0).add<uint16_t>(0).add(kDate).add(checksum);
  header.add(kFull).add(kFull).add(static_cast<uint16_t>(member.name.size())).add(static_cast<uint16_t>(extra.bytes().size()));
  return header.add(member.name).add(extra.bytes()).bytes();
}

std::string directory_entry(const Member& member, uint64_t size, uint32_t checksum, uint64_t position) {
  Record entry;
  entry.add(std::string("PK\x01\x02")).add(kMadeBy).add(kNeeded).add<uint16_t>(0).add<uint16_t>(0).add<uint16_t>(0).add(kDate);
  entry.add(checksum).add(kFull).add(kFull).add(static_cast<uint16_t>(member.name.size())).add<uint16_t>(28);
  entry.add<uint16_t>(0).add<uint16_t>(0).add<uint16_t>(0).add(kRights).add(kFull).add(member.name);
  return entry.add<uint16_t>(1).add<uint16_t>(24).add(size).add(size).add(position).bytes();
}

std::string directory(const std::string& entries, uint64_t count, uint64_t position) {
  Record end;
  end.add(entries).add(std::string("PK\x06\x06")).add<uint64_t>(44).add(kMadeBy).add(kNeeded).add<uint32_t>(0).add<uint32_t>(0);
  end.add(count).add(count).add(static_cast<uint64_t>(entries.size())).add(position);
  end.add(std::string("PK\x06\x07")).add<uint32_t>(0).add(static_cast<uint64_t>(position + entries.size())).add<uint32_t>(1);
  end.add(std::string("PK\x05\x06")).add<uint16_t>(0).add<uint16_t>(0).add<uint16_t>(0xFFFF).add<uint16_t>(0xFFFF);
  return end.add(kFull).add(kFull).add<uint16_t>(0).bytes();
}

[[noreturn]] void fail(const std::string& path, int code) { throw Error("cannot write " + path + ": " + std::strerror(code)); }

// The file that a path leads to, through links; one that is not there yet is itself.
std::string followed(const std::string& path) {
  std::string target = path;
  char buffer[PATH_MAX];
  if (realpath(path.c_str(), buffer) != nullptr) return buffer;
  for (int links = 0; links < 40; ++links) {
    const ssize_t length = readlink(target.c_str(), buffer, sizeof buffer);
    if (length < 0) break;
    const std::string next(buffer, static_cast<size_t>(length));
    const auto slash = target.rfind('/');
    target = next[0] == '/' || slash == std::string::npos ? next : target.substr(0, slash + 1) + next;
  }
  return target;
}

std::string folder_of(const std::string& target) {
  const auto slash = target.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : target.substr(0, slash);
}

// A file beside the target that is gone at the end, unless it took its place.
class Temporary {
 public:
  Temporary(const std::string& path, const std::string& folder) : path_(path) {
    std::random_device random;
    name_ = folder + "/.dy2st-";
    for (int digit = 0; digit < 16; ++digit) name_ += "0123456789abcdef"[random() & 15];
    name_ += ".tmp";
    handle_ = open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (handle_ < 0) fail(path_, errno);
  }
  ~Temporary() {
    if (handle_ >= 0) close(handle_);
    if (!name_.empty()) unlink(name_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  void add(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(handle_, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(path_, errno);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }
  void replace(const std::string& target) {
    if (fsync(handle_) != 0) fail(path_, errno);
    if (close(std::exchange(handle_, -1)) != 0) fail(path_, errno);
    if (rename(name_.c_str(), target.c_str()) != 0) fail(path_, errno);
    name_.clear();
  }

 private:
  const std::string& path_;
  std::string name_;
  int handle_ = -1;
};

// Devices and pipes are written to, not replaced.
void check_kind(const std::string& path, const std::string& target) {
  struct stat info {};
  if (lstat(target.c_str(), &info) != 0) return;
  if (S_ISDIR(info.st_mode)) fail(path, EISDIR);
  if (!S_ISREG(info.st_mode)) throw Error("cannot write " + path + ": it is a device, a pipe or a socket, and no file");
}

}  // namespace

uint64_t size_of(const Parts& parts) {
  uint64_t size = 0;
  for (std::string_view part : parts) size += part.size();
  return size;
}

void check_target(const std::string& path) {
  const std::string target = followed(path);
  check_kind(path, target);
  Temporary(path, folder_of(target));
}

void write_container(const std::string& path, const std::vector<Member>& members) {
  const std::string target = followed(path), folder = folder_of(target);
  check_kind(path, target);
  Temporary file(path, folder);
  uint64_t position = 0;
  std::string entries;
  for (const Member& member : members) {
    const uint64_t size = size_of(member.parts);
    const uint32_t checksum = crc32(member.parts);
    const std::string header = local_header(member, size, checksum, position);
    entries += directory_entry(member, size, checksum, position);
    file.add(header);
    for (std::string_view part : member.parts) file.add(part);
    position += header.size() + size;
  }
  file.add(directory(entries, members.size(), position));
  file.replace(target);
  const int handle = open(folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (handle < 0) return;  // the file is there, and a folder that cannot be read cannot be synced
  fsync(handle);
  close(handle);
}

}  // namespace dy2st
