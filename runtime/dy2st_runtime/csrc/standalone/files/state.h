// The tensors and numbers that a model keeps from call to call.
#pragma once

#include <map>
#include <string>

#include "../../value.h"
#include "archive.h"
#include "json.h"

namespace dy2st {

at::ScalarType dtype_of(const std::string& name);

// The values of all entries of the table of state, by name; tensors that were one are one, and share memory as they did.
class State {
 public:
  State(const Json& table, const Archive& archive);
  Value& operator[](const std::string& name);

 private:
  std::map<std::string, Value> values_;
  std::map<std::string, std::string> aliases_;  // of modules
};

}  // namespace dy2st
