// What the command line gives a method: numbers, tensors of files, and for training the batches of such.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>
#include <string>
#include <vector>

#include "../model.h"
#include "options.h"

namespace dy2st {

// A value for each input. Throws Error where one is missing, given twice, or cannot be read.
std::vector<Value> read_inputs(const std::vector<Model::Input>& wanted, const std::vector<std::string>& given);

// The batches of an epoch: rows of the inputs that are tensors with a first dimension, and the rest as it is.
class Batches {
 public:
  // Throws Error where inputs do not fit the method or each other.
  Batches(const std::vector<Model::Input>& wanted, const Options& options);
  // Takes the rows in another order from now on.
  void shuffle(uint64_t seed);
  int64_t count() const { return (rows_ + (drop_last_ ? 0 : size_ - 1)) / size_; }
  int64_t rows() const { return rows_; }
  std::vector<Value> operator[](int64_t index) const;

 private:
  void check_rows(const std::vector<Model::Input>& wanted);
  void choose_size(const std::vector<Model::Input>& wanted, int64_t asked);

  std::vector<Value> values_;
  std::vector<bool> cut_;  // whether an input is cut into batches
  std::optional<at::Tensor> order_;
  int64_t rows_ = 0, size_ = 0;
  bool drop_last_;
};

}  // namespace dy2st
