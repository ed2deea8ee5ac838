// Which values the operations of a block take, read from an archive.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "../files/json.h"

namespace dy2st {

bool is_object(const Json& json, const char* key);
// The items of a list or tuple; nullptr for anything else.
const std::vector<Json>* sequence(const Json& json);
// A number, as itself or as an object.
bool is_number(const Json& json);
// Whether no argument is made of others.
bool is_flat(const std::vector<Json>& args);

// The values that an operation takes, each once, in order.
std::vector<std::string> inputs_of(const Json& node);

// How the operations of a block use one value.
struct Uses {
  bool whole = false;       // some take all of it
  std::set<int64_t> parts;  // the others take these parts of it
  // Whether nothing is taken but parts of so many.
  bool only_parts(size_t count) const;
};

// The uses of all values of a block by its operations and outputs; a value without an entry has none.
std::map<std::string, Uses> uses_in(const Json& block);

}  // namespace dy2st
