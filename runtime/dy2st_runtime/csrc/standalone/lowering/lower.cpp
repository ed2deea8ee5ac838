#include "lower.h"

#include <bit>

#include "lowering.h"

namespace dy2st {
namespace {

std::set<int32_t> read_by(const ArchiveStep& step) {
  std::set<int32_t> found(step.inputs.begin(), step.inputs.end());
  found.insert(step.reads.begin(), step.reads.end());
  for (const Given& given : step.arguments) {
    if (given.kind == Given::Kind::Register) found.insert(given.source);
    found.insert(given.sources.begin(), given.sources.end());
  }
  return found;
}

// Constants with one key are one.
std::string key_of(const Value& value) {
  switch (value.kind()) {
    case Kind::Bool:
      return value.as_bool() ? "b1" : "b0";
    case Kind::Int:
      return "i" + std::to_string(value.as_int());
    case Kind::Float:
      return "f" + std::to_string(std::bit_cast<int64_t>(value.as_float()));
    case Kind::Object:
      return "t" + text_of(value);
    default:
      return "n";
  }
}

constexpr int kDeepest = 500;

}  // namespace

int32_t Lowering::constant(Value value) {
  const auto [found, added] = known_.emplace(key_of(value), -2 - static_cast<int32_t>(program_->constants.size()));
  if (added) program_->constants.push_back(std::move(value));
  return found->second;
}

Value Lowering::constant_in(const Json& json) const {
  try {
    return constant_value(json);
  } catch (const Error& error) {
    throw Error(error.what() + place_);
  }
}

int32_t Lowering::value_named(const std::string& name) const {
  const auto found = scope_.values.find(name);
  if (found == scope_.values.end()) throw Error("the archive has no value " + name);
  return found->second;
}

int32_t Lowering::value_of(const Json& json) {
  if (json.is(Json::Kind::Text)) return value_named(json.text());
  const auto* items = sequence(json);
  if (items == nullptr) return constant(constant_in(json));
  const Registers inputs = values_of(*items);
  const int32_t made = fresh();
  emit({"list", json.is(Json::Kind::Array) ? "list" : "tuple", inputs, {made}});
  return made;
}

Registers Lowering::values_of(const std::vector<Json>& items) {
  Registers found;
  for (const Json& item : items) found.push_back(value_of(item));
  return found;
}

void Lowering::emit(ArchiveStep step) {
  step.place = place_;
  steps_.push_back(std::move(step));
}

void Lowering::note_place(const Json& node) {
  place_.clear();
  const Json* at = node.find("at");
  if (at == nullptr) return;
  const auto source = static_cast<size_t>(at->array().at(0).integer());
  if (source >= sources_.size()) throw Error("the archive has a place in no source");
  const auto& names = sources_[source].array();
  place_ = " (File \"" + names.at(0).text() + "\", line " + std::to_string(at->array().at(1).integer()) + ", in " + names.at(1).text() + ")";
}

Registers Lowering::block(const Json& described) {
  if (++depth_ > kDeepest) throw Error("the archive has blocks that are nested too deep");
  auto outside = std::exchange(own_, {});
  auto uses_outside = std::exchange(uses_, uses_in(described));
  std::vector<std::pair<size_t, size_t>> operations;
  for (const Json& node : described["nodes"].array()) {
    const size_t start = steps_.size();
    note_place(node);
    operation(node);
    operations.emplace_back(start, steps_.size());
  }
  const size_t start = steps_.size();
  const Registers outputs = values_of(described["outputs"].array());
  operations.emplace_back(start, steps_.size());
  release(operations, outputs);
  left_.clear();
  for (int32_t output : outputs) {
    if (own_.count(output) > 0) left_.insert(output);
  }
  own_ = std::move(outside);
  uses_ = std::move(uses_outside);
  --depth_;
  return outputs;
}

// See release() of lowering.py: marks where nobody reads a register of this block any more.
void Lowering::release(const std::vector<std::pair<size_t, size_t>>& operations, const Registers& kept) {
  std::set<int32_t> waiting = own_;
  for (int32_t output : kept) waiting.erase(output);
  for (auto operation = operations.rbegin(); operation != operations.rend(); ++operation) {
    const auto [start, end] = *operation;
    size_t straight = start;
    while (straight < end && steps_[straight].kind != "jump" && steps_[straight].kind != "unless") ++straight;
    for (size_t index = end; index-- > start;) {
      std::set<int32_t> used = read_by(steps_[index]);
      used.insert(steps_[index].outputs.begin(), steps_[index].outputs.end());
      Registers& dead = steps_[index < straight ? index : end - 1].dead;
      for (int32_t one : used) {
        if (waiting.erase(one) > 0) dead.push_back(one);
      }
    }
  }
}

void Lowering::operation(const Json& node) {
  const std::string& target = node["target"].text();
  if (target == "if_") {
    branch(node);
  } else if (target == "while_") {
    loop(node, node["args"].array().at(0));
  } else if (trains_ && (target == "transform_" || target == "apply_")) {
    refuse_transform(node);
  } else if (!take_part(node) && (trains_ || !without_gradients(node))) {
    call(node);
  }
}

// A part of a result that has a register for each.
bool Lowering::take_part(const Json& node) {
  const auto& args = node["args"].array();
  const bool takes = node["target"].text() == "operator.getitem" && args.size() == 2 && args[0].is(Json::Kind::Text) && args[1].is(Json::Kind::Int);
  if (!takes) return false;
  const auto source = scope_.results.find(args[0].text());
  const int64_t index = args[1].integer();
  if (source == scope_.results.end() || index < 0 || static_cast<size_t>(index) >= source->second.size()) return false;
  scope_.values[node["name"].text()] = source->second[static_cast<size_t>(index)];
  return true;
}

void Lowering::branch(const Json& node) {
  const auto& args = node["args"].array();
  const Json &then = inner(args.at(1)), &orelse = inner(args.at(2));
  const Registers results = results_of(node, then["outputs"].array().size());
  const std::string place = place_;
  const Registers given = values_of(*sequence(args.at(3)));
  const int32_t pred = value_of(args.at(0));
  const size_t test = steps_.size();
  emit({"unless", "branch", {pred}});
  const Scope around = scope_;
  alias(then, given);
  const Registers first = block(then);
  leave(first, results, left_);
  const size_t jump = steps_.size();
  emit({"jump"});
  steps_[test].target = static_cast<int32_t>(steps_.size());
  scope_ = around;
  alias(orelse, given);
  const Registers second = block(orelse);
  leave(second, results, left_);
  steps_[jump].target = static_cast<int32_t>(steps_.size());
  scope_ = around;
  place_ = place;
  finish_control(node, results);
}

void Lowering::loop(const Json& node, const Json& pred) {
  const auto& args = node["args"].array();
  const Json& body = inner(args.at(1));
  Registers first = {value_of(pred)};
  for (int32_t carried : values_of(*sequence(args.at(2)))) first.push_back(carried);
  Registers registers = values_of(*sequence(args.at(3)));
  const Registers results = results_of(node, first.size() - 1);
  Registers targets = {fresh()};
  targets.insert(targets.end(), results.begin(), results.end());
  leave(first, targets, {});
  const size_t again = steps_.size();
  emit({"unless", "loop", {targets[0]}});
  const Scope around = scope_;
  registers.insert(registers.begin(), results.begin(), results.end());
  alias(body, registers);
  const std::string place = place_;
  const Registers outputs = block(body);
  leave(outputs, targets, left_);
  place_ = place;
  scope_ = around;
  ArchiveStep jump("jump");
  jump.target = static_cast<int32_t>(again);
  emit(std::move(jump));
  steps_[again].target = static_cast<int32_t>(steps_.size());
  finish_control(node, results);
}

void Lowering::leave(const Registers& sources, const Registers& targets, const std::set<int32_t>& dying) {
  if (sources.size() != targets.size()) throw Error("the archive has a block with too many or too few outputs");
  ArchiveStep step("move");
  for (size_t index = 0; index < sources.size(); ++index) {
    if (sources[index] == targets[index]) continue;
    step.inputs.push_back(sources[index]);
    step.outputs.push_back(targets[index]);
  }
  if (step.inputs.empty()) return;
  step.dead.assign(dying.begin(), dying.end());
  emit(std::move(step));
}

Registers Lowering::results_of(const Json& node, size_t count) {
  Registers results;
  for (size_t index = 0; index < count; ++index) results.push_back(fresh());
  scope_.results[node["name"].text()] = results;
  return results;
}

bool Lowering::gives_parts(const Json& node, size_t count) const {
  const auto uses = uses_.find(node["name"].text());
  return uses == uses_.end() || uses->second.only_parts(count);
}

// The results as a tuple, for a user that takes all of them; else a step that does nothing, where registers may die.
void Lowering::finish_control(const Json& node, const Registers& results) {
  if (gives_parts(node, results.size())) return emit({"move"});
  const int32_t whole = scope_.values[node["name"].text()] = fresh();
  emit({"list", "tuple", results, {whole}});
}

void Lowering::alias(const Json& block, const Registers& registers) {
  const auto& inputs = block["inputs"].array();
  if (inputs.size() != registers.size()) throw Error("the archive has a block with too many or too few inputs");
  scope_ = {};
  for (size_t index = 0; index < inputs.size(); ++index) scope_.values[inputs[index]["name"].text()] = registers[index];
}

const Json& Lowering::inner(const Json& json) const {
  const auto index = json["block"].integer();
  if (index < 0 || static_cast<size_t>(index) >= blocks_.size()) throw Error("the archive has no such block");
  return blocks_[static_cast<size_t>(index)];
}

Instruction Lowering::made(const ArchiveStep& step) {
  Instruction instruction = assembled(*program_, step);
  instruction.function = reinterpret_cast<Object*>(step.deed);
  if (step.deed != nullptr) {
    for (auto& argument : step.deed->arguments) {
      for (auto& part : argument) resolve_registers(part.shown);
    }
    for (auto& operand : step.deed->operands) resolve_registers(operand);
  }
  if (step.kind != "operator") return instruction;
  instruction.op = operator_of(step.name);
  // Kernels of sparse tensors lose what is in them where they run below autograd.
  if (step.name.find("sparse") != std::string::npos) program_->may_skip_autograd = false;
  const auto& parameters = instruction.op->schema().arguments();
  for (size_t index = 0; index < parameters.size(); ++index) {
    const Given& given = step.arguments[index];
    Argument argument;
    argument.source = register_in(*program_, given.source);
    argument.is_list = given.kind == Given::Kind::List;
    argument.sources = registers_in(*program_, given.sources);
    argument.constant = given.constant;
    if (given.kind == Given::Kind::Missing) take_default(parameters[index], argument);
    const bool is_tensor = parameters[index].real_type()->kind() == c10::TypeKind::TensorType;
    if (is_tensor && given.constant.isComplexDouble()) throw Error("a complex number that stands for a tensor needs Python" + step.place);
    instruction.arguments.push_back(std::move(argument));
  }
  if (!prepare_operator(*program_, instruction)) throw Error("operator " + step.name + " needs Python" + step.place);
  return instruction;
}

Lowered Lowering::whole() {
  if (blocks_.empty()) throw Error("the archive has a program without blocks");
  Registers inputs;
  for (size_t index = 0; index < blocks_[0]["inputs"].array().size(); ++index) inputs.push_back(fresh());
  alias(blocks_[0], inputs);
  const Registers outputs = block(blocks_[0]);
  emit({"return", "", outputs});
  program_->inputs = registers_in(*program_, inputs);
  program_->outputs = registers_in(*program_, outputs);
  program_->registers = program_->constants.size() + static_cast<size_t>(count_);
  program_->may_skip_autograd = !trains_;
  Lowered lowered;
  for (const ArchiveStep& step : steps_) {
    program_->instructions.push_back(made(step));
    lowered.places.push_back(step.place);
  }
  lowered.program = std::move(program_);
  return lowered;
}

bool trains(const Json& described) {
  for (const Json& block : described["blocks"].array()) {
    for (const Json& node : block["nodes"].array()) {
      if (node["target"].text() == "backward" || node["target"].text() == "gradients") return true;
    }
  }
  return false;
}

Lowered lower(const Json& described) { return Lowering(described).whole(); }

}  // namespace dy2st
