#include "state.h"

#include <ATen/ops/empty.h>

#include <cstring>

#include "../text.h"
#include "dtypes.h"

namespace dy2st {
namespace {

const std::string kGradient = ".grad";

std::vector<int64_t> sizes_of(const Json& json) {
  std::vector<int64_t> found;
  for (const Json& size : json.array()) {
    if (size.integer() < 0) throw Error("the archive has a negative size");
    found.push_back(size.integer());
  }
  return found;
}

// How many elements; throws where that is more than there can be.
int64_t count_of(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (__builtin_mul_overflow(count, size, &count)) throw Error("the archive has a tensor that is too large");
  }
  return count;
}

std::map<std::string, at::Tensor> read_tensors(const Archive& archive) {
  const std::string_view bytes = archive.member("weights.safetensors");
  uint64_t length = 0;
  if (bytes.size() < sizeof length) throw Error("its weights were cut short");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > bytes.size() - sizeof length) throw Error("its weights were cut short");
  const Json header = Json::parse(bytes.substr(sizeof length, length), "weights.safetensors");
  const std::string_view data = bytes.substr(sizeof length + length);
  std::map<std::string, at::Tensor> found;
  for (const auto& [name, described] : header.fields()) {
    if (name == "__metadata__") continue;
    const auto dtype = stored_dtype(described["dtype"].text());
    if (!dtype) throw Error(name + " has dtype " + described["dtype"].text() + ", which only Python reads");
    const auto sizes = sizes_of(described["shape"]);
    const auto& offsets = described["data_offsets"].array();
    if (offsets.size() != 2) throw Error("its weights were altered");
    const int64_t start = offsets[0].integer(), end = offsets[1].integer();
    const auto wanted = static_cast<__int128>(count_of(sizes)) * static_cast<int64_t>(c10::elementSize(*dtype));
    if (start < 0 || end < start || static_cast<uint64_t>(end) > data.size() || wanted != end - start) {
      throw Error("its weights were altered");
    }
    const at::Tensor made = at::empty(sizes, at::TensorOptions().dtype(*dtype));
    if (end > start) std::memcpy(made.mutable_data_ptr(), data.data() + start, static_cast<size_t>(end - start));
    found.emplace(name, made);
  }
  return found;
}

// A tensor at a place in a stored one.
at::Tensor placed(const Json& entry, const std::map<std::string, at::Tensor>& stored) {
  const auto base = stored.find(entry["tensor"].text());
  if (base == stored.end()) throw Error("the archive has no tensor " + entry["tensor"].text());
  if (entry.find("shape") == nullptr) return base->second;
  const auto sizes = sizes_of(entry["shape"]), strides = sizes_of(entry["stride"]);
  const int64_t offset = entry["offset"].integer();
  if (sizes.size() != strides.size() || offset < 0) throw Error("its state was altered");
  __int128 last = offset;
  for (size_t dim = 0; dim < sizes.size(); ++dim) last += static_cast<__int128>(std::max<int64_t>(sizes[dim] - 1, 0)) * strides[dim];
  if (count_of(sizes) > 0 && last >= base->second.numel()) throw Error("its state was altered");
  at::Tensor made = at::empty({0}, base->second.options());
  return made.set_(base->second.storage(), base->second.storage_offset() + offset, sizes, strides);
}

}  // namespace

State::State(const Json& table, const Archive& archive) {
  const auto stored = read_tensors(archive);
  for (const Json& entry : table.array()) {
    const std::string &name = entry["name"].text(), &kind = entry["kind"].text();
    if (kind == "module") {
      aliases_.emplace(name, entry["same_as"].text());
    } else if (kind == "number") {
      values_[name] = constant_value(entry["number"]);
    } else if (kind != "container") {
      const Json* same = entry.find("same_as");
      values_[name] = same != nullptr ? (*this)[same->text()] : Value::of(placed(entry, stored));
    }
  }
}

void State::require_gradients(const Json& table) {
  for (const Json& entry : table.array()) {
    const Json* required = entry.find("requires_grad");
    Value* value = required != nullptr && required->boolean() ? find(entry["name"].text()) : nullptr;
    if (value != nullptr && value->is(Kind::Tensor)) value->tensor().set_requires_grad(true);
  }
  for (const Json& entry : table.array()) {
    const std::string& name = entry["name"].text();
    if (entry["kind"].text() != "attribute" || !name.ends_with(kGradient)) continue;
    const Value *owner = find(name.substr(0, name.size() - kGradient.size())), *value = find(name);
    if (owner == nullptr || !owner->is(Kind::Tensor) || value == nullptr || !value->is(Kind::Tensor)) continue;
    const at::Tensor &tensor = owner->tensor(), &gradient = value->tensor();
    const bool fits = !gradient.is_same(tensor) && gradient.scalar_type() == tensor.scalar_type() && gradient.sizes() == tensor.sizes();
    if (!fits) throw Error(name + " is no gradient of the tensor that it is for");
    tensor.mutable_grad() = gradient;
    gradients_.emplace(name, tensor);
  }
}

Value* State::find(const std::string& given) {
  std::string name = given;
  for (const auto& [alias, original] : aliases_) {
    if (name.rfind(alias + ".", 0) == 0) name = original + name.substr(alias.size());
  }
  const auto found = values_.find(name);
  if (found == values_.end()) return nullptr;
  if (const auto holder = gradients_.find(name); holder != gradients_.end()) found->second = Value::of(holder->second.mutable_grad());
  return &found->second;
}

Value& State::operator[](const std::string& name) {
  Value* found = find(name);
  if (found == nullptr) throw Error("the state has no " + name);
  return *found;
}

bool State::has_items(const std::string& name) const {
  const auto next = values_.lower_bound(name + "[");
  return next != values_.end() && next->first.rfind(name + "[", 0) == 0;
}

}  // namespace dy2st
