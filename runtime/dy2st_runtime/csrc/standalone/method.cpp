#include "method.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "files/dtypes.h"
#include "gradients.h"
#include "lowering/lower.h"
#include "structure.h"

namespace dy2st {
namespace {

std::string shape_text(at::IntArrayRef sizes) {
  std::ostringstream text;
  text << sizes;
  return text.str();
}

class DefaultDtypeGuard {
 public:
  explicit DefaultDtypeGuard(at::ScalarType dtype) : before_(c10::get_default_dtype()) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
  }
  ~DefaultDtypeGuard() { c10::set_default_dtype(before_); }
  DefaultDtypeGuard(const DefaultDtypeGuard&) = delete;
  DefaultDtypeGuard& operator=(const DefaultDtypeGuard&) = delete;

 private:
  caffe2::TypeMeta before_;
};

}  // namespace

std::vector<std::pair<std::string, const std::vector<Json>*>> methods_of(const Json& document) {
  std::vector<std::pair<std::string, const std::vector<Json>*>> methods;
  if (const auto& programs = document["programs"].array(); !programs.empty()) methods.emplace_back("forward", &programs);
  if (const Json* more = document.find("methods")) {
    for (const auto& [name, programs] : more->fields()) methods.emplace_back(name, &programs.array());
  }
  return methods;
}

const Json& program_of(const Json& document, const std::string& method, bool training) {
  std::string known;
  for (const auto& [name, programs] : methods_of(document)) {
    known += (known.empty() ? "" : ", ") + name;
    if (name != method || programs->empty()) continue;
    for (const Json& program : *programs) {
      if (program["any_mode"].boolean() || program["training"].boolean() == training) return program;
    }
    return programs->front();
  }
  throw Error("it has no method " + method + ", but " + known);
}

Method::Method(const Json& described, State& state) : described_(described), trains_(dy2st::trains(described)) {
  Lowered lowered = lower(described);
  program_ = std::move(lowered.program);
  places_ = std::move(lowered.places);
  read_inputs();
  for (const Json& slot : described["states"].array()) {
    states_.push_back(slot["name"].text());
    state[states_.back()];
  }
  read_effects(state);
  if (program_->inputs.size() != inputs_.size() + states_.size()) throw Error("its program has not the inputs that it says");
}

void Method::read_inputs() {
  for (const Json& slot : described_["inputs"].array()) {
    Input input{slot["name"].text(), "", at::kFloat, {}};
    if (const Json* number = slot.find("number")) input.number = number->text();
    if (slot.find("number") == nullptr) {
      input.dtype = dtype_of(slot["dtype"].text());
      for (const Json& size : slot["shape"].array()) {
        input.shape.push_back(size.is(Json::Kind::Int) ? size.integer() : -1);
        if (!size.is(Json::Kind::Int)) shapes_.push_back(size.text());
      }
    }
    inputs_.push_back(std::move(input));
  }
}

// Containers have no identity here: what would make two of them one is refused.
void Method::read_effects(State& state) {
  std::vector<int64_t> numbers;
  std::map<int64_t, std::string> existing;
  if (const Json* places = described_.find("existing")) {
    for (const Json& pair : places->array()) {
      const Json* place = pair.array().at(1).find("state");
      existing[pair.array().at(0).integer()] = place == nullptr ? "" : place->array().at(0)["str"].text();
    }
  }
  for (const Json& effect : described_["effects"].array()) {
    const std::string& target = effect["target"].text();
    const bool is_slot = std::find(states_.begin(), states_.end(), target) != states_.end();
    const std::string name = !is_slot && target.rfind("self.", 0) == 0 ? target.substr(5) : target;
    if (effect["kind"].text() != "set") throw Error("what it writes to " + target + " needs Python");
    if (state.find(name) == nullptr && !state.has_items(name)) continue;  // nothing reads it
    check_written(effect["value"], name, state);
    std::vector<int64_t> own;
    find_shared(effect["value"], own);
    for (int64_t number : own) {
      const auto before = existing.find(number);
      const bool is_another = before != existing.end() && before->second != name;
      if (is_another || std::find(numbers.begin(), numbers.end(), number) != numbers.end()) {
        throw Error("it writes a container to " + target + " that is another one, too, which needs Python");
      }
      numbers.push_back(number);
    }
    effects_.push_back({name, &effect["value"]});
  }
}

void Method::check(const std::vector<Value>& inputs) const {
  if (inputs.size() != inputs_.size()) {
    throw Error("the model takes " + std::to_string(inputs_.size()) + " inputs, not " + std::to_string(inputs.size()));
  }
  std::map<std::string, int64_t> sizes;
  size_t named = 0;
  for (size_t index = 0; index < inputs.size(); ++index) {
    const Input& wanted = inputs_[index];
    const Value& given = inputs[index];
    const Kind kind = wanted.number == "int" ? Kind::Int : wanted.number == "float" ? Kind::Float : wanted.number == "bool" ? Kind::Bool : Kind::Tensor;
    if (!given.is(kind)) throw Error("input " + wanted.name + " is " + (kind == Kind::Tensor ? "a tensor" : wanted.number));
    if (kind != Kind::Tensor) continue;
    const at::Tensor& tensor = given.tensor();
    bool fits = tensor.scalar_type() == wanted.dtype && tensor.dim() == static_cast<int64_t>(wanted.shape.size());
    for (size_t dim = 0; fits && dim < wanted.shape.size(); ++dim) {
      const int64_t size = tensor.size(static_cast<int64_t>(dim));
      if (wanted.shape[dim] < 0) {
        fits = sizes.emplace(shapes_.at(named++), size).first->second == size;
      } else {
        fits = size == wanted.shape[dim];
      }
    }
    if (!fits) {
      throw Error("input " + wanted.name + " is " + c10::toString(wanted.dtype) + shape_text(wanted.shape) + " (-1 for any size), not " +
                  c10::toString(tensor.scalar_type()) + shape_text(tensor.sizes()));
    }
  }
}

void Method::execute_in(Frame& frame, bool gradients) const {
  const at::AutoGradMode mode(trains_);
  const AutocastGuard autocast;
  const DefaultDtypeGuard dtype(dtype_of(described_["default_dtype"].text()));
  frame.skips_autograd = !trains_;
  frame.gradients = gradients;
  try {
    execute(*program_, frame);
  } catch (const c10::Error& error) {
    throw Error(std::string(error.what_without_backtrace()) + places_[frame.at]);
  } catch (const std::exception& error) {
    throw Error(error.what() + places_[frame.at]);
  }
}

std::vector<Method::Output> Method::run(const std::vector<Value>& inputs, State& state, bool gradients) {
  check(inputs);
  Frame frame(*program_);
  for (size_t index = 0; index < inputs.size(); ++index) frame[program_->inputs[index]] = inputs[index];
  for (size_t index = 0; index < states_.size(); ++index) {
    const Value& value = frame[program_->inputs[inputs.size() + index]] = state[states_[index]];
    if (value.is(Kind::None)) throw Error("the model was saved with a tensor as " + states_[index] + ", which is None now");
  }
  execute_in(frame, gradients);
  std::vector<Value> leaves;
  for (int32_t output : program_->outputs) leaves.push_back(frame[output]);
  for (const Effect& effect : effects_) write(*effect.value, effect.target, leaves, state);
  std::vector<Output> outputs;
  collect(described_["out_structure"], "", leaves, outputs);
  return outputs;
}

}  // namespace dy2st
