// The file: members that are stored without compression, with their sizes and hashes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace dy2st {

class Archive {
 public:
  // Throws Error where the file cannot be read, is no archive, or a member is not what the manifest says.
  explicit Archive(const std::string& path);
  std::string_view member(const std::string& name) const;

 private:
  std::shared_ptr<void> file_;
  std::string_view bytes_;
  std::map<std::string, std::string_view> members_;
};

std::string sha256(std::string_view bytes);

}  // namespace dy2st
