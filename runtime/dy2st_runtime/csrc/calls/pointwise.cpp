// Arithmetic and comparisons of small tensors without the dispatcher.
//
// It is for where nothing records gradients or watches; see small.h. The memory of an operand that nobody reads again takes the
// result.
#pragma GCC optimize("O3")

#include <ATen/EmptyTensor.h>
#include <ATen/ops/abs_ops.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <unordered_map>

#include "arguments.h"
#include "../small.h"

namespace dy2st {
namespace {

struct Operand {
  at::Tensor* tensor = nullptr;  // or else a number
  double real = 0;
  int64_t whole = 0;
  bool is_whole = false;

  template <class T>
  T number() const {
    return is_whole ? static_cast<T>(whole) : static_cast<T>(real);
  }
};

bool read(const Argument& argument, Frame& frame, Operand& to) {
  const int32_t source = argument.source >= 0 ? argument.source : argument.number_source;
  if (source < 0) return false;
  Value& value = frame[source];
  switch (value.kind()) {
    case Kind::Tensor:
      to.tensor = &value.tensor();
      return is_small(*to.tensor);
    case Kind::Float:
      to.real = value.as_float();
      return true;
    case Kind::Int:
      to.is_whole = true;
      to.whole = value.as_int();
      return true;
    default:
      return false;
  }
}

// Whether nobody else can see the memory of a tensor that nobody reads again, and it is like that of a new one.
bool is_free(const Instruction& instruction, const at::Tensor& tensor, int32_t source) {
  if (tensor.use_count() != 1 || std::find(instruction.dead.begin(), instruction.dead.end(), source) == instruction.dead.end()) {
    return false;
  }
  const at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.autograd_meta() != nullptr || impl.storage_offset() != 0 || impl.version_counter().current_version() != 0) return false;
  static const auto standard = c10::GetCPUAllocator()->raw_deleter();
  const c10::Storage& storage = impl.unsafe_storage();
  return storage.use_count() == 1 && storage.data_ptr().get_deleter() == standard &&
         storage.nbytes() == static_cast<size_t>(impl.numel()) * impl.itemsize();
}

template <class Operation, class T>
constexpr bool compares = std::is_same_v<decltype(Operation::of(T(), T())), bool>;

// The elements of a side, or nullptr and its only value.
template <class T>
const T* side(const Operand& operand, const at::Tensor& shape, T& value) {
  if (operand.tensor == nullptr) return value = operand.number<T>(), nullptr;
  if (operand.tensor->dim() == 0 && shape.dim() != 0) return value = *data_of<T>(*operand.tensor), nullptr;
  return data_of<T>(*operand.tensor);
}

template <class Operation, class T>
bool compute(const Instruction& instruction, Frame& frame, const Operand& a, const Operand& b, const at::Tensor& shape) {
  using Result = std::conditional_t<compares<Operation, T>, bool, T>;
  T x{}, y{};
  const T *left = side<T>(a, shape, x), *right = side<T>(b, shape, y);
  Value& output = frame[instruction.outputs[0]];
  if constexpr (std::is_same_v<Result, T>) {
    for (size_t index : {0, 1}) {
      const Operand& operand = index == 0 ? a : b;
      const T* data = index == 0 ? left : right;
      if (data == nullptr || !is_free(instruction, *operand.tensor, instruction.arguments[index].source)) continue;
      loop<Operation>(left, right, x, y, const_cast<T*>(data), shape.numel());
      at::Tensor reused = std::move(*operand.tensor);
      output.set(std::move(reused));
      return true;
    }
  }
  at::Tensor made = new_tensor(shape.sizes(), c10::CppTypeToScalarType<Result>::value);
  loop<Operation>(left, right, x, y, static_cast<Result*>(made.mutable_data_ptr()), shape.numel());
  output.set(std::move(made));
  return true;
}

// The tensor that has the shape of the result, if both sides are of one type and one has the shape, or none.
const at::Tensor* shape_of(const Operand& a, const Operand& b) {
  if (a.tensor == nullptr || b.tensor == nullptr) return a.tensor != nullptr ? a.tensor : b.tensor;
  if (a.tensor->scalar_type() != b.tensor->scalar_type()) return nullptr;
  if (a.tensor->sizes() == b.tensor->sizes()) return a.tensor;
  if (b.tensor->dim() == 0) return a.tensor;
  return a.tensor->dim() == 0 ? b.tensor : nullptr;
}

template <class Operation>
bool directly(const Instruction& instruction, Frame& frame) {
  Operand a, b;
  if (!read(instruction.arguments[0], frame, a) || !read(instruction.arguments[1], frame, b)) return false;
  const at::Tensor* shape = shape_of(a, b);
  if (shape == nullptr) return false;
  switch (shape->scalar_type()) {
    case at::kFloat:
      return compute<Operation, float>(instruction, frame, a, b, *shape);
    case at::kDouble:
      return compute<Operation, double>(instruction, frame, a, b, *shape);
    case at::kLong: {
      const bool whole = (a.tensor != nullptr || a.is_whole) && (b.tensor != nullptr || b.is_whole);
      if constexpr (!std::is_same_v<Operation, Divide>) return whole && compute<Operation, int64_t>(instruction, frame, a, b, *shape);
      return false;
    }
    default:
      return false;
  }
}

template <class Operation>
bool pointwise(const Instruction& instruction, Frame& frame) {
  const bool allowed = compares<Operation, float> ? frame.unobserved : frame.unobserved && frame.skips_autograd;
  return (allowed && directly<Operation>(instruction, frame)) || instruction.general(instruction, frame);
}

// A function of one tensor writes into the memory of its operand, if nobody reads that again.
template <class InPlace>
bool in_place(const Instruction& instruction, Frame& frame) {
  const int32_t source = instruction.arguments[0].source;
  if (frame.unobserved && frame.skips_autograd && !frame.gradients && source >= 0 && frame[source].is(Kind::Tensor)) {
    at::Tensor& operand = frame[source].tensor();
    const at::TensorImpl& impl = *operand.unsafeGetTensorImpl();
    if (is_plain(impl) && at::isFloatingType(operand.scalar_type()) && operand.is_non_overlapping_and_dense() &&
        impl.numel() > 0 && is_free(instruction, operand, source)) {
      InPlace::call(operand);
      at::Tensor reused = std::move(operand);
      frame[instruction.outputs[0]].set(std::move(reused));
      return true;
    }
  }
  return instruction.general(instruction, frame);
}

}  // namespace

Handler pointwise_handler(const Program& program, const Instruction& instruction) {
  static const std::unordered_map<std::string, Handler> of_one = {
      {"aten::tanh", in_place<at::_ops::tanh_>},       {"aten::sigmoid", in_place<at::_ops::sigmoid_>},
      {"aten::relu", in_place<at::_ops::relu_>},       {"aten::exp", in_place<at::_ops::exp_>},
      {"aten::log", in_place<at::_ops::log_>},         {"aten::sqrt", in_place<at::_ops::sqrt_>},
      {"aten::rsqrt", in_place<at::_ops::rsqrt_>},     {"aten::neg", in_place<at::_ops::neg_>},
      {"aten::abs", in_place<at::_ops::abs_>},         {"aten::sin", in_place<at::_ops::sin_>},
      {"aten::cos", in_place<at::_ops::cos_>},         {"aten::silu", in_place<at::_ops::silu_>},
      {"aten::reciprocal", in_place<at::_ops::reciprocal_>},
  };
  if (const auto one = of_one.find(instruction.name); one != of_one.end()) return one->second;
  static const std::unordered_map<std::string, Handler> table = {
      {"aten::add.Tensor", pointwise<Add>},          {"aten::sub.Tensor", pointwise<Subtract>},
      {"aten::mul.Tensor", pointwise<Multiply>},     {"aten::div.Tensor", pointwise<Divide>},
      {"aten::eq.Tensor", pointwise<Equal>},         {"aten::eq.Scalar", pointwise<Equal>},
      {"aten::ne.Tensor", pointwise<Unequal>},       {"aten::ne.Scalar", pointwise<Unequal>},
      {"aten::lt.Tensor", pointwise<Less>},          {"aten::lt.Scalar", pointwise<Less>},
      {"aten::le.Tensor", pointwise<LessEqual>},     {"aten::le.Scalar", pointwise<LessEqual>},
      {"aten::gt.Tensor", pointwise<Greater>},       {"aten::gt.Scalar", pointwise<Greater>},
      {"aten::ge.Tensor", pointwise<GreaterEqual>},  {"aten::ge.Scalar", pointwise<GreaterEqual>},
  };
  const auto found = table.find(instruction.name);
  if (found == table.end()) return nullptr;
  if (instruction.arguments.size() == 3) {  // alpha
    const Argument& alpha = instruction.arguments[2];
    const bool given = alpha.source >= 0;
    if (given && static_cast<size_t>(alpha.source) >= program.constants.size()) return nullptr;
    const bool one = given ? program.constants[alpha.source].is(Kind::Int) && program.constants[alpha.source].as_int() == 1
                           : alpha.constant.isInt() && alpha.constant.toInt() == 1;
    if (!one) return nullptr;
  }
  return found->second;
}

}  // namespace dy2st
