#include "uses.h"

#include <algorithm>

namespace dy2st {
namespace {

void collect(const Json& json, std::vector<std::string>& names) {
  if (json.is(Json::Kind::Text)) {
    if (std::find(names.begin(), names.end(), json.text()) == names.end()) names.push_back(json.text());
  } else if (const auto* items = is_object(json, "slice") ? &json["slice"].array() : sequence(json)) {
    for (const Json& item : *items) collect(item, names);
  }
}

}  // namespace

bool is_object(const Json& json, const char* key) { return json.is(Json::Kind::Object) && json.find(key) != nullptr; }

const std::vector<Json>* sequence(const Json& json) {
  if (json.is(Json::Kind::Array)) return &json.array();
  return is_object(json, "tuple") ? &json["tuple"].array() : nullptr;
}

bool is_number(const Json& json) {
  return json.is(Json::Kind::Bool) || json.is(Json::Kind::Int) || json.is(Json::Kind::Float) || is_object(json, "float");
}

bool is_flat(const std::vector<Json>& args) {
  return std::none_of(args.begin(), args.end(), [](const Json& json) { return sequence(json) != nullptr || is_object(json, "slice"); });
}

std::vector<std::string> inputs_of(const Json& node) {
  std::vector<std::string> names;
  for (const Json& argument : node["args"].array()) collect(argument, names);
  if (const Json* more = node.find("values")) collect(*more, names);
  if (const Json* named = node.find("kwargs")) {
    for (const auto& [name, argument] : named->fields()) collect(argument, names);
  }
  return names;
}

bool Uses::only_parts(size_t count) const {
  return !whole && std::all_of(parts.begin(), parts.end(), [&](int64_t part) { return part >= 0 && static_cast<size_t>(part) < count; });
}

std::map<std::string, Uses> uses_in(const Json& block) {
  std::map<std::string, Uses> found;
  for (const Json& node : block["nodes"].array()) {
    const auto& args = node["args"].array();
    if (node["target"].text() == "operator.getitem" && args.size() == 2 && args[0].is(Json::Kind::Text) && args[1].is(Json::Kind::Int)) {
      found[args[0].text()].parts.insert(args[1].integer());
    } else {
      for (const std::string& name : inputs_of(node)) found[name].whole = true;
    }
  }
  std::vector<std::string> names;
  for (const Json& output : block["outputs"].array()) collect(output, names);
  for (const std::string& name : names) found[name].whole = true;
  return found;
}

}  // namespace dy2st
