// Gradients: how a program runs without them, and the operations of one that trains.
#include "lowering.h"
#include "../files/dtypes.h"

namespace dy2st {

// A checkpoint, a loop with snapshots, a backward pass, and what makes autograd know of one: nobody asks for gradients
// here, so what a checkpoint does is done in its place, such a loop is one like others, and outputs are what they were.
bool Lowering::without_gradients(const Json& node) {
  const auto& args = node["args"].array();
  const std::string &target = node["target"].text(), &name = node["name"].text();
  const std::string transform = target == "transform_" && is_object(args.at(0), "str") ? args[0]["str"].text() : "";
  if (transform == "loop") {
    loop(node, node["kwargs"]["pred"]);
    Registers given = values_of(*sequence(args.at(2)));
    for (int32_t operand : values_of(*sequence(args.at(3)))) given.push_back(operand);
    if (const Json* threaded = node["kwargs"].find("threaded")) {
      for (const Json& place : *sequence(*threaded)) scope_.results[name].push_back(given.at(static_cast<size_t>(place.integer())));
    }
    return true;
  }
  if (transform == "backward") {
    scope_.results[name] = {constant(Value())};
    return true;
  }
  if (transform == "checkpoint") {
    in_place_of_checkpoint(node);
    return true;
  }
  if (target != "apply_" || value_of(args.at(0)) != constant(Value())) return false;
  scope_.results[name] = values_of(*sequence(args.at(1)));
  return true;
}

void Lowering::in_place_of_checkpoint(const Json& node) {
  const auto& args = node["args"].array();
  Registers given = values_of(*sequence(args.at(2)));
  for (int32_t operand : values_of(*sequence(args.at(3)))) given.push_back(operand);
  const Scope around = scope_;
  const std::string place = place_;
  alias(inner(args.at(1)), given);
  const Registers outputs = block(inner(args.at(1)));
  const std::set<int32_t> made = left_;
  scope_ = around;
  place_ = place;
  leave(outputs, results_of(node, outputs.size()), made);
}

// A checkpoint does all that it does a second time, a backward pass of the user's own is a function for autograd.
void Lowering::refuse_transform(const Json& node) const {
  const Json& first = node["args"].array().at(0);
  const std::string name = is_object(first, "str") ? first["str"].text() : "apply";
  refuse("in a training step, " + (name == "apply" || name == "backward" ? std::string("a backward pass of the user's own") : name));
}

ArchiveStep Lowering::grad_mode(const Json& node) {
  program_->switches_grad = true;
  return {"grad", "", {value_of(node["args"].array().at(0))}};
}

ArchiveStep Lowering::other(const Json& node, const std::string& target) {
  auto made = std::make_shared<Deed>();
  made->kind = Deed::Kind::Other;
  const Other& known = *other_of(target);
  made->other = known.run;
  const auto& args = node["args"].array();
  const Json* named = node.find("kwargs");
  const auto& options = known.options;
  const size_t positional = known.positional;
  if (args.size() < positional || args.size() > positional + options.size()) refuse("such arguments of " + target);
  for (size_t index = 0; index < args.size(); ++index) {
    made->operands.push_back(is_object(args[index], "dtype") || is_object(args[index], "str") ? Operand{} : operand(args[index]));
    if (is_object(args[index], "dtype")) made->operands.back().constant = Value::of(static_cast<int64_t>(dtype_of(args[index]["dtype"].text())));
    if (is_object(args[index], "str")) made->operands.back().constant = text_value(args[index]["str"].text());
  }
  size_t used = 0;
  for (size_t index = args.size() - positional; index < options.size(); ++index) {
    const Json* option = named == nullptr ? nullptr : named->find(options[index]);
    Operand none;
    none.constant = Value::none();
    made->operands.push_back(option == nullptr ? none : operand(*option));
    used += option != nullptr;
  }
  if (named != nullptr && used < named->fields().size()) refuse("such options of " + target);
  if (target == "enter_autocast" && (!is_object(args.at(0), "str") || args[0]["str"].text() != "cpu")) refuse("autocast for another device than the CPU");
  const bool is_mode = target == "enter_autocast" || target == "exit_autocast";
  ArchiveStep step(is_mode ? target.substr(0, target.find('_')) : "python", is_mode ? "" : "call_");
  step.deed = made.get();
  program_->owned.push_back(made);
  return step;
}

}  // namespace dy2st
