#include "model.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>

#include <sstream>

#include "files/archive.h"
#include "lowering/lower.h"
#include "text.h"

namespace dy2st {
namespace {

constexpr int64_t kMajor = 1;

const Json& choose(const Json& document, const std::string& method, bool training) {
  const Json* programs = method == "forward" ? document.find("programs") : nullptr;
  if (const Json* methods = document.find("methods"); methods != nullptr && programs == nullptr) programs = methods->find(method);
  if (programs == nullptr || programs->array().empty()) throw Error("it has no method " + method);
  for (const Json& program : programs->array()) {
    if (program["any_mode"].boolean() || program["training"].boolean() == training) return program;
  }
  return programs->array()[0];
}

std::string shape_text(at::IntArrayRef sizes) {
  std::ostringstream text;
  text << sizes;
  return text.str();
}

// The leaves of a result, by the way to them.
void collect(const Json& structure, const std::string& path, std::vector<Value>& leaves, std::vector<Model::Output>& to) {
  const auto step = [&](const std::string& name) { return path.empty() ? name : path + "." + name; };
  if (const Json* leaf = structure.find("leaf")) {
    to.push_back({path, leaves.at(static_cast<size_t>(leaf->integer()))});
  } else if (const Json* constant = structure.find("const")) {
    to.push_back({path, constant_value(*constant)});
  } else if (const Json* dict = structure.find("dict")) {
    for (const Json& pair : dict->array()) {
      const Json& key = pair.array().at(0);
      const std::string name = key.is(Json::Kind::Int) ? std::to_string(key.integer()) : key["str"].text();
      collect(pair.array().at(1), step(name), leaves, to);
    }
  } else if (const Json* shared = structure.find("shared"); shared != nullptr) {
    collect(structure["item"], path, leaves, to);
  } else if (const Json* choice = structure.find("choice")) {
    std::vector<Model::Output> tag;
    collect(structure["tag"], "", leaves, tag);
    for (const Json& option : choice->array()) {
      if (option.array().at(0).integer() == tag.at(0).value.as_int()) collect(option.array().at(1), path, leaves, to);
    }
  } else {
    const Json* items = structure.find("tuple");
    for (const char* kind : {"list", "object"}) items = items == nullptr ? structure.find(kind) : items;
    if (items == nullptr) throw Error("a result of this structure needs Python");
    const Json* names = structure.find("fields");
    for (size_t index = 0; index < items->array().size(); ++index) {
      collect(items->array()[index], step(names != nullptr ? names->array().at(index).text() : std::to_string(index)), leaves, to);
    }
  }
}

}  // namespace

Model::Model(const std::string& path, const std::string& method, bool training) {
  const Archive archive(path);
  try {
    document_ = Json::parse(archive.member("program.json"), "program.json");
    const auto& version = document_["version"].array();
    if (document_["format"].text() != "dy2st" || version.at(0).integer() != kMajor) throw Error("its format is another version's");
    described_ = &choose(document_, method, training);
    state_ = std::make_unique<State>(document_["state"], archive);
    Lowered lowered = lower(*described_);
    program_ = std::move(lowered.program);
    places_ = std::move(lowered.places);
    for (const Json& slot : (*described_)["inputs"].array()) {
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
    for (const Json& slot : (*described_)["states"].array()) {
      states_.push_back(slot["name"].text());
      (*state_)[states_.back()];
    }
    for (const Json& effect : (*described_)["effects"].array()) {
      const std::string& target = effect["target"].text();
      if (effect["kind"].text() != "set" || (effect["value"].find("leaf") == nullptr && effect["value"].find("const") == nullptr)) {
        throw Error("what it writes to " + target + " needs Python");
      }
      effects_.push_back({target.rfind("self.", 0) == 0 ? target.substr(5) : target, &effect["value"]});
      (*state_)[effects_.back().target];
    }
    if (program_->inputs.size() != inputs_.size() + states_.size()) throw Error("its program has not the inputs that it says");
  } catch (const std::exception& error) {
    throw Error(path + " cannot be loaded: " + error.what());
  }
}

Model::~Model() = default;

void Model::check(const std::vector<Value>& inputs) const {
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

std::vector<Model::Output> Model::run(const std::vector<at::Tensor>& inputs) {
  std::vector<Value> values;
  for (const at::Tensor& input : inputs) values.push_back(Value::of(input));
  return run(values);
}

std::vector<Model::Output> Model::run(const std::vector<Value>& inputs) {
  check(inputs);
  const at::NoGradGuard no_grad;
  const auto dtype = c10::get_default_dtype();
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype_of((*described_)["default_dtype"].text())));
  Frame frame(*program_);
  frame.skips_autograd = true;
  for (size_t index = 0; index < inputs.size(); ++index) frame[program_->inputs[index]] = inputs[index];
  for (size_t index = 0; index < states_.size(); ++index) {
    frame[program_->inputs[inputs.size() + index]] = (*state_)[states_[index]];
  }
  try {
    execute(*program_, frame);
  } catch (const c10::Error& error) {
    c10::set_default_dtype(dtype);
    throw Error(std::string(error.what_without_backtrace()) + places_[frame.at]);
  } catch (const std::exception& error) {
    c10::set_default_dtype(dtype);
    throw Error(error.what() + places_[frame.at]);
  }
  c10::set_default_dtype(dtype);
  std::vector<Value> leaves;
  for (int32_t output : program_->outputs) leaves.push_back(frame[output]);
  for (const Effect& effect : effects_) {
    std::vector<Output> made;
    collect(*effect.value, "", leaves, made);
    (*state_)[effect.target] = made.at(0).value;
  }
  std::vector<Output> outputs;
  collect((*described_)["out_structure"], "", leaves, outputs);
  return outputs;
}

}  // namespace dy2st
