#include "tape_node.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <sstream>

#include "../small.h"

namespace dy2st {

namespace {

[[noreturn]] void refuse_changed(const at::Tensor& tensor, uint32_t expected, const char* made_by) {
  std::ostringstream text;
  text << "one of the variables needed for gradient computation has been modified by an inplace operation: [" << tensor.toString()
       << " " << tensor.sizes() << "]";
  if (made_by != nullptr) {
    text << ", which is output 0 of " << made_by << ",";
  } else if (tensor.grad_fn()) {
    text << ", which is output " << tensor.output_nr() << " of " << tensor.grad_fn()->name() << ",";
  }
  text << " is at version " << tensor._version() << "; expected version " << expected
       << " instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
          "torch.autograd.set_detect_anomaly(True).";
  TORCH_CHECK(false, text.str());
}

void check_kept(const at::Tensor& tensor) {
  if (!tensor.defined()) throw std::runtime_error(autograd::ERR_BACKWARD_TWICE);
}

}  // namespace

autograd::variable_list ProgramBackward::apply(autograd::variable_list&& gradients) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto plain = [](const at::Tensor& gradient) { return !gradient.defined() || is_plain(*gradient.unsafeGetTensorImpl()); };
  if (at::GradMode::is_enabled() || !std::all_of(gradients.begin(), gradients.end(), plain)) return walk(std::move(gradients));
  const at::AutoDispatchBelowADInplaceOrView below;
  return walk(std::move(gradients));
}

autograd::variable_list ProgramBackward::walk(autograd::variable_list&& gradients) {
  std::vector<at::Tensor> sums(end_ - begin_);
  for (size_t output = 0; output < gradients.size(); ++output) sums[outputs_[output] - begin_] = std::move(gradients[output]);
  gradients.clear();
  autograd::variable_list found(num_outputs());
  std::vector<at::Tensor> traced(at::GradMode::is_enabled() ? end_ : 0);
  if (!traced.empty()) *record_->traced_back = true;
  std::vector<uint8_t> needed(end_ - begin_);
  size_t edge = num_outputs();
  for (size_t index = begin_; index < end_; ++index) {  // some inputs may not be asked for
    const Entry& entry = record_->entries[index];
    size_t uses = 0;
    each_edge(entry, uses, [](auto&&...) {});
    edge -= uses;
    size_t at = edge;
    each_edge(entry, at, [&](size_t, const Operand& operand, bool inside, size_t use) {
      needed[index - begin_] |= inside ? needed[operand.index - begin_] : task_should_compute_output(use);
    });
  }
  edge = 0;
  for (size_t index = end_; index-- > begin_;) {
    const Entry& entry = record_->entries[index];
    const at::Tensor gradient = std::move(sums[index - begin_]);
    if (!gradient.defined() || !needed[index - begin_]) {
      each_edge(entry, edge, [](auto&&...) {});
      continue;
    }
    if (!traced.empty()) trace(index, edge, traced);
    Step step{*record_, entry, gradient, traced.empty() ? nullptr : traced.data()};
    size_t at = edge;
    each_edge(entry, at, [&](size_t position, const Operand& operand, bool inside, size_t use) {
      step.wanted[position] = inside ? needed[operand.index - begin_] : task_should_compute_output(use);
    });
    entry.rule->backward(step);
    each_edge(entry, edge, [&](size_t position, const Operand& operand, bool inside, size_t use) {
      at::Tensor& made = step.gradients[position];
      if (!made.defined()) return;
      const at::IntArrayRef sizes = record_->sizes_of(operand);
      if (made.sizes() != sizes) made = at::sum_to(std::move(made), sizes);
      if (inside) {
        accumulate(sums[operand.index - begin_], std::move(made));
      } else {
        found[use] = std::move(made);
      }
    });
  }
  return found;
}

// What an entry needs of others and of itself is a result of this node, or of another one; then gradients of gradients flow there.
void ProgramBackward::trace(size_t index, size_t edge, std::vector<at::Tensor>& traced) {
  const auto lead = [&](size_t other, const autograd::Edge* to) {
    const Entry& entry = record_->entries[other];
    if (traced[other].defined() || !entry.value.defined()) return;
    traced[other] = record_->result(entry).detach();
    autograd::impl::set_gradient_edge(traced[other], to != nullptr ? *to : autograd::Edge(getptr(), give(other)));
  };
  lead(index, nullptr);
  each_edge(record_->entries[index], edge, [&](size_t, const Operand& operand, bool inside, size_t use) {
    if (operand.is_entry()) lead(operand.index, inside ? nullptr : &next_edge(use));
  });
}

at::IntArrayRef Record::sizes_of(const Operand& operand) const {
  if (operand.is_entry()) return {sizes.data() + entries[operand.index].sizes, entries[operand.index].dims};
  return {sizes.data() + outers[operand.outer()].sizes, outers[operand.outer()].dims};
}

const at::Tensor& Record::value(const Operand& operand) const {
  if (operand.is_entry()) return result(entries[operand.index]);
  const Outer& outer = outers[operand.outer()];
  check_kept(outer.tensor);
  if (outer.tensor._version() != outer.version) refuse_changed(outer.tensor, outer.version, nullptr);
  return outer.tensor;
}

const at::Tensor& Record::result(const Entry& entry) const {
  check_kept(entry.value);
  if (entry.value._version() != entry.version) refuse_changed(entry.value, entry.version, entry.rule->name);
  return entry.value;
}

void accumulate(at::Tensor& sum, at::Tensor&& term) {
  if (!sum.defined()) {
    sum = std::move(term);
    return;
  }
  const bool floats = sum.scalar_type() == at::kFloat || sum.scalar_type() == at::kDouble;
  const bool alike = floats && sum.sizes() == term.sizes() && sum.scalar_type() == term.scalar_type();
  if (alike && !at::GradMode::is_enabled() && is_small(sum) && is_small(term)) {
    const bool own = sum.use_count() == 1 && sum.storage().use_count() == 1;
    at::Tensor made = own ? sum : new_tensor(sum.sizes(), sum.scalar_type());
    const auto add = [&](auto zero) {
      using T = decltype(zero);
      loop<Add>(data_of<T>(sum), data_of<T>(term), T(), T(), static_cast<T*>(made.mutable_data_ptr()), sum.numel());
    };
    sum.scalar_type() == at::kFloat ? add(float()) : add(double());
    sum = std::move(made);
  } else {
    sum = at::add(sum, term);
  }
}

}  // namespace dy2st
