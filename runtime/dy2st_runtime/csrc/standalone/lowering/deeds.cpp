// What the machine leaves to Python, and is done without it here: exceptions, prints, texts.
#include "lowering.h"

#include <algorithm>

namespace dy2st {

Operand Lowering::operand(const Json& json) {
  Operand made;
  if (json.is(Json::Kind::Text)) {
    made.source = value_of(json);
  } else if (const auto* items = sequence(json)) {
    made.kind = json.is(Json::Kind::Array) ? Kind::List : Kind::Tuple;
    for (const Json& item : *items) made.items.push_back(operand(item));
  } else {
    made.constant = constant_in(json);
  }
  return made;
}

void Lowering::resolve_registers(Operand& operand) const {
  operand.source = register_in(*program_, operand.source);
  for (Operand& item : operand.items) resolve_registers(item);
}

// Text, values in it with nothing but a conversion, and values alone.
std::vector<Deed::Part> Lowering::parts(const Json& json, bool is_text) {
  std::vector<Deed::Part> found;
  const auto value = [&](const Json& item, char conversion) { found.push_back({"", operand(item), conversion}); };
  const auto* items = is_text ? sequence(json) : nullptr;
  if (items == nullptr) {
    value(json, 's');
    return found;
  }
  for (const Json& part : *items) {
    if (is_object(part, "str")) {
      found.push_back({part["str"].text(), {}, 0});
      continue;
    }
    const auto* triple = sequence(part);
    if (triple == nullptr || triple->size() != 3) {
      value(part, 's');
      continue;
    }
    const Json &conversion = triple->at(1), &specification = triple->at(2);
    const bool plain = is_object(specification, "str") && specification["str"].text().empty();
    if (!plain || (is_object(conversion, "str") && conversion["str"].text() == "%")) refuse("a text with format specifications");
    value(triple->at(0), is_object(conversion, "str") ? conversion["str"].text()[0] : 's');
  }
  return found;
}

ArchiveStep Lowering::deed(const Json& node, const std::string& target) {
  const auto& args = node["args"].array();
  auto made = std::make_shared<Deed>();
  const bool checks = target == "assert_";
  ArchiveStep step(checks ? "assert" : "python", checks ? "" : target);
  step.deed = made.get();
  size_t next = 0;
  if (checks) step.inputs = {value_of(args.at(next++))};
  if (target == "raise_" || checks) {
    made->kind = target == "raise_" ? Deed::Kind::Raise : Deed::Kind::Assert;
    const Json& exception = args.at(next++);
    made->exception = (exception.find("qualname") != nullptr ? exception["qualname"] : exception["exception"]).text();
    for (; next < args.size(); ++next) made->arguments.push_back(parts(args[next], false));
  } else {
    made->kind = target == "print_" ? Deed::Kind::Print : Deed::Kind::Format;
    made->arguments.push_back(parts(args.at(0), true));
    if (target == "print_") made->end = args.at(1)["str"].text();
  }
  program_->owned.push_back(made);
  return step;
}

// A warning; what a logger is told is left to Python.
ArchiveStep Lowering::report(const Json& node) {
  const auto& function = node["function"].array();
  const auto &args = node["args"].array(), &frames = node["frames"].array();
  const Json* named = node.find("kwargs");
  const auto given = [&](size_t position, const char* name) {
    return position < args.size() ? &args[position] : named == nullptr ? nullptr : named->find(name);
  };
  if (function.at(0).text() != "warnings" || function.at(1).text() != "warn") refuse("logging");
  const Json *text = given(0, "message"), *category = given(1, "category"), *level = given(2, "stacklevel");
  if (text == nullptr || frames.empty()) throw Error("the archive has a warning without a text or a place");
  auto made = std::make_shared<Deed>();
  made->kind = Deed::Kind::Warn;
  made->exception = "UserWarning";
  if (category != nullptr && !category->is(Json::Kind::Null)) {
    if (!is_object(*category, "exception")) refuse("a warning of this kind");
    made->exception = (category->find("qualname") != nullptr ? (*category)["qualname"] : (*category)["exception"]).text();
  }
  made->arguments.push_back(parts(*text, false));
  const int64_t depth = level != nullptr && level->is(Json::Kind::Int) ? level->integer() : 1;
  const auto& frame = frames[std::min(frames.size(), static_cast<size_t>(std::max<int64_t>(depth, 1))) - 1].array();
  made->end = frame.at(0).text() + ":" + std::to_string(frame.at(1).integer());
  ArchiveStep step("python", "call_");
  step.deed = made.get();
  program_->owned.push_back(made);
  return step;
}

}  // namespace dy2st
