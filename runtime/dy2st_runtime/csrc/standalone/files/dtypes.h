// The names of dtypes: those of torch, and those of safetensors files.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace dy2st {

// Throws Error for a dtype that needs Python.
at::ScalarType dtype_of(const std::string& name);
std::string dtype_name(at::ScalarType dtype);

// Nothing where only Python reads, or nobody writes, such tensors.
std::optional<at::ScalarType> stored_dtype(const std::string& name);
std::optional<std::string> stored_name(at::ScalarType dtype);

}  // namespace dy2st
