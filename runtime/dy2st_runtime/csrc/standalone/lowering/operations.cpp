// Single operations: operators of torch, functions on numbers, what is done with a list.
#include "lowering.h"
#include "../files/dtypes.h"

namespace dy2st {

void Lowering::call(const Json& node) {
  const std::string& target = node["target"].text();
  const bool is_operator = target.rfind("aten.", 0) == 0 || target.rfind("prims.", 0) == 0;
  const bool is_deed = target == "raise_" || target == "assert_" || target == "print_" || target == "format_";
  const bool is_list = target.rfind("list_", 0) == 0 || target == "operator.getitem";
  ArchiveStep step = is_operator                      ? call_operator(node, target)
                     : is_deed                        ? deed(node, target)
                     : target == "report_"            ? report(node)
                     : target == "set_grad_enabled"   ? grad_mode(node)
                     : other_of(target) != nullptr    ? other(node, target)
                     : is_list                        ? on_list(node, target)
                                                      : number(node, target);
  for (const std::string& input : inputs_of(node)) step.reads.push_back(value_named(input));
  const size_t count = step.kind == "operator" ? operator_of(step.name)->schema().returns().size() : 1;
  const std::string& name = node["name"].text();
  if (count > 1 && gives_parts(node, count)) {
    step.spread = true;
    const auto& uses = uses_[name];
    for (size_t index = 0; index < count; ++index) step.outputs.push_back(uses.parts.count(static_cast<int64_t>(index)) > 0 ? fresh() : -1);
    scope_.results[name] = step.outputs;
  } else {
    step.outputs = {scope_.values[name] = fresh()};
  }
  emit(std::move(step));
}

Given Lowering::given(const Json& json) {
  Given found;
  const auto constant = [&](c10::IValue value) {
    found.kind = Given::Kind::Constant;
    found.constant = std::move(value);
    return found;
  };
  if (json.is(Json::Kind::Null)) return constant(c10::IValue());
  if (json.is(Json::Kind::Text) || is_number(json)) {
    found.kind = Given::Kind::Register;
    found.source = value_of(json);
    return found;
  }
  if (const auto* items = sequence(json)) {
    found.kind = Given::Kind::List;
    found.sources = values_of(*items);
    return found;
  }
  if (is_object(json, "str")) return constant(c10::IValue(json["str"].text()));
  if (is_object(json, "dtype")) return constant(c10::IValue(static_cast<int64_t>(dtype_of(json["dtype"].text()))));
  if (is_object(json, "device")) return constant(c10::IValue(c10::Device(json["device"].text())));
  if (is_object(json, "layout") && json["layout"].text() == "strided") return constant(c10::IValue(static_cast<int64_t>(c10::Layout::Strided)));
  if (is_object(json, "memory_format")) {
    static const std::map<std::string, at::MemoryFormat> formats = {
        {"contiguous_format", at::MemoryFormat::Contiguous}, {"preserve_format", at::MemoryFormat::Preserve},
        {"channels_last", at::MemoryFormat::ChannelsLast}, {"channels_last_3d", at::MemoryFormat::ChannelsLast3d}};
    return constant(c10::IValue(static_cast<int64_t>(formats.at(json["memory_format"].text()))));
  }
  if (is_object(json, "complex")) {
    const auto& parts = json["complex"].array();
    return constant(c10::IValue(c10::complex<double>(parts.at(0).number(), parts.at(1).number())));
  }
  refuse("an argument of this kind");
}

ArchiveStep Lowering::call_operator(const Json& node, const std::string& target) {
  const auto first = target.find('.'), last = target.rfind('.');
  const std::string overload = target.substr(last + 1), base = target.substr(0, first) + "::" + target.substr(first + 1, last - first - 1);
  const std::string shown = overload == "default" ? "" : overload;
  const auto op = c10::Dispatcher::singleton().findSchema({base, shown});
  if (!op) throw Error("this libtorch has no operator " + target + place_);
  if (base == "aten::from_file") throw Error("the archive calls " + target + ", which it may not do");
  ArchiveStep step("operator", shown.empty() ? base : base + "." + shown);
  const auto& args = node["args"].array();
  const Json* named = node.find("kwargs");
  size_t position = 0, used = 0;
  for (const auto& parameter : op->schema().arguments()) {
    const Json* found = !parameter.kwarg_only() && position < args.size() ? &args[position++] : nullptr;
    if (found == nullptr && named != nullptr) {
      found = named->find(parameter.name());
      used += found != nullptr;
    }
    step.arguments.push_back(found == nullptr ? Given{} : given(*found));
    if (found == nullptr && !parameter.default_value()) throw Error(target + " lacks its argument " + parameter.name() + place_);
  }
  if (position < args.size() || (named != nullptr && used < named->fields().size())) throw Error(target + " has too many arguments" + place_);
  return step;
}

ArchiveStep Lowering::number(const Json& node, const std::string& target) {
  const auto& args = node["args"].array();
  if (number_handler(target) == nullptr || node.find("kwargs") != nullptr || !is_flat(args)) refuse(target);
  return {"number", target, values_of(args)};
}

ArchiveStep Lowering::on_list(const Json& node, const std::string& target) {
  const auto& args = node["args"].array();
  ArchiveStep step("list", target);
  if (target == "list_" && args.size() == 1 && args[0].is(Json::Kind::Array)) {
    step.name = "list";
    step.inputs = values_of(args[0].array());
  } else if (args.size() == 2 && is_object(args[1], "slice") && (target == "operator.getitem" || target == "list_slice")) {
    step.name = "slice";
    step.inputs = {value_of(args[0])};
    for (const Json& bound : args[1]["slice"].array()) step.inputs.push_back(value_of(bound));
  } else {
    step.inputs = values_of(args);
  }
  if (list_handler(step.name) == nullptr || node.find("kwargs") != nullptr) refuse(target);
  return step;
}

}  // namespace dy2st
