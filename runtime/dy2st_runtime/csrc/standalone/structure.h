// Lists, tuples and dicts around the values that a program gives.
#pragma once

#include <string>
#include <vector>

#include "files/json.h"
#include "files/state.h"
#include "method.h"

namespace dy2st {

// The leaves of a result, by the way to them.
void collect(const Json& structure, const std::string& path, const std::vector<Value>& leaves, std::vector<Method::Output>& to);

// What an effect gives, under its name and those of its items; what no entry of the state stands for is read by nobody.
void write(const Json& structure, const std::string& name, const std::vector<Value>& leaves, State& state);

// Throws Error where write cannot do that: the state has something else under the name.
void check_written(const Json& structure, const std::string& name, State& state);

// The numbers of the containers in a structure that may be one with others.
void find_shared(const Json& structure, std::vector<int64_t>& numbers);

}  // namespace dy2st
