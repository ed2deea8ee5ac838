// What operators do to gradients, for tape.h: the formulas of PyTorch's derivatives, one operation after the other, so that each
// rounds as in eager.
#pragma GCC optimize("O3")

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sgn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <set>
#include <unordered_map>

#include "../small.h"
#include "tape.h"

namespace dy2st {
namespace {

using at::Tensor;

// -- arithmetic of gradients -----------------------------------------------------------------------------------------------------

template <class Operation, class T>
Tensor small_of(const Tensor& a, const Tensor* b, double number) {
  Tensor made = new_tensor(a.sizes(), a.scalar_type());
  const bool single = b != nullptr && b->dim() == 0 && a.dim() != 0;
  const T y = single ? *data_of<T>(*b) : static_cast<T>(number);
  loop<Operation>(data_of<T>(a), b == nullptr || single ? nullptr : data_of<T>(*b), T(), y, static_cast<T*>(made.mutable_data_ptr()), a.numel());
  return made;
}

// A tensor and another one of its size, or of one element; an undefined tensor where the dispatcher has to do it.
template <class Operation>
Tensor directly(const Tensor& a, const Tensor* b, double number = 0) {
  if (at::GradMode::is_enabled() || !is_small(a) || (b != nullptr && (!is_small(*b) || b->scalar_type() != a.scalar_type()))) return {};
  if (b != nullptr && b->dim() != 0 && a.sizes() != b->sizes()) return {};
  if (a.scalar_type() == at::kFloat) return small_of<Operation, float>(a, b, number);
  return a.scalar_type() == at::kDouble ? small_of<Operation, double>(a, b, number) : Tensor();
}

Tensor times(const Tensor& a, const Tensor& b) {
  Tensor made = directly<Multiply>(a, &b);
  return made.defined() ? made : at::mul(a, b);
}

Tensor times(const Tensor& a, double number) {
  Tensor made = directly<Multiply>(a, nullptr, number);
  return made.defined() ? made : at::mul(a, at::Scalar(number));
}

Tensor over(const Tensor& a, const Tensor& b) {
  Tensor made = directly<Divide>(a, &b);
  return made.defined() ? made : at::div(a, b);
}

Tensor over(const Tensor& a, double number) {
  Tensor made = directly<Divide>(a, nullptr, number);
  return made.defined() ? made : at::div(a, at::Scalar(number));
}

struct Negate { template <class T> static T of(T a, T) { return -a; } };

Tensor minus(const Tensor& a) {
  Tensor made = directly<Negate>(a, nullptr);
  return made.defined() ? made : at::neg(a);
}

// One value in all places.
Tensor spread(const Tensor& value, at::IntArrayRef sizes) {
  if (at::GradMode::is_enabled() || !is_small(value)) return value.expand(sizes);
  const auto fill = [&](auto zero) {
    using T = decltype(zero);
    Tensor made = new_tensor(sizes, value.scalar_type());
    std::fill_n(static_cast<T*>(made.mutable_data_ptr()), made.numel(), *data_of<T>(value));
    return made;
  };
  return value.scalar_type() == at::kFloat ? fill(float()) : fill(double());
}

// -- what gradients need -----------------------------------------------------------------------------------------------------------

uint8_t nothing(const bool*) { return 0; }
uint8_t operand(const bool*) { return 1; }
uint8_t result(const bool*) { return kKeepsResult; }
uint8_t partner(const bool* wanted) { return static_cast<uint8_t>((wanted[0] ? 2 : 0) | (wanted[1] ? 1 : 0)); }
uint8_t both(const bool*) { return 3; }
uint8_t divisor(const bool* wanted) { return wanted[1] ? 3 : 2; }
uint8_t factors(const bool* wanted) { return static_cast<uint8_t>((wanted[1] ? 4 : 0) | (wanted[2] ? 2 : 0)); }

// -- gradients ----------------------------------------------------------------------------------------------------------------------

void add_backward(Step& step) {
  if (step.wanted[0]) step.gradients[0] = step.gradient;
  if (step.wanted[1]) step.gradients[1] = step.gradient;
}

void sub_backward(Step& step) {
  if (step.wanted[0]) step.gradients[0] = step.gradient;
  if (step.wanted[1]) step.gradients[1] = minus(step.gradient);
}

void rsub_backward(Step& step) {
  if (step.wanted[0]) step.gradients[0] = minus(step.gradient);
  if (step.wanted[1]) step.gradients[1] = step.gradient;
}

void mul_backward(Step& step) {
  for (size_t index : {1, 0}) {
    if (!step.wanted[index]) continue;
    const size_t other = 1 - index;
    step.gradients[index] =
        step.is_number(other) ? times(step.gradient, step.number(other)) : times(step.gradient, step.operand(other));
  }
}

void div_backward(Step& step) {
  if (step.is_number(1)) {
    step.gradients[0] = over(step.gradient, step.number(1));
    return;
  }
  const Tensor& other = step.operand(1);
  if (step.wanted[1]) {
    const Tensor quotient = over(over(step.operand(0), other), other);
    step.gradients[1] = times(minus(step.gradient), quotient);
  }
  if (step.wanted[0]) step.gradients[0] = over(step.gradient, other);
}

void neg_backward(Step& step) { step.gradients[0] = minus(step.gradient); }
void reciprocal_backward(Step& step) {
  const Tensor square = times(step.result(), step.result());
  step.gradients[0] = times(minus(step.gradient), square);
}
void exp_backward(Step& step) { step.gradients[0] = times(step.gradient, step.result()); }
void log_backward(Step& step) { step.gradients[0] = over(step.gradient, step.operand(0)); }
void sin_backward(Step& step) { step.gradients[0] = times(step.gradient, at::cos(step.operand(0))); }
void cos_backward(Step& step) { step.gradients[0] = times(step.gradient, minus(at::sin(step.operand(0)))); }
void abs_backward(Step& step) { step.gradients[0] = times(step.gradient, at::sgn(step.operand(0))); }
void sqrt_backward(Step& step) { step.gradients[0] = over(step.gradient, times(step.result(), 2)); }
void rsqrt_backward(Step& step) {
  const Tensor cube = at::pow(step.result(), 3);
  step.gradients[0] = times(times(step.gradient, -0.5), cube);
}
void tanh_backward(Step& step) { step.gradients[0] = at::tanh_backward(step.gradient, step.result()); }
void sigmoid_backward(Step& step) { step.gradients[0] = at::sigmoid_backward(step.gradient, step.result()); }
void relu_backward(Step& step) { step.gradients[0] = at::threshold_backward(step.gradient, step.result(), 0); }
void silu_backward(Step& step) {
  const Tensor& x = step.operand(0);
  if (!at::GradMode::is_enabled()) {
    step.gradients[0] = at::silu_backward(step.gradient, x);
    return;
  }
  const Tensor share = at::sigmoid(x);
  const Tensor slope = at::add(at::mul(x, at::ones_like(share).sub_(share)), 1);
  step.gradients[0] = at::mul(at::mul(step.gradient, share), slope);
}

Tensor power_gradient(const Tensor& gradient, const Tensor& base, double exponent) {
  if (exponent == 0) return at::zeros_like(base, at::MemoryFormat::Contiguous);
  if (exponent == 2) return times(gradient, times(base, 2));
  return times(gradient, times(at::pow(base, at::Scalar(exponent - 1)), exponent));
}

void pow_backward(Step& step) { step.gradients[0] = power_gradient(step.gradient, step.operand(0), step.number(1)); }
void square_backward(Step& step) { step.gradients[0] = power_gradient(step.gradient, step.operand(0), 2); }

void clamp_backward(Step& step) {
  const Tensor& x = step.operand(0);
  Tensor inside;
  if (!step.is_absent(1)) inside = at::ge(x, step.number(1));
  if (!step.is_absent(2)) {
    const Tensor below = at::le(x, step.number(2));
    inside = inside.defined() ? inside.logical_and_(below) : below;
  }
  step.gradients[0] = at::where(inside, step.gradient, at::scalar_tensor(0., step.gradient.options()));
}

template <bool is_maximum>
void extremum_backward(Step& step) {
  const Tensor &a = step.operand(0), &b = step.operand(1);
  for (size_t index : {1, 0}) {
    if (!step.wanted[index]) continue;
    const bool less = (index == 0) == is_maximum;
    const Tensor halved = at::where(at::eq(a, b), at::div(step.gradient, 2), step.gradient);
    step.gradients[index] = halved.masked_fill(less ? at::lt(a, b) : at::gt(a, b), 0);
  }
}

void sum_backward(Step& step) { step.gradients[0] = spread(step.gradient, step.sizes(0)); }
void mean_backward(Step& step) {
  const auto count = static_cast<double>(c10::multiply_integers(step.sizes(0)));
  if (at::GradMode::is_enabled() || !is_small(step.gradient)) {
    step.gradients[0] = at::div(step.gradient.expand(step.sizes(0)), at::Scalar(count));
  } else {
    step.gradients[0] = spread(over(step.gradient, count), step.sizes(0));
  }
}

void mm_backward(Step& step) {
  if (step.wanted[1]) step.gradients[1] = at::mm(step.operand(0).t(), step.gradient);
  if (step.wanted[0]) step.gradients[0] = at::mm(step.gradient, step.operand(1).t());
}

void addmm_backward(Step& step) {
  if (step.wanted[0]) step.gradients[0] = step.gradient;
  if (step.wanted[1]) step.gradients[1] = at::mm(step.gradient, step.operand(2).t());
  if (step.wanted[2]) step.gradients[2] = at::mm(step.operand(1).t(), step.gradient);
}

void linear_backward(Step& step) {
  const bool with_bias = !step.is_absent(2);
  if (with_bias && step.wanted[0]) step.gradients[0] = at::mm(step.gradient, step.operand(1));
  if (step.wanted[1]) step.gradients[1] = at::mm(step.gradient.t(), step.operand(0));
  if (!with_bias && step.wanted[0]) step.gradients[0] = at::mm(step.gradient, step.operand(1));
  if (step.wanted[2]) step.gradients[2] = step.gradient;
}

// -- where the rules are for -------------------------------------------------------------------------------------------------------

using Tensors = const Tensor* const*;

bool fits_any(Tensors) { return true; }
bool fits_one(Tensors x) { return x[1] == nullptr; }
bool fits_two(Tensors x) { return x[1] != nullptr; }
// A gradient comes in another layout where a matrix lies in columns; one of one element counts as such.
bool is_in_rows(const Tensor* x) {
  return x != nullptr && x->dim() == 2 && !(x->stride(0) == 1 && x->stride(1) == x->size(0));
}
bool fits_matrices(Tensors x) { return is_in_rows(x[0]) && is_in_rows(x[1]); }
bool fits_linear(Tensors x) { return fits_matrices(x) && x[1]->is_contiguous() && (x[2] == nullptr || x[2]->dim() == 1); }
bool fits_addmm(Tensors x) { return is_in_rows(x[1]) && is_in_rows(x[2]); }

bool is_number(const Program& program, const Argument& argument, int64_t wanted) {
  if (argument.source >= 0) {
    if (static_cast<size_t>(argument.source) >= program.constants.size()) return false;
    const Value& value = program.constants[argument.source];
    return value.is(Kind::Int) && value.as_int() == wanted;
  }
  return argument.constant.isInt() && argument.constant.toInt() == wanted;
}

}  // namespace

const Rule* rule_of(const Program& program, const Instruction& instruction) {
  static const std::unordered_map<std::string, Rule> rules = {
      {"aten::add.Tensor", {"AddBackward0", 2, fits_any, nothing, add_backward}},
      {"aten::sub.Tensor", {"SubBackward0", 2, fits_any, nothing, sub_backward}},
      {"aten::mul.Tensor", {"MulBackward0", 2, fits_any, partner, mul_backward}},
      {"aten::div.Tensor", {"DivBackward0", 2, fits_any, divisor, div_backward}},
      {"aten::neg", {"NegBackward0", 1, fits_one, nothing, neg_backward}},
      {"aten::rsub.Tensor", {"RsubBackward1", 2, fits_two, nothing, rsub_backward}},
      {"aten::rsub.Scalar", {"RsubBackward0", 2, fits_one, nothing, rsub_backward}},
      {"aten::reciprocal", {"ReciprocalBackward0", 1, fits_one, result, reciprocal_backward}},
      {"aten::exp", {"ExpBackward0", 1, fits_one, result, exp_backward}},
      {"aten::log", {"LogBackward0", 1, fits_one, operand, log_backward}},
      {"aten::sin", {"SinBackward0", 1, fits_one, operand, sin_backward}},
      {"aten::cos", {"CosBackward0", 1, fits_one, operand, cos_backward}},
      {"aten::abs", {"AbsBackward0", 1, fits_one, operand, abs_backward}},
      {"aten::sqrt", {"SqrtBackward0", 1, fits_one, result, sqrt_backward}},
      {"aten::rsqrt", {"RsqrtBackward0", 1, fits_one, result, rsqrt_backward}},
      {"aten::tanh", {"TanhBackward0", 1, fits_one, result, tanh_backward}},
      {"aten::sigmoid", {"SigmoidBackward0", 1, fits_one, result, sigmoid_backward}},
      {"aten::relu", {"ReluBackward0", 1, fits_one, result, relu_backward}},
      {"aten::silu", {"SiluBackward0", 1, fits_one, operand, silu_backward}},
      {"aten::square", {"PowBackward0", 1, fits_one, operand, square_backward}},
      {"aten::pow.Tensor_Scalar", {"PowBackward0", 2, fits_one, operand, pow_backward}},
      {"aten::clamp", {"ClampBackward1", 3, fits_one, operand, clamp_backward}},
      {"aten::minimum", {"MinimumBackward0", 2, fits_two, both, extremum_backward<false>}},
      {"aten::maximum", {"MaximumBackward0", 2, fits_two, both, extremum_backward<true>}},
      {"aten::sum", {"SumBackward0", 1, fits_one, nothing, sum_backward}},
      {"aten::mean", {"MeanBackward0", 1, fits_one, nothing, mean_backward}},
      {"aten::mm", {"MmBackward0", 2, fits_matrices, partner, mm_backward}},
      {"aten::matmul", {"MmBackward0", 2, fits_matrices, partner, mm_backward}},
      {"aten::addmm", {"AddmmBackward0", 3, fits_addmm, factors, addmm_backward}},
      {"aten::linear", {"AddmmBackward0", 3, fits_linear, partner, linear_backward}},
  };
  const auto found = rules.find(instruction.name);
  if (found == rules.end() || instruction.outputs.size() != 1 || instruction.outputs[0] < 0) return nullptr;
  // What is left of the arguments: a factor of one (alpha, beta), or no dtype.
  for (size_t index = found->second.operands; index < instruction.arguments.size(); ++index) {
    const Argument& argument = instruction.arguments[index];
    const bool is_default = argument.source < 0 && argument.constant.isNone();
    if (argument.is_list || (!is_default && !is_number(program, argument, 1))) return nullptr;
  }
  return &found->second;
}

bool only_reads(const std::string& name) {
  static const std::set<std::string> names = {
      "aten::eq.Tensor", "aten::eq.Scalar", "aten::ne.Tensor", "aten::ne.Scalar", "aten::lt.Tensor",  "aten::lt.Scalar",
      "aten::le.Tensor", "aten::le.Scalar", "aten::gt.Tensor", "aten::gt.Scalar", "aten::ge.Tensor",  "aten::ge.Scalar",
      "aten::item",      "aten::is_nonzero", "aten::isnan",    "aten::isfinite",  "aten::sym_size.int", "aten::_local_scalar_dense"};
  return names.count(name) != 0;
}

}  // namespace dy2st
