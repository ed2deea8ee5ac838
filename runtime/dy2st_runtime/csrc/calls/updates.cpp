// What optimizers do to tensors in place, without the dispatcher: x += a y, x += w (y - x), x += v y z, x += v y / z.
//
// PyTorch's kernels multiply and add in one rounding or in two, as its build and the processor have it. So each form is compared
// with the operator itself before its first use, on numbers that tell the two apart, and is left out where it does not give its bits.
#pragma GCC optimize("O3")

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/lerp_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/sub_ops.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <cstring>
#include <unordered_map>

#include "../small.h"
#include "arguments.h"
#include "updates.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define DY2ST_WIDE __attribute__((target("avx2,fma")))
#else
#define DY2ST_WIDE
#endif

namespace dy2st {
namespace {

// In one thread up to here: PyTorch's kernels, too.
constexpr int64_t kMostElements = 32768;

bool has_wide() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

// -- forms -------------------------------------------------------------------------------------------------------------------------

#define DY2ST_FORM template <class T, bool fused> [[gnu::always_inline]] static T of(T x, T y, [[maybe_unused]] T z, [[maybe_unused]] T number)

template <bool fused, class T>
[[gnu::always_inline]] inline T multiply_add(T a, T b, T c) {
  if constexpr (!fused) return a * b + c;
  if constexpr (std::is_same_v<T, float>) return __builtin_fmaf(a, b, c);
  return __builtin_fma(a, b, c);
}

struct Multiplied {
  static constexpr size_t kOperands = 1;
  static constexpr bool kTakesNumber = false;
  DY2ST_FORM { return x * y; }
  static void reference(at::Tensor& x, const at::Tensor& y, const at::Tensor&, double) { at::_ops::mul__Tensor::call(x, y); }
};

struct Divided {
  static constexpr size_t kOperands = 1;
  static constexpr bool kTakesNumber = false;
  DY2ST_FORM { return x / y; }
  static void reference(at::Tensor& x, const at::Tensor& y, const at::Tensor&, double) { at::_ops::div__Tensor::call(x, y); }
};

struct Added {
  static constexpr size_t kOperands = 1;
  static constexpr bool kTakesNumber = false;
  DY2ST_FORM { return x + y; }
  static void reference(at::Tensor& x, const at::Tensor& y, const at::Tensor&, double) { at::_ops::add__Tensor::call(x, y, 1); }
};

struct Subtracted {
  static constexpr size_t kOperands = 1;
  static constexpr bool kTakesNumber = false;
  DY2ST_FORM { return x - y; }
  static void reference(at::Tensor& x, const at::Tensor& y, const at::Tensor&, double) { at::_ops::sub__Tensor::call(x, y, 1); }
};

struct AddedScaled {
  static constexpr size_t kOperands = 1;
  static constexpr bool kTakesNumber = true;
  DY2ST_FORM { return multiply_add<fused>(number, y, x); }
  static void reference(at::Tensor& x, const at::Tensor& y, const at::Tensor&, double number) { at::_ops::add__Tensor::call(x, y, number); }
};

struct SubtractedScaled {
  static constexpr size_t kOperands = 1;
  static constexpr bool kTakesNumber = true;
  DY2ST_FORM { return multiply_add<fused>(-number, y, x); }
  static void reference(at::Tensor& x, const at::Tensor& y, const at::Tensor&, double number) { at::_ops::sub__Tensor::call(x, y, number); }
};

struct Interpolated {
  static constexpr size_t kOperands = 1;
  static constexpr bool kTakesNumber = true;
  DY2ST_FORM {
    const bool near = std::abs(number) < T(0.5);
    return multiply_add<fused>(near ? number : number - 1, y - x, near ? x : y);
  }
  static void reference(at::Tensor& x, const at::Tensor& y, const at::Tensor&, double number) { at::_ops::lerp__Scalar::call(x, y, number); }
};

struct AddedProduct {
  static constexpr size_t kOperands = 2;
  static constexpr bool kTakesNumber = true;
  DY2ST_FORM { return multiply_add<fused>(number * y, z, x); }
  static void reference(at::Tensor& x, const at::Tensor& y, const at::Tensor& z, double number) { at::_ops::addcmul_::call(x, y, z, number); }
};

struct AddedQuotient {
  static constexpr size_t kOperands = 2;
  static constexpr bool kTakesNumber = true;
  DY2ST_FORM { return x + number * y / z; }
  static void reference(at::Tensor& x, const at::Tensor& y, const at::Tensor& z, double number) { at::_ops::addcdiv_::call(x, y, z, number); }
};

// -- loops -------------------------------------------------------------------------------------------------------------------------

// An operand of all elements, or one value.
template <class T>
struct Side {
  const T* data = nullptr;
  T value = 0;
};

template <class T>
using Loop = void (*)(T* x, const Side<T>& y, const Side<T>& z, T number, int64_t count);

template <class Form, class T, bool fused>
[[gnu::always_inline]] inline void run(T* x, const Side<T>& y, const Side<T>& z, T number, int64_t count) {
  if constexpr (Form::kOperands == 2) {
    for (int64_t index = 0; index < count; ++index) x[index] = Form::template of<T, fused>(x[index], y.data[index], z.data[index], number);
  } else if (y.data != nullptr) {
    for (int64_t index = 0; index < count; ++index) x[index] = Form::template of<T, fused>(x[index], y.data[index], T(), number);
  } else {
    for (int64_t index = 0; index < count; ++index) x[index] = Form::template of<T, fused>(x[index], y.value, T(), number);
  }
}

template <class Form, class T>
DY2ST_WIDE void run_wide(T* x, const Side<T>& y, const Side<T>& z, T number, int64_t count) {
  run<Form, T, true>(x, y, z, number, count);
}

template <class Form, class T>
void run_plainly(T* x, const Side<T>& y, const Side<T>& z, T number, int64_t count) {
  run<Form, T, false>(x, y, z, number, count);
}

// Numbers with all bits of their mantissas in use, of both signs.
template <class T>
at::Tensor numbers(int64_t count, uint64_t seed) {
  at::Tensor made = new_tensor({count}, c10::CppTypeToScalarType<T>::value);
  T* data = static_cast<T*>(made.mutable_data_ptr());
  for (int64_t index = 0; index < count; ++index) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    data[index] = static_cast<T>(static_cast<int64_t>(seed >> 11)) / static_cast<T>(int64_t(1) << 51) - T(2.1);
  }
  return made;
}

template <class Form, class T>
bool gives_the_bits(Loop<T> loop) {
  uint64_t seed = 7;
  const auto same = [&](int64_t count, bool is_one_value, double number) {
    at::Tensor x = numbers<T>(count, ++seed), expected = x.clone();
    const at::Tensor y = numbers<T>(count, ++seed), z = numbers<T>(count, ++seed);
    const Side<T> side = is_one_value ? Side<T>{nullptr, static_cast<T>(number)} : Side<T>{data_of<T>(y)};
    Form::reference(expected, is_one_value ? number_tensor(number) : y, z, number);
    loop(static_cast<T*>(x.mutable_data_ptr()), side, {data_of<T>(z)}, static_cast<T>(number), count);
    return std::memcmp(data_of<T>(x), data_of<T>(expected), static_cast<size_t>(count) * sizeof(T)) == 0;
  };
  for (const int64_t count : {1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33, 64, 71, 1000}) {
    for (const double number : {0.001, 0.1, -0.3, 0.7, 0.999, 1.0, -1.7}) {
      if (!same(count, false, number) || (!Form::kTakesNumber && !same(count, true, number))) return false;
    }
  }
  return true;
}

// The loop that gives the operator's bits here; nullptr where none does.
template <class Form, class T>
Loop<T> found() {
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below;
  if (has_wide() && gives_the_bits<Form, T>(run_wide<Form, T>)) return run_wide<Form, T>;
  return gives_the_bits<Form, T>(run_plainly<Form, T>) ? run_plainly<Form, T> : nullptr;
}

// -- instructions --------------------------------------------------------------------------------------------------------------------

// A plain dense tensor, without gaps, that knows nothing of another tensor with its memory.
bool is_dense(const at::Tensor& tensor) {
  const at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return is_plain(impl) && impl.numel() > 0 && impl.numel() <= kMostElements && impl.is_contiguous();
}

bool is_view(const at::Tensor& tensor) {
  const auto* meta = static_cast<torch::autograd::AutogradMeta*>(tensor.unsafeGetTensorImpl()->autograd_meta());
  return meta != nullptr && meta->is_view_;
}

// Another tensor of the same elements in order, or with no memory in common.
bool fits(const at::Tensor& changed, const at::Tensor& other) {
  if (!is_dense(other) || other.scalar_type() != changed.scalar_type() || other.sizes() != changed.sizes()) return false;
  const auto same = [](const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); };
  return same(changed) != same(other) || changed.const_data_ptr() == other.const_data_ptr();
}

template <class T>
bool load_number(const Value& value, T& to) {
  double number = 0;
  if (value.is(Kind::Bool) || !load_float(value, number)) return false;
  to = static_cast<T>(number);
  return std::isfinite(to) || !std::isfinite(number);  // one too large is an error of some operators
}

template <class T>
bool load_number(const Argument& argument, Frame& frame, T& to) {
  const int32_t source = argument.source >= 0 ? argument.source : argument.number_source;
  if (source >= 0) return load_number(frame[source], to);
  if (!argument.constant.isDouble() && !argument.constant.isInt()) return false;
  to = static_cast<T>(argument.constant.toScalar().toDouble());
  return std::isfinite(to);
}

template <class T>
bool load_side(const Argument& argument, Frame& frame, const at::Tensor& changed, Side<T>& to) {
  const int32_t source = argument.source >= 0 ? argument.source : argument.number_source;
  if (source < 0 || !frame[source].is(Kind::Tensor)) return load_number(argument, frame, to.value);
  const at::Tensor& tensor = frame[source].tensor();
  if (!fits(changed, tensor)) return false;
  to.data = data_of<T>(tensor);
  return true;
}

template <class Form, class T>
bool changed(const Instruction& instruction, Frame& frame, const at::Tensor& tensor) {
  static const Loop<T> loop = found<Form, T>();
  if (loop == nullptr) return false;
  Side<T> y, z;
  T number = 0;
  const auto& arguments = instruction.arguments;
  if (!load_side(arguments[1], frame, tensor, y)) return false;
  if (Form::kOperands == 2 && !load_side(arguments[2], frame, tensor, z)) return false;
  if (Form::kTakesNumber) {
    const bool has_tensors = y.data != nullptr && (Form::kOperands == 1 || z.data != nullptr);
    if (!has_tensors || !load_number(arguments[Form::kOperands + 1], frame, number)) return false;
  }
  T* data = static_cast<T*>(tensor.mutable_data_ptr());
  loop(data, y, z, number, tensor.numel());
  tensor.unsafeGetTensorImpl()->bump_version();
  if (!instruction.outputs.empty()) frame[instruction.outputs[0]].set(at::Tensor(tensor));
  return true;
}

template <class Form>
bool update(const Instruction& instruction, Frame& frame) {
  const int32_t source = instruction.arguments[0].source;
  const bool is_recorded = at::GradMode::is_enabled() && (frame.gradients || !frame.skips_autograd);
  if (frame.unobserved && !is_recorded && source >= 0 && frame[source].is(Kind::Tensor)) {
    const at::Tensor tensor = frame[source].tensor();
    if (is_dense(tensor) && !is_view(tensor)) {
      if (tensor.scalar_type() == at::kFloat && changed<Form, float>(instruction, frame, tensor)) return true;
      if (tensor.scalar_type() == at::kDouble && changed<Form, double>(instruction, frame, tensor)) return true;
    }
  }
  return instruction.general(instruction, frame);
}

// What is added is taken as it is, or times a number.
template <class Plain, class Scaled>
bool added(const Instruction& instruction, Frame& frame) {
  double alpha = 0;
  const bool is_one = load_number(instruction.arguments[2], frame, alpha) && alpha == 1;
  return is_one ? update<Plain>(instruction, frame) : update<Scaled>(instruction, frame);
}

}  // namespace

Handler update_handler(const Instruction& instruction) {
  static const std::unordered_map<std::string, Handler> table = {
      {"aten::mul_.Tensor", update<Multiplied>},
      {"aten::div_.Tensor", update<Divided>},
      {"aten::add_.Tensor", added<Added, AddedScaled>},
      {"aten::sub_.Tensor", added<Subtracted, SubtractedScaled>},
      {"aten::lerp_.Scalar", update<Interpolated>},
      {"aten::addcmul_", update<AddedProduct>},
      {"aten::addcdiv_", update<AddedQuotient>},
  };
  const auto found = table.find(instruction.name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace dy2st
