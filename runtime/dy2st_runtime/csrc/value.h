// What a register holds: a tensor, a number, a list or tuple of values, or any other object of Python.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

struct _object;

namespace dy2st {

using Object = ::_object;  // PyObject, without Python's headers

enum class Kind : uint8_t { Empty, None, Bool, Int, Float, Tensor, List, Tuple, Object };

class Value;
struct Items;

void release_object(Object* object) noexcept;  // takes the GIL
void retain_object(Object* object) noexcept;
void release_items(Items* items) noexcept;
void retain_items(Items* items) noexcept;

// Sixteen bytes; numbers are unboxed. Copying shares lists, as names of Python do.
class Value {
 public:
  Value() noexcept : int_(0) {}
  Value(const Value& other) : kind_(other.kind_), int_(0) { copy(other); }
  Value(Value&& other) noexcept : kind_(other.kind_), int_(0) { take(other); }
  Value& operator=(const Value& other) {
    if (this != &other) {
      Value copied(other);
      reset();
      kind_ = copied.kind_;
      take(copied);
    }
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    if (this != &other) {
      reset();
      kind_ = other.kind_;
      take(other);
    }
    return *this;
  }
  ~Value() { reset(); }

  static Value none() { return Value(Kind::None); }
  static Value of(bool value) { Value made(Kind::Bool); made.bool_ = value; return made; }
  static Value of(int64_t value) { Value made(Kind::Int); made.int_ = value; return made; }
  static Value of(double value) { Value made(Kind::Float); made.float_ = value; return made; }
  static Value of(at::Tensor tensor) {
    if (!tensor.defined()) return none();
    Value made(Kind::Tensor);
    new (&made.tensor_) at::Tensor(std::move(tensor));
    return made;
  }
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items, bool is_size = false);
  static Value stealing(Object* object) { Value made(Kind::Object); made.object_ = object; return made; }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool as_bool() const { return bool_; }
  int64_t as_int() const { return int_; }
  double as_float() const { return float_; }
  at::Tensor& tensor() { return tensor_; }
  const at::Tensor& tensor() const { return tensor_; }
  Items& items() const { return *items_; }
  Object* object() const { return object_; }

  void reset() noexcept {
    if (kind_ >= Kind::Tensor) drop();
    kind_ = Kind::Empty;
  }

  // A new tensor in the place of what was there.
  void set(at::Tensor&& tensor) {
    if (kind_ == Kind::Tensor && tensor.defined()) {
      tensor_ = std::move(tensor);
    } else {
      *this = of(std::move(tensor));
    }
  }

 private:
  explicit Value(Kind kind) noexcept : kind_(kind), int_(0) {}
  void copy(const Value& other) {
    if (kind_ == Kind::Tensor) {
      new (&tensor_) at::Tensor(other.tensor_);
    } else {
      int_ = other.int_;
      if (kind_ == Kind::Object) retain_object(object_);
      if (kind_ == Kind::List || kind_ == Kind::Tuple) retain_items(items_);
    }
  }
  void take(Value& other) noexcept {
    if (kind_ == Kind::Tensor) {
      new (&tensor_) at::Tensor(std::move(other.tensor_));
      other.tensor_.~Tensor();
    } else {
      int_ = other.int_;
    }
    other.kind_ = Kind::Empty;
  }
  void drop() noexcept {
    if (kind_ == Kind::Tensor) {
      tensor_.~Tensor();
    } else if (kind_ == Kind::Object) {
      release_object(object_);
    } else {
      release_items(items_);
    }
  }

  Kind kind_ = Kind::Empty;
  union {
    bool bool_;
    int64_t int_;
    double float_;
    at::Tensor tensor_;
    Items* items_;
    Object* object_;
  };
};

// Where whole numbers stand in a list that is searched again and again.
struct Positions {
  std::unordered_map<int64_t, size_t> first;
  size_t known = 0;  // so many items of the list are in the map
  size_t searched = 0;  // so many items have been looked at one by one
};

// The items of a list or tuple; belongs to one run, so its count is not atomic. Once Python code has seen a list, the list of
// Python that it saw is the list from then on, and Python does what is done with it.
struct Items {
  std::vector<Value> values;
  Object* python = nullptr;
  int64_t count = 1;
  bool is_size = false;
  std::unique_ptr<Positions> positions;  // of the items as they are
};

inline bool is_native_list(const Value& value) { return value.is(Kind::List) && value.items().python == nullptr; }
inline bool is_native_sequence(const Value& value) {
  return (value.is(Kind::List) || value.is(Kind::Tuple)) && value.items().python == nullptr;
}

// Its truth as of Python's bool(); throws what that raises.
bool truth(const Value& value);

}  // namespace dy2st
