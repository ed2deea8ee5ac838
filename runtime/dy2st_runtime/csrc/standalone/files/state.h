// The tensors and numbers that a model keeps from call to call.
#pragma once

#include <map>
#include <string>

#include "../../value.h"
#include "archive.h"
#include "json.h"

namespace dy2st {

// The values of all entries of the table of state, by name; tensors that were one are one, and share memory as they did.
class State {
 public:
  State(const Json& table, const Archive& archive);
  // Before the first training step: from now on tensors say that they are trained, and have the gradients that the file has for them.
  void require_gradients(const Json& table);
  // Throws Error where there is no such entry.
  Value& operator[](const std::string& name);
  // nullptr where there is no such entry.
  Value* find(const std::string& name);
  // Whether there is an item of a list, tuple or dict of this name.
  bool has_items(const std::string& name) const;

 private:
  std::map<std::string, Value> values_;
  std::map<std::string, std::string> aliases_;  // of modules
  std::map<std::string, at::Tensor> gradients_;  // entries that are what their tensor has as gradient now
};

}  // namespace dy2st
