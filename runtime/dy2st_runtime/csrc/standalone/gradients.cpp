#include "gradients.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>

namespace dy2st {
namespace {

using Tensors = std::vector<at::Tensor>;

// Of a tensor, or a list or tuple of them; undefined for None.
Tensors tensors_of(const Value& value) {
  if (value.is(Kind::Tensor)) return {value.tensor()};
  Tensors tensors;
  if (value.is(Kind::None)) return tensors;
  if (!is_native_sequence(value)) throw Error("tensors are needed for a backward pass");
  for (const Value& item : value.items().values) {
    if (!item.is(Kind::Tensor) && !item.is(Kind::None)) throw Error("tensors are needed for a backward pass");
    tensors.push_back(item.is(Kind::Tensor) ? item.tensor() : at::Tensor());
  }
  return tensors;
}

std::vector<size_t> positions_of(const Value& value, size_t count) {
  std::vector<size_t> positions;
  if (!is_native_sequence(value)) throw Error("positions are needed for a backward pass");
  for (const Value& item : value.items().values) {
    if (!item.is(Kind::Int) || item.as_int() < 0 || static_cast<size_t>(item.as_int()) >= count) throw Error("a position is needed");
    positions.push_back(static_cast<size_t>(item.as_int()));
  }
  return positions;
}

bool flag(const Value& value, bool missing) { return value.is(Kind::None) ? missing : truth(value); }

std::optional<bool> optional_flag(const Value& value) { return value.is(Kind::None) ? std::nullopt : std::optional(truth(value)); }

const at::Tensor& tensor_of(const Value& value) {
  if (!value.is(Kind::Tensor)) throw Error("a tensor is needed");
  return value.tensor();
}

// The gradients, then for each unsure one whether it is there.
Value with_flags(const Tensors& gradients, const std::vector<size_t>& unsure, const std::vector<bool>& there) {
  std::vector<Value> parts;
  for (const at::Tensor& gradient : gradients) parts.push_back(Value::of(gradient));
  for (size_t position : unsure) parts.push_back(Value::of(static_cast<int64_t>(there[position])));
  return Value::tuple(std::move(parts));
}

// Positions of leaves that may have none, leaves, tensors that get none, what they have before, tensors, their gradients; options.
Value backward(const std::vector<Value>& given) {
  const Tensors leaves = tensors_of(given[1]), others = tensors_of(given[2]);
  const auto unsure = positions_of(given[0], leaves.size());
  Tensors without;
  for (const at::Tensor& other : others) {
    if (!other.grad().defined()) without.push_back(other);
  }
  const Tensors inputs = tensors_of(given[8]);
  if (inputs.empty() && !given[8].is(Kind::None)) throw Error("'inputs' argument to backward() cannot be empty.");
  torch::autograd::backward(tensors_of(given[4]), tensors_of(given[5]), optional_flag(given[6]), flag(given[7], false), inputs);
  if (std::any_of(without.begin(), without.end(), [](const at::Tensor& other) { return other.grad().defined(); })) {
    throw Error("a backward pass of a program reaches a tensor that it did not reach when the program was captured");
  }
  Tensors results;
  std::vector<bool> there;
  for (size_t position = 0; position < leaves.size(); ++position) {
    const at::Tensor gradient = leaves[position].grad();
    there.push_back(gradient.defined());
    if (!gradient.defined() && std::find(unsure.begin(), unsure.end(), position) == unsure.end()) {
      throw Error("a backward pass of a program gives no gradient to a tensor that had one when the program was captured");
    }
    results.push_back(gradient.defined() ? gradient : leaves[position].detach());
  }
  return with_flags(results, unsure, there);
}

// Positions of inputs that may have none, inputs, outputs; options.
Value gradients(const std::vector<Value>& given) {
  enum { kUnsure, kInputs, kOutputs, kGradOutputs, kRetain, kCreate, kOnly, kUnused, kBatched, kMaterialize };
  const Tensors inputs = tensors_of(given[kInputs]);
  const auto unsure = positions_of(given[kUnsure], inputs.size());
  const bool creates = flag(given[kCreate], false), materializes = flag(given[kMaterialize], false);
  if (flag(given[kBatched], false)) throw Error("torch.autograd.grad with is_grads_batched needs Python");
  Tensors results = torch::autograd::grad(tensors_of(given[kOutputs]), inputs, tensors_of(given[kGradOutputs]), optional_flag(given[kRetain]),
                                          creates, flag(given[kUnused], materializes));
  std::vector<bool> there;
  for (size_t position = 0; position < results.size(); ++position) {
    at::Tensor& result = results[position];
    if (!result.defined() && materializes) result = at::zeros_like(inputs[position]).set_requires_grad(creates);
    there.push_back(result.defined());
    if (!result.defined() && std::find(unsure.begin(), unsure.end(), position) != unsure.end()) result = at::zeros_like(inputs[position]);
  }
  return with_flags(results, unsure, there);
}

Value gradient_of(const std::vector<Value>& given) {
  const at::Tensor& tensor = tensor_of(given[0]);
  const at::Tensor gradient = tensor.grad();
  const bool there = gradient.defined();
  return Value::tuple({Value::of(there ? gradient : tensor.detach()), Value::of(static_cast<int64_t>(there))});
}

Value set_gradient(const std::vector<Value>& given) {
  const at::Tensor& tensor = tensor_of(given[0]);
  at::Tensor gradient;
  if (!given[1].is(Kind::None)) {
    gradient = tensor_of(given[1]);
    TORCH_CHECK(!gradient.is_same(tensor), "can't assign Variable as its own grad");
    TORCH_CHECK(gradient.scalar_type() == tensor.scalar_type(), "assigned grad has data of a different type");
    TORCH_CHECK(gradient.sizes() == tensor.sizes(), "assigned grad has data of a different size");
  }
  tensor.mutable_grad() = gradient;
  return Value::none();
}

Value set_data(const std::vector<Value>& given) {
  tensor_of(given[0]).set_data(tensor_of(given[1]));
  return Value::none();
}

// Device, dtype, enabled, cached; gives what was before.
Value enter_autocast(const std::vector<Value>& given) {
  using namespace at::autocast;
  auto before = Value::tuple({Value::of(is_autocast_enabled(at::kCPU)), Value::of(static_cast<int64_t>(get_autocast_dtype(at::kCPU))),
                              Value::of(is_autocast_cache_enabled())});
  set_autocast_enabled(at::kCPU, truth(given[2]));
  if (given[1].is(Kind::Int)) set_autocast_dtype(at::kCPU, static_cast<at::ScalarType>(given[1].as_int()));
  increment_nesting();
  set_autocast_cache_enabled(flag(given[3], true));
  return before;
}

Value exit_autocast(const std::vector<Value>& given) {
  using namespace at::autocast;
  const bool is_mode = given[0].is(Kind::Tuple) && given[0].items().values.size() == 3;
  if (!is_mode) throw Error("a mode of autocast is needed");
  const auto& before = given[0].items().values;
  if (decrement_nesting() == 0) clear_cache();
  set_autocast_enabled(at::kCPU, before.at(0).as_bool());
  set_autocast_dtype(at::kCPU, static_cast<at::ScalarType>(before.at(1).as_int()));
  set_autocast_cache_enabled(before.at(2).as_bool());
  return Value::none();
}

int autocast_depth() {
  const int depth = at::autocast::increment_nesting() - 1;
  at::autocast::decrement_nesting();
  return depth;
}

}  // namespace

const Other* other_of(const std::string& target) {
  static const std::map<std::string, Other> table = {
      {"backward", {backward, 6, {"retain_graph", "create_graph", "inputs"}}},
      {"gradients",
       {gradients, 3, {"grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused", "is_grads_batched", "materialize_grads"}}},
      {"gradient_of", {gradient_of, 1, {}}},
      {"set_gradient", {set_gradient, 2, {}}},
      {"set_data_", {set_data, 2, {}}},
      {"enter_autocast", {enter_autocast, 4, {}}},
      {"exit_autocast", {exit_autocast, 1, {}}},
  };
  const auto one = table.find(target);
  return one == table.end() ? nullptr : &one->second;
}

AutocastGuard::AutocastGuard()
    : enabled_(at::autocast::is_autocast_enabled(at::kCPU)),
      cached_(at::autocast::is_autocast_cache_enabled()),
      dtype_(at::autocast::get_autocast_dtype(at::kCPU)),
      depth_(autocast_depth()) {}

AutocastGuard::~AutocastGuard() {
  for (int depth = autocast_depth(); depth > depth_; --depth) {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  }
  at::autocast::set_autocast_enabled(at::kCPU, enabled_);
  at::autocast::set_autocast_dtype(at::kCPU, dtype_);
  at::autocast::set_autocast_cache_enabled(cached_);
}

}  // namespace dy2st
