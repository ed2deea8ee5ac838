#include "gradients.h"

#include "../small.h"
#include "backward.h"

#include <algorithm>

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

// Its inputs: leaves, tensors that get none, what is differentiated, its gradient. Its numbers: how many leaves there are, how many of the
// others, whether there is a gradient, whether the graph is kept; then the places of the leaves that may have none.
bool backward(const Instruction& instruction, Frame& frame) {
  const auto& numbers = instruction.arguments[0].ints;
  const auto leaves = static_cast<size_t>(numbers[0]), others = static_cast<size_t>(numbers[1]);
  const auto& inputs = instruction.inputs;
  if (!frame.records || !std::all_of(inputs.begin(), inputs.end(), [&](int32_t input) { return frame[input].is(Kind::Tensor); })) return false;
  const auto given = [&](size_t index) -> const at::Tensor& { return frame[inputs[index]].tensor(); };
  std::vector<at::Tensor> untouched;
  for (size_t index = 0; index < others; ++index) {
    if (!given(leaves + index).grad().defined()) untouched.push_back(given(leaves + index));
  }
  const at::Tensor gradient = numbers[2] != 0 ? given(leaves + others + 1) : at::Tensor();
  if (!run_backward(given(leaves + others), gradient, numbers[3] != 0, frame.first_node, untouched)) return false;
  std::vector<Value> results;
  for (size_t index = 0; index < leaves; ++index) {
    const at::Tensor& made = given(index).grad();
    results.push_back(Value::of(made.defined() ? made : given(index).detach()));
  }
  for (size_t index = 4; index < numbers.size(); ++index) {
    results.push_back(Value::of(static_cast<int64_t>(given(static_cast<size_t>(numbers[index])).grad().defined())));
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
