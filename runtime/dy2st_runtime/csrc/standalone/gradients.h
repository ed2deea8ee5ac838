// Backward passes and gradients in a program, and the modes around them: what primitives/gradients.py and torch.amp do in Python.
#pragma once

#include <string>

#include "text.h"

namespace dy2st {

// An operation of an archive that is none of PyTorch's operators.
struct Other {
  Value (*run)(const std::vector<Value>& given);  // takes its arguments, then its options in order
  size_t positional;                              // how many arguments it has
  std::vector<std::string> options;               // their names
};
// The operation of a name; nullptr for any that is not one of these.
const Other* other_of(const std::string& target);

// Leaves the modes of autocast as they were before it.
class AutocastGuard {
 public:
  AutocastGuard();
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  bool enabled_, cached_;
  at::ScalarType dtype_;
  int depth_;
};

}  // namespace dy2st
