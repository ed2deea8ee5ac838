#include "gradients.h"

#include "../small.h"
#include "backward.h"

namespace dy2st {
namespace {

bool is_plain_gradient(const at::Tensor& tensor, const at::Tensor& gradient) {
  return !gradient.is_same(tensor) && is_plain(*tensor.unsafeGetTensorImpl()) && is_plain(*gradient.unsafeGetTensorImpl()) &&
         gradient.scalar_type() == tensor.scalar_type() && gradient.sizes() == tensor.sizes();
}

// What is not as it should be, Python says.
bool set_gradient(const Instruction& instruction, Frame& frame) {
  const auto& reads = instruction.reads;
  if (!frame[reads[0]].is(Kind::Tensor)) return false;
  const at::Tensor& tensor = frame[reads[0]].tensor();
  if (reads.size() == 1) {
    tensor.mutable_grad().reset();
  } else {
    if (!frame[reads[1]].is(Kind::Tensor) || !is_plain_gradient(tensor, frame[reads[1]].tensor())) return false;
    tensor.mutable_grad() = frame[reads[1]].tensor();
  }
  frame[instruction.outputs[0]] = Value::none();
  return true;
}

bool gradient_of(const Instruction& instruction, Frame& frame) {
  const Value& value = frame[instruction.reads[0]];
  const at::Tensor gradient = value.is(Kind::Tensor) ? value.tensor().grad() : at::Tensor();
  if (!gradient.defined()) return false;
  const auto& outputs = instruction.outputs;
  if (!instruction.spread) {
    frame[outputs[0]] = Value::tuple({Value::of(gradient), Value::of(int64_t(1))});
    return true;
  }
  if (outputs[0] >= 0) frame[outputs[0]] = Value::of(gradient);
  if (outputs[1] >= 0) frame[outputs[1]] = Value::of(int64_t(1));
  return true;
}

// Its numbers: how many leaves there are, how many tensors that get none, how many of these, of what is differentiated and of its gradient
// there are in all, and whether the graph is kept; then where each of them is among what is read, and the leaves that may have none.
bool backward(const Instruction& instruction, Frame& frame) {
  enum { kLeaves, kOthers, kGiven, kKeepsGraph, kFirst };
  const auto& numbers = instruction.numbers;
  const auto count = [&](size_t index) { return static_cast<size_t>(numbers[index]); };
  const size_t leaves = count(kLeaves), root = leaves + count(kOthers), given = count(kGiven);
  const auto value = [&](size_t index) -> const Value& { return frame[instruction.reads[count(kFirst + index)]]; };
  const auto tensor = [&](size_t index) -> const at::Tensor& { return value(index).tensor(); };
  if (!frame.records) return false;
  for (size_t index = 0; index < given; ++index) {
    if (!value(index).is(Kind::Tensor)) return false;
  }
  std::vector<at::Tensor> untouched;
  for (size_t index = leaves; index < root; ++index) {
    if (!tensor(index).grad().defined()) untouched.push_back(tensor(index));
  }
  const at::Tensor gradient = root + 1 < given ? tensor(root + 1) : at::Tensor();
  if (!run_backward(tensor(root), gradient, numbers[kKeepsGraph] != 0, frame.first_node, untouched)) return false;
  std::vector<Value> results;
  for (size_t index = 0; index < leaves; ++index) {
    const at::Tensor& made = tensor(index).grad();
    results.push_back(Value::of(made.defined() ? made : tensor(index).detach()));
  }
  for (size_t index = kFirst + given; index < numbers.size(); ++index) {
    results.push_back(Value::of(static_cast<int64_t>(tensor(count(index)).grad().defined())));
  }
  frame[instruction.outputs[0]] = Value::tuple(std::move(results));
  return true;
}

}  // namespace

Handler gradient_handler(const std::string& name) {
  if (name == "backward") return backward;
  if (name == "set_gradient") return set_gradient;
  return name == "gradient_of" ? gradient_of : nullptr;
}

}  // namespace dy2st
