#include "lower.h"

#include <algorithm>
#include <map>
#include <set>

#include "state.h"
#include "text.h"

namespace dy2st {
namespace {

using Registers = std::vector<int32_t>;

// What the names of a block stand for.
struct Scope {
  std::map<std::string, int32_t> values;
  std::map<std::string, Registers> results;  // of control operations and of operators with several results
};

// One argument of an operator, before its parameter is looked at.
struct Given {
  enum class Kind : uint8_t { Missing, Register, List, Constant } kind = Kind::Missing;
  int32_t source = -1;
  Registers sources;
  c10::IValue constant;
};

struct Step {
  std::string kind, name;
  Registers outputs, inputs, dead, reads;
  std::vector<Given> arguments;
  int32_t target = -1;
  bool spread = false;
  Deed* deed = nullptr;
  std::string place;
};

std::set<int32_t> read_by(const Step& step) {
  std::set<int32_t> found(step.inputs.begin(), step.inputs.end());
  found.insert(step.reads.begin(), step.reads.end());
  for (const Given& given : step.arguments) {
    if (given.kind == Given::Kind::Register) found.insert(given.source);
    found.insert(given.sources.begin(), given.sources.end());
  }
  return found;
}

bool is_object(const Json& json, const char* key) { return json.is(Json::Kind::Object) && json.find(key) != nullptr; }

const std::vector<Json>* sequence(const Json& json) {
  if (json.is(Json::Kind::Array)) return &json.array();
  return is_object(json, "tuple") ? &json["tuple"].array() : nullptr;
}

bool is_number(const Json& json) {
  return json.is(Json::Kind::Bool) || json.is(Json::Kind::Int) || json.is(Json::Kind::Float) || is_object(json, "float");
}

// Registers are numbered from 0, constants -2, -3, ...
class Lowering {
 public:
  explicit Lowering(const Json& program)
      : blocks_(program["blocks"].array()), sources_(program["sources"].array()), program_(std::make_unique<Program>()) {}
  Lowered whole();

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw Error(what + " needs Python" + place_); }
  int32_t fresh() {
    own_.insert(count_);
    return count_++;
  }
  int32_t constant(Value value);
  int32_t constant_of(const Json& json);
  int32_t value_of(const Json& json);
  Registers values_of(const std::vector<Json>& items);
  Step& emit(Step step);
  Registers block(const Json& described);
  void bury(const std::vector<std::pair<size_t, size_t>>& steps, const Registers& kept);
  void operation(const Json& node);
  void branch(const Json& node);
  void loop(const Json& node);
  void leave(const Registers& sources, const Registers& targets, const std::set<int32_t>& dying);
  void finish_control(const Json& node, const Registers& results);
  void alias(const Json& block, const Registers& registers);
  void call_operator(const Json& node, const std::string& target);
  Given given(const Json& json);
  void number(const Json& node, const std::string& target);
  void on_list(const Json& node, const std::string& target);
  void deed(const Json& node, const std::string& target);
  std::vector<Deed::Part> parts(const Json& json, Step& step, bool is_text);
  Instruction made(const Step& step);
  const Json& inner(const Json& json) const {
    const auto index = json["block"].integer();
    if (index < 0 || static_cast<size_t>(index) >= blocks_.size()) throw Error("the archive has no such block");
    return blocks_[static_cast<size_t>(index)];
  }

  const std::vector<Json>& blocks_;
  const std::vector<Json>& sources_;
  std::unique_ptr<Program> program_;
  std::vector<Step> steps_;
  int32_t count_ = 0;
  int depth_ = 0;
  Scope scope_;
  std::set<int32_t> own_, left_;
  std::string place_;
};

constexpr int kDeepest = 500;

// Each constant has a register of its own: there are few, and nothing is gained by sharing them.
int32_t Lowering::constant(Value value) {
  program_->constants.push_back(std::move(value));
  return -1 - static_cast<int32_t>(program_->constants.size());
}

int32_t Lowering::constant_of(const Json& json) {
  try {
    return constant(constant_value(json));
  } catch (const Error& error) {
    throw Error(error.what() + place_);
  }
}

int32_t Lowering::value_of(const Json& json) {
  if (json.is(Json::Kind::Text)) {
    const auto found = scope_.values.find(json.text());
    if (found == scope_.values.end()) throw Error("the archive has no value " + json.text());
    return found->second;
  }
  const auto* items = sequence(json);
  if (items == nullptr) return constant_of(json);
  Step step;
  step.kind = "list";
  step.name = json.is(Json::Kind::Array) ? "list" : "tuple";
  step.inputs = values_of(*items);
  step.outputs = {fresh()};
  return emit(std::move(step)).outputs[0];
}

Registers Lowering::values_of(const std::vector<Json>& items) {
  Registers found;
  for (const Json& item : items) found.push_back(value_of(item));
  return found;
}

Step& Lowering::emit(Step step) {
  step.place = place_;
  steps_.push_back(std::move(step));
  return steps_.back();
}

Registers Lowering::block(const Json& described) {
  if (++depth_ > kDeepest) throw Error("the archive has blocks that are nested too deep");
  auto outside = std::exchange(own_, {});
  std::vector<std::pair<size_t, size_t>> operations;
  for (const Json& node : described["nodes"].array()) {
    const size_t start = steps_.size();
    if (const Json* at = node.find("at")) {
      const auto source = static_cast<size_t>(at->array().at(0).integer());
      if (source >= sources_.size()) throw Error("the archive has a place in no source");
      const auto& names = sources_[source].array();
      place_ = " (File \"" + names.at(0).text() + "\", line " + std::to_string(at->array().at(1).integer()) + ", in " + names.at(1).text() + ")";
    }
    operation(node);
    operations.emplace_back(start, steps_.size());
  }
  const size_t start = steps_.size();
  const Registers outputs = values_of(described["outputs"].array());
  operations.emplace_back(start, steps_.size());
  bury(operations, outputs);
  left_.clear();
  for (int32_t output : outputs) {
    if (own_.count(output) > 0) left_.insert(output);
  }
  own_ = std::move(outside);
  --depth_;
  return outputs;
}

// See lowering.py: marks where nobody reads a register of this block any more.
void Lowering::bury(const std::vector<std::pair<size_t, size_t>>& operations, const Registers& kept) {
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
  const auto& args = node["args"].array();
  if (target == "operator.getitem" && args.size() == 2 && args[0].is(Json::Kind::Text) && args[1].is(Json::Kind::Int)) {
    const auto source = scope_.results.find(args[0].text());
    const int64_t index = args[1].integer();
    if (source != scope_.results.end() && index >= 0 && static_cast<size_t>(index) < source->second.size()) {
      scope_.values[node["name"].text()] = source->second[static_cast<size_t>(index)];
      return;
    }
  }
  if (target == "if_") {
    branch(node);
  } else if (target == "while_") {
    loop(node);
  } else if (target.rfind("aten.", 0) == 0 || target.rfind("prims.", 0) == 0) {
    call_operator(node, target);
  } else if (target == "raise_" || target == "assert_" || target == "print_" || target == "format_") {
    deed(node, target);
  } else if (target.rfind("list_", 0) == 0 || target == "operator.getitem") {
    on_list(node, target);
  } else {
    number(node, target);
  }
}

void Lowering::branch(const Json& node) {
  const auto& args = node["args"].array();
  const Json &then = inner(args.at(1)), &orelse = inner(args.at(2));
  const std::string name = node["name"].text();
  Registers results;
  for (size_t index = 0; index < then["outputs"].array().size(); ++index) results.push_back(fresh());
  const Registers given = values_of(*sequence(args.at(3)));
  Step skip;
  skip.kind = "unless";
  skip.inputs = {value_of(args.at(0))};
  const size_t test = steps_.size();
  emit(std::move(skip));
  const Scope around = scope_;
  alias(then, given);
  const Registers first = block(then);
  leave(first, results, left_);
  const size_t jump = steps_.size();
  emit({.kind = "jump"});
  steps_[test].target = static_cast<int32_t>(steps_.size());
  scope_ = around;
  alias(orelse, given);
  const Registers second = block(orelse);
  leave(second, results, left_);
  steps_[jump].target = static_cast<int32_t>(steps_.size());
  scope_ = around;
  finish_control(node, results);
}

void Lowering::loop(const Json& node) {
  const auto& args = node["args"].array();
  const Json& body = inner(args.at(1));
  Registers first = {value_of(args.at(0))};
  for (int32_t carried : values_of(*sequence(args.at(2)))) first.push_back(carried);
  Registers registers = values_of(*sequence(args.at(3)));
  Registers results;
  for (size_t index = 1; index < first.size(); ++index) results.push_back(fresh());
  Registers targets = {fresh()};
  targets.insert(targets.end(), results.begin(), results.end());
  leave(first, targets, {});
  const size_t again = steps_.size();
  Step test;
  test.kind = "unless";
  test.inputs = {targets[0]};
  emit(std::move(test));
  const Scope around = scope_;
  registers.insert(registers.begin(), results.begin(), results.end());
  alias(body, registers);
  const std::string place = place_;
  const Registers outputs = block(body);
  leave(outputs, targets, left_);
  place_ = place;
  scope_ = around;
  Step jump;
  jump.kind = "jump";
  jump.target = static_cast<int32_t>(again);
  emit(std::move(jump));
  steps_[again].target = static_cast<int32_t>(steps_.size());
  finish_control(node, results);
}

void Lowering::leave(const Registers& sources, const Registers& targets, const std::set<int32_t>& dying) {
  if (sources.size() != targets.size()) throw Error("the archive has a block with too many or too few outputs");
  Step step;
  step.kind = "move";
  for (size_t index = 0; index < sources.size(); ++index) {
    if (sources[index] == targets[index]) continue;
    step.inputs.push_back(sources[index]);
    step.outputs.push_back(targets[index]);
  }
  if (step.inputs.empty()) return;
  step.dead.assign(dying.begin(), dying.end());
  emit(std::move(step));
}

// The results as a tuple too: a user may take all of them.
void Lowering::finish_control(const Json& node, const Registers& results) {
  Step step;
  step.kind = "list";
  step.name = "tuple";
  step.inputs = results;
  step.outputs = {fresh()};
  scope_.values[node["name"].text()] = step.outputs[0];
  emit(std::move(step));
  scope_.results[node["name"].text()] = results;
}

void Lowering::alias(const Json& block, const Registers& registers) {
  const auto& inputs = block["inputs"].array();
  if (inputs.size() != registers.size()) throw Error("the archive has a block with too many or too few inputs");
  scope_ = {};
  for (size_t index = 0; index < inputs.size(); ++index) scope_.values[inputs[index]["name"].text()] = registers[index];
}

Given Lowering::given(const Json& json) {
  Given found;
  const auto settled = [&](c10::IValue value) {
    found.kind = Given::Kind::Constant;
    found.constant = std::move(value);
    return found;
  };
  if (json.is(Json::Kind::Null)) return settled(c10::IValue());
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
  if (is_object(json, "str")) return settled(c10::IValue(json["str"].text()));
  if (is_object(json, "dtype")) return settled(c10::IValue(static_cast<int64_t>(dtype_of(json["dtype"].text()))));
  if (is_object(json, "device")) return settled(c10::IValue(c10::Device(json["device"].text())));
  if (is_object(json, "layout") && json["layout"].text() == "strided") return settled(c10::IValue(static_cast<int64_t>(c10::Layout::Strided)));
  if (is_object(json, "memory_format")) {
    static const std::map<std::string, at::MemoryFormat> formats = {
        {"contiguous_format", at::MemoryFormat::Contiguous}, {"preserve_format", at::MemoryFormat::Preserve},
        {"channels_last", at::MemoryFormat::ChannelsLast}, {"channels_last_3d", at::MemoryFormat::ChannelsLast3d}};
    return settled(c10::IValue(static_cast<int64_t>(formats.at(json["memory_format"].text()))));
  }
  if (is_object(json, "complex")) {
    const auto& parts = json["complex"].array();
    return settled(c10::IValue(c10::complex<double>(parts.at(0).number(), parts.at(1).number())));
  }
  refuse("an argument of this kind");
}

void Lowering::call_operator(const Json& node, const std::string& target) {
  const auto first = target.find('.'), last = target.rfind('.');
  const std::string overload = target.substr(last + 1), base = target.substr(0, first) + "::" + target.substr(first + 1, last - first - 1);
  const std::string shown = overload == "default" ? "" : overload;
  const auto op = c10::Dispatcher::singleton().findSchema({base, shown});
  if (!op) throw Error("this libtorch has no operator " + target + place_);
  if (base == "aten::from_file") throw Error("the archive calls " + target + ", which it may not do");
  Step step;
  step.kind = "operator";
  step.name = shown.empty() ? base : base + "." + shown;
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
  const size_t count = op->schema().returns().size();
  if (count > 1) {
    step.spread = true;
    for (size_t index = 0; index < count; ++index) step.outputs.push_back(fresh());
    const Registers results = step.outputs;
    emit(std::move(step));
    finish_control(node, results);
  } else {
    step.outputs = {scope_.values[node["name"].text()] = fresh()};
    emit(std::move(step));
  }
}

void Lowering::number(const Json& node, const std::string& target) {
  const auto& args = node["args"].array();
  const bool flat = std::none_of(args.begin(), args.end(), [](const Json& json) { return sequence(json) != nullptr; });
  if (number_handler(target) == nullptr || node.find("kwargs") != nullptr || !flat) refuse(target);
  Step step;
  step.kind = "number";
  step.name = target;
  step.inputs = values_of(args);
  step.outputs = {scope_.values[node["name"].text()] = fresh()};
  emit(std::move(step));
}

void Lowering::on_list(const Json& node, const std::string& target) {
  const auto& args = node["args"].array();
  Step step;
  step.kind = "list";
  step.name = target;
  if (args.size() == 2 && is_object(args[1], "slice") && (target == "operator.getitem" || target == "list_slice")) {
    step.name = "slice";
    step.inputs = {value_of(args[0])};
    for (const Json& bound : args[1]["slice"].array()) step.inputs.push_back(value_of(bound));
  } else {
    step.inputs = values_of(args);
  }
  if (list_handler(step.name) == nullptr || node.find("kwargs") != nullptr) refuse(target);
  step.outputs = {scope_.values[node["name"].text()] = fresh()};
  emit(std::move(step));
}

// Text, values in it with nothing but a conversion, and values alone.
std::vector<Deed::Part> Lowering::parts(const Json& json, Step& step, bool is_text) {
  std::vector<Deed::Part> found;
  const auto value = [&](const Json& item, char conversion) {
    const int32_t source = value_of(item);
    step.reads.push_back(source);
    found.push_back({"", source, conversion});
  };
  const auto* items = is_text ? sequence(json) : nullptr;
  if (items == nullptr) {
    value(json, 's');
    return found;
  }
  for (const Json& part : *items) {
    if (is_object(part, "str")) {
      found.push_back({part["str"].text(), -1, 0});
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

void Lowering::deed(const Json& node, const std::string& target) {
  const auto& args = node["args"].array();
  auto made = std::make_shared<Deed>();
  Step step;
  step.kind = target == "assert_" ? "assert" : "python";
  step.name = target;
  step.deed = made.get();
  size_t next = 0;
  if (target == "assert_") step.inputs = {value_of(args.at(next++))};
  if (target == "raise_" || target == "assert_") {
    made->kind = target == "raise_" ? Deed::Kind::Raise : Deed::Kind::Assert;
    const Json& exception = args.at(next++);
    made->exception = (exception.find("qualname") != nullptr ? exception["qualname"] : exception["exception"]).text();
    for (; next < args.size(); ++next) made->arguments.push_back(parts(args[next], step, false));
  } else {
    made->kind = target == "print_" ? Deed::Kind::Print : Deed::Kind::Format;
    made->arguments.push_back(parts(args.at(0), step, true));
    if (target == "print_") made->end = args.at(1)["str"].text();
  }
  step.outputs = {scope_.values[node["name"].text()] = fresh()};
  program_->owned.push_back(made);
  emit(std::move(step));
}

Instruction Lowering::made(const Step& step) {
  static const std::map<std::string, Opcode> opcodes = {
      {"jump", Opcode::Jump}, {"unless", Opcode::Unless}, {"move", Opcode::Move}, {"assert", Opcode::Assert}, {"return", Opcode::Return}};
  const auto constants = static_cast<int32_t>(program_->constants.size());
  const auto settled = [&](int32_t given) { return given < -1 ? -2 - given : given < 0 ? given : given + constants; };
  const auto all = [&](const Registers& given) {
    Registers found;
    for (int32_t one : given) found.push_back(settled(one));
    return found;
  };
  Instruction instruction;
  const auto opcode = opcodes.find(step.kind);
  instruction.opcode = opcode == opcodes.end() ? Opcode::Do : opcode->second;
  instruction.name = step.name;
  instruction.outputs = all(step.outputs);
  instruction.inputs = all(step.inputs);
  instruction.dead = all(step.dead);
  instruction.reads = all(step.reads);
  instruction.target = step.target;
  instruction.spread = step.spread;
  instruction.function = reinterpret_cast<Object*>(step.deed);
  if (step.deed != nullptr) {
    for (auto& argument : step.deed->arguments) {
      for (auto& part : argument) part.source = settled(part.source);
    }
  }
  if (step.kind == "number") instruction.handler = number_handler(step.name);
  if (step.kind == "list") instruction.handler = list_handler(step.name);
  if (step.kind == "number" || step.kind == "list") instruction.aliases = false;
  if (step.kind == "move") {
    for (size_t index = 0; index < instruction.inputs.size(); ++index) {
      const auto &inputs = instruction.inputs, &dead = instruction.dead;
      const bool dies = std::find(dead.begin(), dead.end(), inputs[index]) != dead.end();
      instruction.last.push_back(dies && std::find(inputs.begin() + index + 1, inputs.end(), inputs[index]) == inputs.end());
    }
  }
  if (step.kind != "operator") return instruction;
  const auto dot = step.name.find('.');
  instruction.op = c10::Dispatcher::singleton().findSchema({step.name.substr(0, dot), dot == std::string::npos ? "" : step.name.substr(dot + 1)});
  const auto& parameters = instruction.op->schema().arguments();
  for (size_t index = 0; index < parameters.size(); ++index) {
    const Given& given = step.arguments[index];
    Argument argument;
    argument.source = settled(given.source);
    argument.is_list = given.kind == Given::Kind::List;
    argument.sources = all(given.sources);
    argument.constant = given.kind == Given::Kind::Missing ? *parameters[index].default_value() : given.constant;
    if (argument.constant.isIntList()) argument.ints = argument.constant.toIntVector();
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
  emit({.kind = "return"});
  const auto constants = static_cast<int32_t>(program_->constants.size());
  for (int32_t input : inputs) program_->inputs.push_back(input + constants);
  for (int32_t output : outputs) program_->outputs.push_back(output < -1 ? -2 - output : output + constants);
  program_->registers = static_cast<size_t>(constants + count_);
  program_->may_skip_autograd = true;
  Lowered lowered;
  for (const Step& step : steps_) {
    program_->instructions.push_back(made(step));
    lowered.places.push_back(step.place);
  }
  lowered.program = std::move(program_);
  return lowered;
}

}  // namespace

Lowered lower(const Json& described) { return Lowering(described).whole(); }

}  // namespace dy2st
