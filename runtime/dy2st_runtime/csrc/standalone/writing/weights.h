// The tensors of the state as a safetensors file, as archive/weights.py and archive/memory.py write them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "../files/checksums.h"

namespace dy2st {

struct Named {
  std::string name;
  std::string_view written;  // the name in JSON
  at::Tensor tensor;
};

// Where a tensor is: in a stored one, as it is or at a place in it.
struct Place {
  std::string_view stored;  // the name in JSON
  bool whole = true;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

struct Packed {
  std::vector<Named> stored;  // contiguous, in the order of the file; none shares memory with another
  std::vector<Place> places;  // of each tensor that was given
};

// Throws Error where a file cannot hold a tensor.
Packed pack(const std::vector<Named>& tensors);

// The pieces of the file: a header, which is kept where the caller says, and the data of the tensors where it is.
Parts weights_file(const std::vector<Named>& stored, std::string& header);

// A list of numbers in JSON.
std::string numbers_text(const std::vector<int64_t>& numbers);

}  // namespace dy2st
