#include "gradients.h"

#include "../small.h"

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

}  // namespace

Handler gradient_handler(const std::string& name) {
  if (name == "set_gradient") return set_gradient;
  return name == "gradient_of" ? gradient_of : nullptr;
}

}  // namespace dy2st
