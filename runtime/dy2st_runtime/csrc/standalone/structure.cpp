#include "structure.h"

#include "text.h"

namespace dy2st {
namespace {

const Json* items_of(const Json& structure) {
  const Json* items = structure.find("tuple");
  return items == nullptr ? structure.find("list") : items;
}

// The option that a tagged union has in this run; nullptr for none.
const Json* chosen(const Json& structure, const std::vector<Value>& leaves) {
  std::vector<Method::Output> tag;
  collect(structure["tag"], "", leaves, tag);
  for (const Json& option : structure["choice"].array()) {
    if (option.array().at(0).integer() == tag.at(0).value.as_int()) return &option.array().at(1);
  }
  return nullptr;
}

std::string step(const Json& key) {
  if (key.is(Json::Kind::Int)) return "[" + std::to_string(key.integer()) + "]";
  if (!key.is(Json::Kind::Object) || key.find("str") == nullptr) throw Error("a key of this kind needs Python");
  return "['" + key["str"].text() + "']";
}

// Calls a function with each part of a container and its name; false for what is no list, tuple or dict.
template <class Function>
bool each(const Json& structure, const std::string& name, Function function) {
  if (const Json* item = structure.find("shared") == nullptr ? nullptr : structure.find("item")) {
    function(*item, name);
  } else if (const Json* dict = structure.find("dict")) {
    for (const Json& pair : dict->array()) function(pair.array().at(1), name + step(pair.array().at(0)));
  } else if (const Json* items = items_of(structure)) {
    for (size_t index = 0; index < items->array().size(); ++index) function(items->array()[index], name + "[" + std::to_string(index) + "]");
  } else {
    return false;
  }
  return true;
}

}  // namespace

void collect(const Json& structure, const std::string& path, const std::vector<Value>& leaves, std::vector<Method::Output>& to) {
  const auto inside = [&](const std::string& name) { return path.empty() ? name : path + "." + name; };
  if (const Json* leaf = structure.find("leaf")) {
    to.push_back({path, leaves.at(static_cast<size_t>(leaf->integer()))});
  } else if (const Json* constant = structure.find("const")) {
    to.push_back({path, constant_value(*constant)});
  } else if (const Json* dict = structure.find("dict")) {
    for (const Json& pair : dict->array()) {
      const Json& key = pair.array().at(0);
      const std::string name = key.is(Json::Kind::Int) ? std::to_string(key.integer()) : key["str"].text();
      collect(pair.array().at(1), inside(name), leaves, to);
    }
  } else if (const Json* shared = structure.find("shared"); shared != nullptr) {
    collect(structure["item"], path, leaves, to);
  } else if (structure.find("choice") != nullptr) {
    if (const Json* option = chosen(structure, leaves)) collect(*option, path, leaves, to);
  } else if (structure.find("absent") == nullptr) {
    const Json* items = items_of(structure);
    if (items == nullptr) items = structure.find("object");
    if (items == nullptr) throw Error("a result of this structure needs Python");
    const Json* names = structure.find("fields");
    for (size_t index = 0; index < items->array().size(); ++index) {
      collect(items->array()[index], inside(names != nullptr ? names->array().at(index).text() : std::to_string(index)), leaves, to);
    }
  }
}

void write(const Json& structure, const std::string& name, const std::vector<Value>& leaves, State& state) {
  if (structure.find("absent") != nullptr) return;
  if (structure.find("choice") != nullptr) {
    if (const Json* option = chosen(structure, leaves)) write(*option, name, leaves, state);
  } else if (!each(structure, name, [&](const Json& part, const std::string& place) { write(part, place, leaves, state); })) {
    Value* held = state.find(name);
    if (held == nullptr) return;
    std::vector<Method::Output> made;
    collect(structure, "", leaves, made);
    *held = made.at(0).value;
  }
}

void check_written(const Json& structure, const std::string& name, State& state) {
  const auto refuse = [&] { throw Error("what it writes to " + name + " needs Python"); };
  if (const Json* choice = structure.find("choice")) {
    for (const Json& option : choice->array()) check_written(option.array().at(1), name, state);
    return;
  }
  const bool is_container = each(structure, name, [&](const Json& part, const std::string& place) { check_written(part, place, state); });
  if (is_container) {
    if (structure.find("shared") == nullptr && state.find(name) != nullptr) refuse();
  } else if (structure.find("absent") != nullptr) {
    if (state.find(name) != nullptr || state.has_items(name)) refuse();
  } else if (structure.find("leaf") != nullptr || structure.find("const") != nullptr) {
    if (state.has_items(name)) refuse();
  } else {
    refuse();
  }
}

void find_shared(const Json& structure, std::vector<int64_t>& numbers) {
  if (const Json* number = structure.find("shared")) numbers.push_back(number->integer());
  if (const Json* choice = structure.find("choice")) {
    for (const Json& option : choice->array()) find_shared(option.array().at(1), numbers);
  } else {
    each(structure, "", [&](const Json& part, const std::string&) { find_shared(part, numbers); });
  }
}

}  // namespace dy2st
