// Calls of operators with C++ types: no stack, no boxing. One function for each signature.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/SmallVector.h>

#include <string_view>
#include <tuple>

#include "arguments.h"

namespace dy2st {

// Reads one argument as a T, and keeps what it refers to as long as the call lasts.
template <class T>
class Load;

template <>
class Load<const at::Tensor&> {
 public:
  bool load(const Argument& argument, Frame& frame) {
    if (argument.source >= 0) {
      const Value& value = frame[argument.source];
      if (value.is(Kind::Tensor)) return tensor_ = &value.tensor(), true;
      if (!argument.number_as_tensor || !load_number_tensor(value, made_)) return false;
      tensor_ = &made_;
      return true;
    }
    tensor_ = argument.tensor ? &*argument.tensor : nullptr;
    if (argument.partner >= 0) {
      const Value& partner = frame[argument.partner];
      if (partner.is(Kind::Tensor) && partner.tensor().scalar_type() == at::kFloat && partner.tensor().is_cpu()) {
        tensor_ = &*argument.as_float;
      }
    }
    return tensor_ != nullptr;
  }
  const at::Tensor& get() { return *tensor_; }

 private:
  const at::Tensor* tensor_ = nullptr;
  at::Tensor made_;
};

template <>
class Load<at::Tensor&> {
 public:
  bool load(const Argument& argument, Frame& frame) {
    if (argument.source < 0 || !frame[argument.source].is(Kind::Tensor)) return false;
    tensor_ = &frame[argument.source].tensor();
    return true;
  }
  at::Tensor& get() { return *tensor_; }

 private:
  at::Tensor* tensor_ = nullptr;
};

template <>
class Load<const std::optional<at::Tensor>&> {
 public:
  bool load(const Argument& argument, Frame& frame) {
    if (argument.source < 0) return argument.constant.isNone();
    const Value& value = frame[argument.source];
    if (value.is(Kind::Tensor)) return tensor_ = value.tensor(), true;
    return value.is(Kind::None);
  }
  const std::optional<at::Tensor>& get() { return tensor_; }

 private:
  std::optional<at::Tensor> tensor_;
};

template <class T, bool (*load_value)(const Value&, T&)>
class LoadNumber {
 public:
  bool load(const Argument& argument, Frame& frame) {
    if (argument.source >= 0) return load_value(frame[argument.source], number_);
    if (argument.is_list) return false;
    if constexpr (std::is_same_v<T, int64_t>) {
      if (!argument.constant.isInt()) return false;
      number_ = argument.constant.toInt();
    } else if constexpr (std::is_same_v<T, double>) {
      if (!argument.constant.isDouble()) return false;
      number_ = argument.constant.toDouble();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!argument.constant.isBool()) return false;
      number_ = argument.constant.toBool();
    } else {
      if (!argument.constant.isScalar()) return false;
      number_ = argument.constant.toScalar();
    }
    return true;
  }

 protected:
  T number_{};
};

inline bool load_exact_int(const Value& value, int64_t& to) { return value.is(Kind::Int) && load_int(value, to); }
inline bool load_bool(const Value& value, bool& to) { return value.is(Kind::Bool) ? (to = value.as_bool(), true) : false; }

template <>
class Load<int64_t> : public LoadNumber<int64_t, load_exact_int> {
 public:
  int64_t get() { return number_; }
};
template <>
class Load<c10::SymInt> : public LoadNumber<int64_t, load_exact_int> {
 public:
  c10::SymInt get() { return c10::SymInt(number_); }
};
template <>
class Load<double> : public LoadNumber<double, load_float> {
 public:
  double get() { return number_; }
};
template <>
class Load<bool> : public LoadNumber<bool, load_bool> {
 public:
  bool get() { return number_; }
};
template <>
class Load<const at::Scalar&> : public LoadNumber<at::Scalar, load_scalar> {
 public:
  const at::Scalar& get() { return number_; }
};

template <class T, class Full>
class LoadOptional {
 public:
  bool load(const Argument& argument, Frame& frame) {
    const bool none = argument.source >= 0 ? frame[argument.source].is(Kind::None) : argument.constant.isNone() && !argument.is_list;
    if (none) return true;
    if (!full_.load(argument, frame)) return false;
    value_ = full_.get();
    return true;
  }

 protected:
  Full full_;
  std::optional<T> value_;
};

template <>
class Load<std::optional<int64_t>> : public LoadOptional<int64_t, Load<int64_t>> {
 public:
  std::optional<int64_t> get() { return value_; }
};
template <>
class Load<std::optional<c10::SymInt>> : public LoadOptional<c10::SymInt, Load<c10::SymInt>> {
 public:
  std::optional<c10::SymInt> get() { return value_; }
};
template <>
class Load<std::optional<double>> : public LoadOptional<double, Load<double>> {
 public:
  std::optional<double> get() { return value_; }
};
template <>
class Load<std::optional<bool>> : public LoadOptional<bool, Load<bool>> {
 public:
  std::optional<bool> get() { return value_; }
};
template <>
class Load<const std::optional<at::Scalar>&> : public LoadOptional<at::Scalar, Load<const at::Scalar&>> {
 public:
  const std::optional<at::Scalar>& get() { return value_; }
};

class LoadInts {
 public:
  bool load(const Argument& argument, Frame& frame) {
    if (argument.source < 0 && !argument.is_list) {
      if (!argument.constant.isIntList()) return false;
      ints_ = argument.ints;
      return true;
    }
    if (!load_ints(argument, frame, made_)) return false;
    ints_ = made_;
    return true;
  }

 protected:
  c10::SmallVector<int64_t, 6> made_;
  at::IntArrayRef ints_;
};

template <>
class Load<at::IntArrayRef> : public LoadInts {
 public:
  at::IntArrayRef get() { return ints_; }
};
template <>
class Load<c10::SymIntArrayRef> : public LoadInts {
 public:
  c10::SymIntArrayRef get() { return c10::fromIntArrayRefSlow(ints_); }
};
template <>
class Load<at::OptionalIntArrayRef> : public LoadInts {
 public:
  bool load(const Argument& argument, Frame& frame) {
    none_ = argument.source >= 0 ? frame[argument.source].is(Kind::None) : argument.constant.isNone() && !argument.is_list;
    return none_ || LoadInts::load(argument, frame);
  }
  at::OptionalIntArrayRef get() { return none_ ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(ints_); }

 private:
  bool none_ = false;
};

// Dtypes and the like are always constants.
template <class T, class Made>
class LoadConstant {
 public:
  bool load(const Argument& argument, Frame&) {
    if (argument.source >= 0 || argument.is_list) return false;
    if (!argument.constant.isNone()) value_ = argument.constant.to<Made>();
    return true;
  }
  std::optional<T> get() { return value_; }

 private:
  std::optional<T> value_;
};

template <>
class Load<std::optional<at::ScalarType>> : public LoadConstant<at::ScalarType, at::ScalarType> {};
template <>
class Load<std::optional<at::Layout>> : public LoadConstant<at::Layout, at::Layout> {};
template <>
class Load<std::optional<at::Device>> : public LoadConstant<at::Device, at::Device> {};
template <>
class Load<std::optional<at::MemoryFormat>> : public LoadConstant<at::MemoryFormat, at::MemoryFormat> {};

template <>
class Load<at::ScalarType> {
 public:
  bool load(const Argument& argument, Frame&) {
    if (argument.source >= 0 || !argument.constant.isInt()) return false;
    value_ = argument.constant.toScalarType();
    return true;
  }
  at::ScalarType get() { return value_; }

 private:
  at::ScalarType value_ = at::kFloat;
};

template <>
class Load<std::string_view> {
 public:
  bool load(const Argument& argument, Frame&) {
    if (argument.source >= 0 || !argument.constant.isString()) return false;
    value_ = argument.constant.toStringRef();
    return true;
  }
  std::string_view get() { return value_; }

 private:
  std::string_view value_;
};

class LoadTensors {
 public:
  bool load(const Argument& argument, Frame& frame) {
    return (argument.source >= 0 || argument.is_list) && load_tensors(argument, frame, tensors_);
  }

 protected:
  std::vector<at::Tensor> tensors_;
};

template <>
class Load<at::TensorList> : public LoadTensors {
 public:
  at::TensorList get() { return tensors_; }
};
template <>
class Load<const at::ITensorListRef&> : public LoadTensors {
 public:
  const at::ITensorListRef& get() { return reference_ = at::ITensorListRef(tensors_); }

 private:
  at::ITensorListRef reference_;
};
template <>
class Load<const c10::List<std::optional<at::Tensor>>&> {
 public:
  bool load(const Argument& argument, Frame& frame) {
    return (argument.source >= 0 || argument.is_list) && load_optional_tensors(argument, frame, tensors_);
  }
  const c10::List<std::optional<at::Tensor>>& get() { return tensors_; }

 private:
  c10::List<std::optional<at::Tensor>> tensors_;
};

inline void store(Value& to, at::Tensor&& result) { to.set(std::move(result)); }
inline void store(Value& to, at::Tensor& result) { to = Value::of(result); }
inline void store(Value& to, bool result) { to = Value::of(result); }
inline void store(Value& to, int64_t result) { to = Value::of(result); }
inline void store(Value& to, std::vector<at::Tensor>&& results) {
  std::vector<Value> items;
  items.reserve(results.size());
  for (at::Tensor& result : results) items.push_back(Value::of(std::move(result)));
  to = Value::list(std::move(items));
}

template <class Result>
void finish(const Instruction& instruction, Frame& frame, Result&& result) {
  if (!instruction.outputs.empty()) store(frame[instruction.outputs[0]], std::forward<Result>(result));
}

template <class... Parts>
void finish(const Instruction& instruction, Frame& frame, std::tuple<Parts...>&& results) {
  const auto& outputs = instruction.outputs;
  std::apply(
      [&](auto&... part) {
        if (instruction.spread) {
          size_t index = 0;
          ((outputs[index] >= 0 ? store(frame[outputs[index]], std::move(part)) : void(), ++index), ...);
        } else if (!outputs.empty()) {
          std::vector<Value> items;
          (items.push_back(Value::of(std::move(part))), ...);
          frame[outputs[0]] = Value::tuple(std::move(items));
        }
      },
      results);
}

template <class Result, class... Parameters>
struct Caller {
  using Operator = c10::TypedOperatorHandle<Result(Parameters...)>;

  static bool call(const Instruction& instruction, Frame& frame) {
    return call(instruction, frame, std::index_sequence_for<Parameters...>());
  }

 private:
  template <size_t... index>
  static bool call(const Instruction& instruction, Frame& frame, std::index_sequence<index...>) {
    std::tuple<Load<Parameters>...> loads;
    if (!(std::get<index>(loads).load(instruction.arguments[index], frame) && ...)) return false;
    const auto& op = *static_cast<const Operator*>(instruction.typed);
    if constexpr (std::is_void_v<Result>) {
      op.call(std::get<index>(loads).get()...);
    } else {
      finish(instruction, frame, op.call(std::get<index>(loads).get()...));
    }
    return true;
  }
};

// A signature: chooses the typed call of an operator that has it, or nothing.
using Choose = Handler (*)(Program&, Instruction&);

template <class Signature>
struct Choice;

template <class Result, class... Parameters>
struct Choice<Result(Parameters...)> {
  static Handler choose(Program& program, Instruction& instruction) {
    using Operator = typename Caller<Result, Parameters...>::Operator;
    if (instruction.op->schema().arguments().size() != sizeof...(Parameters)) return nullptr;
    try {
      auto op = std::make_shared<Operator>(instruction.op->typed<Result(Parameters...)>());
      instruction.typed = op.get();
      program.owned.push_back(std::move(op));
    } catch (const c10::Error&) {  // its C++ signature is another one
      return nullptr;
    }
    return Caller<Result, Parameters...>::call;
  }
};

struct Row {
  const char* signature;
  Choose choose;
};

// The signatures of operators that give a tensor, and all others.
extern const std::vector<Row> tensor_rows;
extern const std::vector<Row> other_rows;

}  // namespace dy2st
