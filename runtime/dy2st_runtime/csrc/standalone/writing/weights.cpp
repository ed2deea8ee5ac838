#include "weights.h"

#include <algorithm>
#include <tuple>

#include "../files/dtypes.h"
#include "../files/json.h"

namespace dy2st {
namespace {

constexpr size_t kAlignment = 64;

// The range of the storage, in elements, that a tensor reaches into.
std::pair<int64_t, int64_t> extent(const at::Tensor& tensor) {
  const int64_t start = tensor.storage_offset();
  if (tensor.numel() == 0) return {start, start};
  int64_t end = start + 1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) end += (tensor.size(dim) - 1) * tensor.stride(dim);
  return {start, end};
}

bool has_gaps(const at::Tensor& tensor) {
  const auto [start, end] = extent(tensor);
  return end - start > tensor.numel();
}

// Positions in groups that share memory, groups and positions in the order given.
std::vector<std::vector<size_t>> overlapping(const std::vector<Named>& tensors) {
  std::vector<std::tuple<const void*, int64_t, int64_t, size_t>> ranges;
  for (size_t index = 0; index < tensors.size(); ++index) {
    const at::Tensor& tensor = tensors[index].tensor;
    const auto [start, end] = extent(tensor);
    const auto size = static_cast<int64_t>(tensor.element_size());
    ranges.emplace_back(tensor.storage().data(), start * size, end * size, index);
  }
  std::sort(ranges.begin(), ranges.end());
  std::vector<std::vector<size_t>> groups;
  const void* reached = nullptr;
  int64_t until = 0;
  for (const auto& [storage, start, end, index] : ranges) {
    if (end > start && !groups.empty() && reached == storage && start < until) {
      groups.back().push_back(index);
      until = std::max(end, until);
      continue;
    }
    groups.push_back({index});
    if (end > start) reached = storage, until = end;
  }
  for (auto& group : groups) std::sort(group.begin(), group.end());
  std::sort(groups.begin(), groups.end());
  return groups;
}

void check(const Named& named) {
  const at::Tensor& tensor = named.tensor;
  if (tensor.layout() != at::kStrided || !tensor.is_cpu() || tensor.is_quantized()) {
    throw Error(named.name + " is no dense tensor on the CPU now; an archive holds nothing else");
  }
  if (!stored_name(tensor.scalar_type())) {
    throw Error(named.name + " is a " + dtype_name(tensor.scalar_type()) + " tensor now, which the file cannot hold");
  }
}

}  // namespace

Packed pack(const std::vector<Named>& tensors) {
  for (const Named& named : tensors) check(named);
  Packed packed;
  packed.places.resize(tensors.size());
  for (const auto& group : overlapping(tensors)) {
    const Named& first = tensors[group[0]];
    const at::Tensor tensor = first.tensor.detach();
    if (group.size() == 1 && (tensor.is_contiguous() || has_gaps(tensor))) {
      packed.stored.push_back({first.name, first.written, tensor.resolve_conj().resolve_neg().contiguous()});
      packed.places[group[0]].stored = first.written;
      continue;
    }
    auto [start, end] = extent(tensor);
    for (size_t index : group) {
      const at::Tensor& other = tensors[index].tensor;
      if (other.scalar_type() != tensor.scalar_type()) throw Error(first.name + " and " + tensors[index].name + " share memory but have different dtypes");
      if (other.is_conj() || other.is_neg()) throw Error("a conjugate view shares memory with another tensor of the state");
      start = std::min(start, extent(other).first);
      end = std::max(end, extent(other).second);
    }
    packed.stored.push_back({first.name, first.written, tensor.as_strided({end - start}, {1}, start).contiguous()});
    for (size_t index : group) {
      const at::Tensor& other = tensors[index].tensor;
      packed.places[index] = {first.written, false, other.sizes().vec(), other.strides().vec(), other.storage_offset() - start};
    }
  }
  std::sort(packed.stored.begin(), packed.stored.end(), [](const Named& one, const Named& other) {
    const auto key = [](const Named& named) {
      return std::make_tuple(named.tensor.nbytes() % kAlignment != 0, -static_cast<int64_t>(named.tensor.element_size()));
    };
    return std::make_tuple(key(one), std::cref(one.name)) < std::make_tuple(key(other), std::cref(other.name));
  });
  return packed;
}

Parts weights_file(const std::vector<Named>& stored, std::string& header) {
  std::string text = "{";
  Parts parts = {""};
  uint64_t position = 0;
  for (const Named& named : stored) {
    const uint64_t end = position + named.tensor.nbytes();
    text += (text.size() > 1 ? "," : "") + std::string(named.written) + ":{\"dtype\":\"" + *stored_name(named.tensor.scalar_type()) +
            "\",\"shape\":" + numbers_text(named.tensor.sizes().vec()) + ",\"data_offsets\":[" + std::to_string(position) + "," +
            std::to_string(end) + "]}";
    if (end > position) parts.emplace_back(static_cast<const char*>(named.tensor.const_data_ptr()), named.tensor.nbytes());
    position = end;
  }
  text += "}";
  text += std::string((kAlignment - (8 + text.size()) % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size();
  header.assign(reinterpret_cast<const char*>(&length), sizeof length);
  header += text;
  parts[0] = header;
  return parts;
}

std::string numbers_text(const std::vector<int64_t>& numbers) {
  std::string text = "[";
  for (int64_t number : numbers) text += (text.size() > 1 ? "," : "") + std::to_string(number);
  return text + "]";
}

}  // namespace dy2st
