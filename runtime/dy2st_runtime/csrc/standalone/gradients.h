// Backward passes and gradients in a program, and the modes around them: what primitives/gradients.py and torch.amp do in Python.
#pragma once

#include <string>

#include "text.h"

namespace dy2st {

// Does what an operation of an archive does, given its arguments and then its options in order; nullptr for any other operation.
using Other = Value (*)(const std::vector<Value>& given);
Other other_of(const std::string& target);
// The names of the options that such an operation has, in order.
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
