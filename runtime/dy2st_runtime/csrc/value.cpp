#include "value.h"

#include "python_bridge.h"

namespace dy2st {

Value Value::list(std::vector<Value> items) {
  Value made(Kind::List);
  made.items_ = new Items{std::move(items)};
  return made;
}

Value Value::tuple(std::vector<Value> items, bool is_size) {
  Value made(Kind::Tuple);
  made.items_ = new Items{std::move(items)};
  made.items_->is_size = is_size;
  return made;
}

void retain_items(Items* items) noexcept { ++items->count; }

void release_items(Items* items) noexcept {
  if (--items->count > 0) return;
  if (items->python != nullptr) release_object(items->python);
  delete items;
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::Bool:
      return value.as_bool();
    case Kind::Int:
      return value.as_int() != 0;
    case Kind::Float:
      return value.as_float() != 0;
    case Kind::Tensor: {
      const at::Tensor& tensor = value.tensor();
      if (tensor.scalar_type() == at::kBool && tensor.numel() == 1 && tensor.is_cpu() && tensor.has_storage()) {
        return *static_cast<const bool*>(tensor.const_data_ptr());
      }
      return tensor.is_nonzero();
    }
    case Kind::None:
    case Kind::Empty:
      return false;
    default:
      if (is_native_sequence(value)) return !value.items().values.empty();
      return truth_in_python(value);
  }
}

}  // namespace dy2st
