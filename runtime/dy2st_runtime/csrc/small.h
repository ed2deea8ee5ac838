// Small dense tensors on the CPU, whose arithmetic is a short loop: what the dispatcher and TensorIterator do around it takes ten
// times as long. Only what IEEE 754 rounds once is here, so the bits are those of PyTorch's kernels.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <type_traits>

namespace dy2st {

constexpr int64_t kSmall = 4096;

// A plain dense tensor on the CPU, the class of torch.Tensor itself.
inline bool is_plain(const at::TensorImpl& tensor) {
  static const c10::DispatchKeySet keys = at::detail::empty_cpu({0}, at::kFloat, false, std::nullopt).key_set();
  return tensor.key_set() == keys && !tensor.is_wrapped_number();
}

// Contiguous, with the strides that a new tensor of these sizes has.
inline bool is_canonical(const at::TensorImpl& tensor) {
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  int64_t expected = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (strides[dim] != expected) return false;
    expected *= sizes[dim];
  }
  return expected > 0 && expected <= kSmall;
}

inline bool is_small(const at::Tensor& tensor) {
  return is_plain(*tensor.unsafeGetTensorImpl()) && is_canonical(*tensor.unsafeGetTensorImpl());
}

// Integers wrap around, as those of PyTorch's kernels do.
template <class T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::common_type<T>>;
template <class T>
using Bits = typename Wrapping<T>::type;

struct Add { template <class T> static T of(T a, T b) { return static_cast<T>(Bits<T>(a) + Bits<T>(b)); } };
struct Subtract { template <class T> static T of(T a, T b) { return static_cast<T>(Bits<T>(a) - Bits<T>(b)); } };
struct Multiply { template <class T> static T of(T a, T b) { return static_cast<T>(Bits<T>(a) * Bits<T>(b)); } };
struct Divide { template <class T> static T of(T a, T b) { return a / b; } };
struct Equal { template <class T> static bool of(T a, T b) { return a == b; } };
struct Unequal { template <class T> static bool of(T a, T b) { return a != b; } };
struct Less { template <class T> static bool of(T a, T b) { return a < b; } };
struct LessEqual { template <class T> static bool of(T a, T b) { return a <= b; } };
struct Greater { template <class T> static bool of(T a, T b) { return a > b; } };
struct GreaterEqual { template <class T> static bool of(T a, T b) { return a >= b; } };

// A side is a tensor of the size of the result, or one value.
template <class Operation, class T, class Result>
void loop(const T* a, const T* b, T x, T y, Result* to, int64_t count) {
  if (a != nullptr && b != nullptr) {
    for (int64_t index = 0; index < count; ++index) to[index] = Operation::of(a[index], b[index]);
  } else if (a != nullptr) {
    for (int64_t index = 0; index < count; ++index) to[index] = Operation::of(a[index], y);
  } else {
    for (int64_t index = 0; index < count; ++index) to[index] = Operation::of(x, b[index]);
  }
}

template <class T>
const T* data_of(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

inline at::Tensor new_tensor(at::IntArrayRef sizes, at::ScalarType type) {
  return at::Tensor(at::detail::empty_cpu(sizes, type, false, std::nullopt));
}

}  // namespace dy2st
