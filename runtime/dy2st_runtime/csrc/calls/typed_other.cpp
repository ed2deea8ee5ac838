// The signatures of operators that give several tensors, numbers, or change a tensor in place.
#include "typed.h"

namespace dy2st {

// The letters are those of signature_of() in typed.cpp.
const std::vector<Row> other_rows = {
    {"M(M)", Choice<at::Tensor&(at::Tensor&)>::choose},
    {"M(M T)", Choice<at::Tensor&(at::Tensor&, const at::Tensor&)>::choose},
    {"M(M T S)", Choice<at::Tensor&(at::Tensor&, const at::Tensor&, const at::Scalar&)>::choose},
    {"M(M S)", Choice<at::Tensor&(at::Tensor&, const at::Scalar&)>::choose},
    {"M(M S S)", Choice<at::Tensor&(at::Tensor&, const at::Scalar&, const at::Scalar&)>::choose},
    {"M(M T b)", Choice<at::Tensor&(at::Tensor&, const at::Tensor&, bool)>::choose},
    {"M(M T T S)", Choice<at::Tensor&(at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Scalar&)>::choose},
    {"M(M i)", Choice<at::Tensor&(at::Tensor&, int64_t)>::choose},
    {"M(M T S S)", Choice<at::Tensor&(at::Tensor&, const at::Tensor&, const at::Scalar&, const at::Scalar&)>::choose},
    {"M(M i T T)", Choice<at::Tensor&(at::Tensor&, int64_t, const at::Tensor&, const at::Tensor&)>::choose},
    {"M(M i T S)", Choice<at::Tensor&(at::Tensor&, int64_t, const at::Tensor&, const at::Scalar&)>::choose},
    {"M(M T?[] T b)", Choice<at::Tensor&(at::Tensor&, const c10::List<std::optional<at::Tensor>>&, const at::Tensor&, bool)>::choose},
    {"M(M f b)", Choice<at::Tensor&(at::Tensor&, double, bool)>::choose},
    {"T T(T i b)", Choice<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, int64_t, bool)>::choose},
    {"T T(T)", Choice<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&)>::choose},
    {"T T(T i b b)", Choice<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, int64_t, bool, bool)>::choose},
    {"T T(T b? i b)", Choice<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, std::optional<bool>, int64_t, bool)>::choose},
    {"T T(T I i b b)", Choice<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, c10::SymInt, int64_t, bool, bool)>::choose},
    {"T T T(T I[] T? T? f)", Choice<std::tuple<at::Tensor, at::Tensor, at::Tensor>(const at::Tensor&, c10::SymIntArrayRef, const std::optional<at::Tensor>&, const std::optional<at::Tensor>&, double)>::choose},
    {"T T T(T T? T? T? T? b f f)", Choice<std::tuple<at::Tensor, at::Tensor, at::Tensor>(const at::Tensor&, const std::optional<at::Tensor>&, const std::optional<at::Tensor>&, const std::optional<at::Tensor>&, const std::optional<at::Tensor>&, bool, double, double)>::choose},
    {"V(T i)", Choice<std::vector<at::Tensor>(const at::Tensor&, int64_t)>::choose},
    {"V(T i i)", Choice<std::vector<at::Tensor>(const at::Tensor&, int64_t, int64_t)>::choose},
    {"V(T I i)", Choice<std::vector<at::Tensor>(const at::Tensor&, c10::SymInt, int64_t)>::choose},
    {"V(T I[] i)", Choice<std::vector<at::Tensor>(const at::Tensor&, c10::SymIntArrayRef, int64_t)>::choose},
    {"b(T)", Choice<bool(const at::Tensor&)>::choose},
    {"b(T T f f b)", Choice<bool(const at::Tensor&, const at::Tensor&, double, double, bool)>::choose},
    {"b(T T)", Choice<bool(const at::Tensor&, const at::Tensor&)>::choose},
    {"i(T i)", Choice<int64_t(const at::Tensor&, int64_t)>::choose},
    {"T T(T T[] T T? T?)", Choice<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, at::TensorList, const at::Tensor&, const std::optional<at::Tensor>&, const std::optional<at::Tensor>&)>::choose},
};

}  // namespace dy2st
