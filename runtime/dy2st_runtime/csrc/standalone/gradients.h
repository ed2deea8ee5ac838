// Backward passes and gradients in a program, and the modes around them: what primitives/gradients.py and torch.amp do in Python.
#pragma once

#include <string>

#include "text.h"

namespace dy2st {

// Does what an operation of an archive does, given its arguments and then its options in order; nullptr for any other operation.
using Other = Value (*)(const std::vector<Value>& given);
Other other_of(const std::string& target);
// How many arguments such an operation has, and the names of its options, in order.
size_t count_of(const std::string& target);
const std::vector<std::string>& options_of(const std::string& target);

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
