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
  // Lies in the file, which stays open for that.
  std::string_view member(const std::string& name) const;
  bool has(const std::string& name) const { return members_.count(name) > 0; }

 private:
  std::shared_ptr<void> file_;
  std::string_view bytes_;
  std::map<std::string, std::string_view> members_;
};

}  // namespace dy2st
