// The node of autograd that a tape becomes.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>

#include "tape.h"

namespace dy2st {

namespace autograd = torch::autograd;

// What counts the references to nodes: c10::intrusive_ptr in newer releases of torch, std::shared_ptr in older ones.
template <class Kind, class... Arguments>
auto make_node(Arguments&&... arguments) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Kind>) {
    return c10::make_intrusive<Kind>(std::forward<Arguments>(arguments)...);
  } else {
    return std::shared_ptr<Kind>(new Kind(std::forward<Arguments>(arguments)...), [](auto* node) { deleteNode(node); });
  }
}

// Part of a record as a node of autograd.
class ProgramBackward : public autograd::Node {
 public:
  ProgramBackward(std::shared_ptr<Record> record, size_t begin, size_t end)
      : record_(std::move(record)), begin_(begin), end_(end) {
    for (size_t index = begin; index < end; ++index) {
      for (const Operand& operand : record_->entries[index].operands) {
        if (operand.is_outer()) outers_.push_back(operand.outer());
      }
    }
    std::sort(outers_.begin(), outers_.end());
    outers_.erase(std::unique(outers_.begin(), outers_.end()), outers_.end());
    for (size_t index : outers_) ++record_->outers[index].nodes;
  }

  std::string name() const override { return "ProgramBackward"; }
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (released_) return;
    released_ = true;
    const std::lock_guard<std::mutex> shared(record_->lock);
    for (size_t index = begin_; index < end_; ++index) record_->entries[index].value.reset();
    for (size_t index : outers_) {
      if (--record_->outers[index].nodes == 0) record_->outers[index].tensor.reset();
    }
  }
  // Gives an entry as an output, unless it is one already, and says as which.
  uint32_t give(size_t index) {
    const auto known = std::find(outputs_.begin(), outputs_.end(), index);
    if (known != outputs_.end()) return static_cast<uint32_t>(known - outputs_.begin());
    outputs_.push_back(index);
    const Entry& entry = record_->entries[index];
    const auto options = at::TensorOptions().dtype(entry.type).device(at::kCPU);
    const at::IntArrayRef sizes(record_->sizes.data() + entry.sizes, entry.dims);
    return add_input_metadata(options, c10::fromIntArrayRefSlow(sizes), false, false, entry.type);
  }

 protected:
  autograd::variable_list apply(autograd::variable_list&& gradients) override;

 private:
  autograd::variable_list walk(autograd::variable_list&& gradients);
  void trace(size_t index, size_t edge, std::vector<at::Tensor>& traced);

  // Calls a function for each operand with a gradient, in the order of the edges.
  template <class Function>
  void each_edge(const Entry& entry, size_t& edge, Function function) {
    for (size_t index = 0; index < entry.rule->operands; ++index) {
      const Operand& operand = entry.operands[index];
      if (!record_->wants(operand)) continue;
      const bool inside = operand.is_entry() && static_cast<size_t>(operand.index) >= begin_;
      function(index, operand, inside, inside ? 0 : edge);
      if (!inside) ++edge;
    }
  }

  std::shared_ptr<Record> record_;
  size_t begin_, end_;
  std::vector<size_t> outputs_, outers_;
  bool released_ = false;
};

}  // namespace dy2st
