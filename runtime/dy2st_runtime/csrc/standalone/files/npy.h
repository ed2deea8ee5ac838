// Tensors as files of NumPy.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace dy2st {

// Throw Error where the file cannot be read or written, or has a dtype that the other side lacks.
at::Tensor read_npy(const std::string& path);
void write_npy(const std::string& path, const at::Tensor& tensor);

}  // namespace dy2st
