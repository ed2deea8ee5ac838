// Reads the arguments of an operator from registers. Each load gives false for what only Python can pass on.
#pragma once

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>

#include "../program.h"

namespace dy2st {

inline bool load_int(const Value& value, int64_t& to) {
  if (value.is(Kind::Int)) return to = value.as_int(), true;
  return value.is(Kind::Bool) ? (to = value.as_bool(), true) : false;
}

inline bool load_float(const Value& value, double& to) {
  if (value.is(Kind::Float)) return to = value.as_float(), true;
  return value.is(Kind::Int) ? (to = static_cast<double>(value.as_int()), true) : false;
}

inline bool load_scalar(const Value& value, at::Scalar& to) {
  switch (value.kind()) {
    case Kind::Float:
      return to = value.as_float(), true;
    case Kind::Int:
      return to = value.as_int(), true;
    case Kind::Bool:
      return to = value.as_bool(), true;
    default:
      return false;
  }
}

// A number in the place of a tensor, as eager makes it.
inline at::Tensor number_tensor(const at::Scalar& number) {
  at::Tensor made = at::scalar_to_tensor(number);
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

inline bool load_number_tensor(const Value& value, at::Tensor& to) {
  at::Scalar number;
  return load_scalar(value, number) ? (to = number_tensor(number), true) : false;
}

// The values of a list argument, wherever they are.
class Elements {
 public:
  bool load(const Argument& argument, Frame& frame) {
    if (argument.is_list) {
      sources_ = &argument.sources;
      frame_ = &frame;
      return true;
    }
    const Value& value = frame[argument.source];
    if (!is_native_sequence(value)) return false;
    values_ = &value.items().values;
    return true;
  }
  size_t size() const { return sources_ != nullptr ? sources_->size() : values_->size(); }
  const Value& operator[](size_t index) const {
    return sources_ != nullptr ? (*frame_)[(*sources_)[index]] : (*values_)[index];
  }

 private:
  const std::vector<int32_t>* sources_ = nullptr;
  const std::vector<Value>* values_ = nullptr;
  Frame* frame_ = nullptr;
};

template <class Vector>
bool load_ints(const Argument& argument, Frame& frame, Vector& to) {
  Elements elements;
  if (!elements.load(argument, frame)) return false;
  to.resize(elements.size());
  for (size_t index = 0; index < elements.size(); ++index) {
    if (!elements[index].is(Kind::Int)) return false;
    to[index] = elements[index].as_int();
  }
  return true;
}

inline bool load_tensors(const Argument& argument, Frame& frame, std::vector<at::Tensor>& to) {
  Elements elements;
  if (!elements.load(argument, frame)) return false;
  to.reserve(elements.size());
  for (size_t index = 0; index < elements.size(); ++index) {
    if (!elements[index].is(Kind::Tensor)) return false;
    to.push_back(elements[index].tensor());
  }
  return true;
}

inline bool load_optional_tensors(const Argument& argument, Frame& frame, c10::List<std::optional<at::Tensor>>& to) {
  Elements elements;
  if (!elements.load(argument, frame)) return false;
  to.reserve(elements.size());
  for (size_t index = 0; index < elements.size(); ++index) {
    const Value& value = elements[index];
    if (value.is(Kind::Tensor)) {
      to.push_back(value.tensor());
    } else if (value.is(Kind::None)) {
      to.push_back(std::nullopt);
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace dy2st
