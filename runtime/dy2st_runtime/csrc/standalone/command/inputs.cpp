#include "inputs.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "../files/npy.h"

namespace dy2st {
namespace {

Value value_of(const std::string& text, const Model::Input& input) {
  if (input.number.empty()) return Value::of(read_npy(text));
  if (input.number == "int") return Value::of(whole_number(text, input.name));
  if (input.number == "bool") return Value::of(text == "True" || text == "true" || text == "1");
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ptr != text.data() + text.size()) throw Error(input.name + " takes a number, not " + text);
  return Value::of(number);
}

// The text of an input that has the name of one, and its position; else the next that is not given.
size_t position_of(const std::vector<Model::Input>& wanted, const std::vector<bool>& given, std::string& text) {
  for (size_t index = 0; index < wanted.size(); ++index) {
    if (text.rfind(wanted[index].name + "=", 0) != 0) continue;
    text = text.substr(wanted[index].name.size() + 1);
    return index;
  }
  return static_cast<size_t>(std::find(given.begin(), given.end(), false) - given.begin());
}

void take(const std::vector<Model::Input>& wanted, const std::vector<std::string>& texts, std::vector<Value>& values, std::vector<bool>& given) {
  for (const std::string& text : texts) {
    std::string value = text;
    const size_t index = position_of(wanted, given, value);
    if (index >= wanted.size() || given[index]) {
      std::string names;
      for (const auto& input : wanted) names += (names.empty() ? "" : ", ") + input.name;
      throw Error("there is no input for " + text + (names.empty() ? "; it takes none" : "; it takes " + names));
    }
    values[index] = value_of(value, wanted[index]);
    given[index] = true;
  }
}

void check_given(const std::vector<Model::Input>& wanted, const std::vector<bool>& given) {
  for (size_t index = 0; index < wanted.size(); ++index) {
    if (!given[index]) throw Error("input " + wanted[index].name + " is missing");
  }
}

std::string described(at::ScalarType dtype, at::IntArrayRef sizes) {
  std::ostringstream text;
  text << c10::toString(dtype) << sizes;
  return text.str();
}

}  // namespace

std::vector<Value> read_inputs(const std::vector<Model::Input>& wanted, const std::vector<std::string>& given) {
  std::vector<Value> values(wanted.size());
  std::vector<bool> there(wanted.size());
  take(wanted, given, values, there);
  check_given(wanted, there);
  return values;
}

Batches::Batches(const std::vector<Model::Input>& wanted, const Options& options) : values_(wanted.size()), drop_last_(options.drop_last) {
  std::vector<bool> given(wanted.size());
  take(wanted, options.constants, values_, given);
  const std::vector<bool> constant = given;
  take(wanted, options.inputs, values_, given);
  check_given(wanted, given);
  for (size_t index = 0; index < wanted.size(); ++index) cut_.push_back(!constant[index] && !wanted[index].shape.empty());
  check_rows(wanted);
  choose_size(wanted, options.batch_size);
}

void Batches::check_rows(const std::vector<Model::Input>& wanted) {
  size_t first = wanted.size();
  for (size_t index = 0; index < wanted.size(); ++index) {
    if (!cut_[index]) continue;
    const at::Tensor& tensor = values_[index].tensor();
    const auto& shape = wanted[index].shape;
    bool fits = tensor.scalar_type() == wanted[index].dtype && tensor.dim() == static_cast<int64_t>(shape.size());
    for (size_t dim = 1; fits && dim < shape.size(); ++dim) fits = shape[dim] < 0 || shape[dim] == tensor.size(static_cast<int64_t>(dim));
    if (!fits) {
      throw Error("input " + wanted[index].name + " is cut along its first dimension into batches of " + described(wanted[index].dtype, shape) +
                  " (-1 for any size), and cannot be: it is " + described(tensor.scalar_type(), tensor.sizes()));
    }
    if (first == wanted.size()) first = index, rows_ = tensor.size(0);
    if (tensor.size(0) != rows_) {
      throw Error("input " + wanted[first].name + " has " + std::to_string(rows_) + " rows and input " + wanted[index].name + " has " +
                  std::to_string(tensor.size(0)) + "; give an input that is the same at each step with --constant");
    }
  }
  if (first == wanted.size()) rows_ = 1;
  if (rows_ == 0) throw Error("input " + wanted[first].name + " has no rows");
}

void Batches::choose_size(const std::vector<Model::Input>& wanted, int64_t asked) {
  int64_t fixed = 0;
  std::string name;
  for (size_t index = 0; index < wanted.size(); ++index) {
    if (cut_[index] && wanted[index].shape[0] >= 0) fixed = wanted[index].shape[0], name = wanted[index].name;
  }
  size_ = asked > 0 ? asked : fixed > 0 ? fixed : rows_;
  if (fixed > 0 && size_ != fixed) {
    throw Error("input " + name + " takes batches of " + std::to_string(fixed) + " rows, not " + std::to_string(size_));
  }
  if (size_ > rows_ && (fixed > 0 || drop_last_)) {
    throw Error("there are " + std::to_string(rows_) + " rows, fewer than a batch of " + std::to_string(size_));
  }
  if (fixed > 0 && rows_ % fixed != 0 && !drop_last_) {
    throw Error("input " + name + " takes batches of " + std::to_string(fixed) + " rows, and the last of " + std::to_string(rows_) +
                " rows would be smaller; leave it out with --drop-last");
  }
}

void Batches::shuffle(uint64_t seed) {
  order_ = at::randperm(rows_, at::detail::createCPUGenerator(seed), at::TensorOptions().dtype(at::kLong));
}

std::vector<Value> Batches::operator[](int64_t index) const {
  const int64_t start = index * size_, length = std::min(size_, rows_ - start);
  std::vector<Value> batch;
  for (size_t input = 0; input < values_.size(); ++input) {
    if (!cut_[input]) {
      batch.push_back(values_[input].is(Kind::Tensor) ? Value::of(values_[input].tensor().clone()) : values_[input]);
    } else if (order_) {
      batch.push_back(Value::of(values_[input].tensor().index_select(0, order_->narrow(0, start, length))));
    } else {
      batch.push_back(Value::of(values_[input].tensor().narrow(0, start, length).clone(at::MemoryFormat::Contiguous)));
    }
  }
  return batch;
}

}  // namespace dy2st
