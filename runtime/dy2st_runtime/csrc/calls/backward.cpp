#include "backward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "../small.h"
#include "../tape/tape_node.h"

namespace dy2st {
namespace {

// A node, and the gradients of its results that are there by now.
struct Task {
  autograd::Node* node;
  size_t waits_for = 0;  // edges that lead here
  autograd::variable_list gradients;
};

class Pass {
 public:
  Pass(bool keeps_graph, uint64_t first_node, const std::vector<at::Tensor>& untouched)
      : keeps_graph_(keeps_graph), first_node_(first_node), untouched_(untouched) {}

  // Finds the nodes; false if the engine has to run one of them.
  bool find(autograd::Node* root) {
    add(root);
    for (size_t index = 0; index < tasks_.size(); ++index) {
      autograd::Node* node = tasks_[index].node;
      if (!is_ours(*node)) return false;
      for (const autograd::Edge& edge : node->next_edges()) {
        if (edge.is_valid()) ++tasks_[add(edge.function.get())].waits_for;
      }
    }
    return true;
  }

  void run(const autograd::Edge& root, const at::Tensor& gradient) {
    tasks_.front().gradients[root.input_nr] = gradient;
    ready_.push_back(0);
    const auto is_older = [&](size_t a, size_t b) { return tasks_[a].node->sequence_nr() < tasks_[b].node->sequence_nr(); };
    while (!ready_.empty()) {
      std::pop_heap(ready_.begin(), ready_.end(), is_older);
      const size_t index = ready_.back();
      ready_.pop_back();
      evaluate(index, is_older);
    }
  }

 private:
  size_t add(autograd::Node* node) {
    const auto [found, is_new] = places_.emplace(node, tasks_.size());
    if (is_new) tasks_.push_back({node, 0, autograd::variable_list(node->num_inputs())});
    return found->second;
  }

  bool is_ours(autograd::Node& node) const {
    if (!node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty()) return false;
    if (!node.retains_grad_hooks().empty() || node.tensor_post_acc_grad_hooks() != nullptr) return false;
    for (uint32_t index = 0; index < node.num_inputs(); ++index) {
      const auto& metadata = node.input_metadata(index);
      if (!metadata.device().is_cpu() || metadata.is_tensor_subclass() || metadata.is_nested_tensor()) return false;
    }
    if (const auto* leaf = dynamic_cast<autograd::AccumulateGrad*>(&node)) return may_reach(leaf->variable);
    if (node.sequence_nr() < first_node_) return false;
    return dynamic_cast<ProgramBackward*>(&node) != nullptr || dynamic_cast<autograd::TraceableFunction*>(&node) != nullptr;
  }

  bool may_reach(const at::Tensor& leaf) const {
    if (!is_plain(*leaf.unsafeGetTensorImpl())) return false;
    if (leaf.grad().defined()) return is_plain(*leaf.grad().unsafeGetTensorImpl());
    return std::none_of(untouched_.begin(), untouched_.end(), [&](const at::Tensor& other) { return other.is_same(leaf); });
  }

  template <class Order>
  void evaluate(size_t index, Order is_older) {
    autograd::Node& node = *tasks_[index].node;
    if (!keeps_graph_) node.will_release_variables();
    autograd::variable_list made = node(std::move(tasks_[index].gradients));
    if (!keeps_graph_) node.release_variables();
    if (node.num_outputs() == 0) return;
    autograd::validate_outputs(node.next_edges(), made, [&](const std::string& text) {
      return "Function " + node.name() + " returned an " + text;
    });
    for (size_t output = 0; output < made.size(); ++output) {
      const autograd::Edge& edge = node.next_edge(output);
      if (!edge.is_valid()) continue;
      const size_t next = places_.find(edge.function.get())->second;
      if (made[output].defined()) accumulate(tasks_[next].gradients[edge.input_nr], std::move(made[output]));
      if (--tasks_[next].waits_for != 0) continue;
      ready_.push_back(next);
      std::push_heap(ready_.begin(), ready_.end(), is_older);
    }
  }

  bool keeps_graph_;
  uint64_t first_node_;
  const std::vector<at::Tensor>& untouched_;
  std::vector<Task> tasks_;
  std::vector<size_t> ready_;
  ska::flat_hash_map<const autograd::Node*, size_t> places_;
};

}  // namespace

bool run_backward(const at::Tensor& root, const at::Tensor& gradient, bool keeps_graph, uint64_t first_node,
                  const std::vector<at::Tensor>& untouched) {
  if (autograd::AnomalyMode::is_enabled() || autograd::get_current_graph_task_id() != -1 || c10::InferenceMode::is_enabled()) return false;
  if (!root.requires_grad() || !is_plain(*root.unsafeGetTensorImpl())) return false;
  const autograd::Edge edge = autograd::impl::gradient_edge(root);
  if (!edge.is_valid()) return false;
  at::Tensor first = gradient;
  if (!first.defined()) {
    if (root.numel() != 1 || !root.is_floating_point()) return false;
    first = at::ones_like(root, root.options(), at::MemoryFormat::Preserve);
  } else if (!is_plain(*first.unsafeGetTensorImpl()) || first.requires_grad() || first.sizes() != root.sizes() ||
             first.scalar_type() != root.scalar_type()) {
    return false;
  }
  Pass pass(keeps_graph, first_node, untouched);
  if (!pass.find(edge.function.get())) return false;
  const at::AutoGradMode without_gradients(false);
  pass.run(edge, first);
  return true;
}

}  // namespace dy2st
