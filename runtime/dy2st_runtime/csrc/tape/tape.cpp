#include "tape.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>

#include "../calls/arguments.h"
#include "../calls/skip_autograd.h"
#include "../small.h"
#include "tape_node.h"

namespace dy2st {

namespace {

// Of results; above it, autograd's own time does not matter beside that of the kernels, and more memory would be kept than by it.
constexpr int64_t kMostElements = 16384;

// A tape becomes nodes at this length at the latest, and gives up what it knows of results that are gone.
constexpr size_t kMostEntries = 16384;

}  // namespace

// -- noting --------------------------------------------------------------------------------------------------------------------

struct Tape::Edges {
  std::vector<autograd::Edge> of;
};

struct Tape::Reading {
  const at::Tensor* tensors[kMostOperands] = {};
  double numbers[kMostOperands] = {};
  bool is_number[kMostOperands] = {};
  int32_t entries[kMostOperands] = {};
  bool wanted[kMostOperands] = {};
  bool any_wanted = false;
};

Tape::~Tape() {
  try {
    close();
  } catch (...) {  // out of memory, while another exception is on its way
  }
}

int32_t Tape::entry_of(const at::Tensor& tensor) const {
  if (!record_) return -1;
  const auto found = known_.find(tensor.unsafeGetTensorImpl());
  return found == known_.end() ? -1 : found->second;
}

bool Tape::read(const Instruction& instruction, Reading& to) const {
  const bool recorded = at::GradMode::is_enabled();
  at::ScalarType type = at::ScalarType::Undefined;
  for (size_t index = 0; index < instruction.rule->operands; ++index) {
    const Argument& argument = instruction.arguments[index];
    const int32_t source = argument.source >= 0 ? argument.source : argument.number_source;
    if (source < 0) {
      if (argument.is_list || argument.constant.isBool()) return false;
      if (argument.constant.isNone()) continue;
      if (!argument.constant.isScalar()) return false;
      to.is_number[index] = true;
      to.numbers[index] = argument.constant.toScalar().toDouble();
      continue;
    }
    const Value& value = frame_[source];
    if (value.is(Kind::None)) continue;
    if (value.is(Kind::Tensor)) {
      const at::Tensor& tensor = value.tensor();
      const int64_t count = tensor.numel();
      if (!is_plain(*tensor.unsafeGetTensorImpl()) || count == 0) return false;
      if (count > kMostElements && !(tensor.is_leaf() && tensor.requires_grad())) return false;
      if (type == at::ScalarType::Undefined) type = tensor.scalar_type();
      if (tensor.scalar_type() != type || (type != at::kFloat && type != at::kDouble)) return false;
      to.tensors[index] = &tensor;
      to.entries[index] = entry_of(tensor);
      to.wanted[index] = recorded && (to.entries[index] >= 0 || tensor.requires_grad());
      to.any_wanted |= to.wanted[index];
    } else if (value.is(Kind::Float) || (value.is(Kind::Int) && std::abs(value.as_int()) < (int64_t(1) << 53))) {
      to.is_number[index] = true;
      load_float(value, to.numbers[index]);
    } else {
      return false;
    }
  }
  return to.tensors[0] != nullptr && instruction.rule->fits(to.tensors);
}

bool Tape::note(const Instruction& instruction) {
  Reading given;
  if (!frame_.unobserved || !read(instruction, given)) return false;
  const Rule& rule = *instruction.rule;
  Entry entry;
  entry.rule = &rule;
  if (given.any_wanted && record_ && record_->entries.size() >= kMostEntries) {
    close();
    return note(instruction);
  }
  if (given.any_wanted) {
    if (!record_) {
      record_ = std::make_shared<Record>();
      edges_ = std::make_shared<Edges>();
      record_->traced_back = frame_.program.traced_back;
    }
    const uint8_t keeps = rule.keeps(given.wanted);
    for (size_t index = 0; index < rule.operands; ++index) {
      if (given.is_number[index]) {
        entry.operands[index] = Operand::of_number(given.numbers[index]);
      } else if (const at::Tensor* tensor = given.tensors[index]) {
        const int32_t other = given.wanted[index] ? given.entries[index] : -1;
        if (other >= 0) {
          entry.operands[index].index = other;
          record_->entries[other].used = true;
          if ((keeps & (1 << index)) != 0) record_->entries[other].value = *tensor;
        } else {
          entry.operands[index] = Operand::of_outer(outer_of(*tensor, given.wanted[index]));
        }
      }
    }
  }
  {
    const SkipAutograd below(true);
    const bool gradients = std::exchange(frame_.gradients, false);
    frame_.skips_autograd = true;
    struct Restore {
      Frame& frame;
      bool gradients;
      ~Restore() { frame.gradients = gradients, frame.skips_autograd = false; }
    } restore{frame_, gradients};
    if (!instruction.handler(instruction, frame_)) return false;
  }
  const at::Tensor& result = frame_[instruction.outputs[0]].tensor();
  if (!given.any_wanted) {
    if (record_) known_.erase(result.unsafeGetTensorImpl());  // it may be an operand that nobody reads again, noted before
    return true;
  }
  entry.sizes = note_sizes(result);
  entry.dims = static_cast<uint32_t>(result.dim());
  entry.type = result.scalar_type();
  if ((rule.keeps(given.wanted) & kKeepsResult) != 0) entry.value = result;
  known_[result.unsafeGetTensorImpl()] = static_cast<int32_t>(record_->entries.size());
  results_.emplace_back(result.getIntrusivePtr());
  record_->entries.push_back(std::move(entry));
  return true;
}

size_t Tape::outer_of(const at::Tensor& tensor, bool wanted) {
  auto& outers = record_->outers;
  const auto version = static_cast<uint32_t>(tensor._version());
  for (size_t back = 0; back < 8 && back < outers.size(); ++back) {
    const size_t index = outers.size() - 1 - back;
    if (outers[index].tensor.is_same(tensor) && outers[index].version == version && outers[index].wanted == wanted) return index;
  }
  edges_->of.push_back(wanted ? autograd::impl::gradient_edge(tensor) : autograd::Edge());  // may raise, as for a view that is no more
  outers.push_back({tensor, version, note_sizes(tensor), static_cast<uint32_t>(tensor.dim()), wanted});
  return outers.size() - 1;
}

uint32_t Tape::note_sizes(const at::Tensor& tensor) {
  auto& sizes = record_->sizes;
  const auto at = static_cast<uint32_t>(sizes.size());
  sizes.insert(sizes.end(), tensor.sizes().begin(), tensor.sizes().end());
  return at;
}

bool Tape::touches(const Value& value) const {
  switch (value.kind()) {
    case Kind::Tensor:
      return value.tensor().requires_grad() || entry_of(value.tensor()) >= 0;
    case Kind::List:
    case Kind::Tuple:
    case Kind::Object:
      return true;
    default:
      return false;
  }
}

bool Tape::touches(const Instruction& instruction) const {
  const auto any = [&](const std::vector<int32_t>& sources) {
    return std::any_of(sources.begin(), sources.end(), [&](int32_t source) { return source >= 0 && touches(frame_[source]); });
  };
  if (any(instruction.inputs) || any(instruction.reads)) return true;
  for (const Argument& argument : instruction.arguments) {
    if (any(argument.sources) || (argument.source >= 0 && touches(frame_[argument.source]))) return true;
  }
  return false;
}

// -- what was noted becomes nodes ------------------------------------------------------------------------------------------------

void Tape::close() {
  if (!record_) return;
  const std::shared_ptr<Record> record = std::move(record_);
  record_.reset();
  auto& entries = record->entries;
  const size_t count = entries.size();
  // Results that are still there. Where later entries take one, its node ends there: hooks see the sum of its gradients.
  std::vector<at::Tensor> alive(count);
  std::vector<size_t> ends;
  for (size_t index = 0; index < count; ++index) {
    auto& weak = results_[index];
    const uint32_t own = entries[index].value.defined() ? 1 : 0;
    if (weak.use_count() > own) {
      auto strong = weak.lock();
      const auto found = known_.find(strong.get());
      if (strong && found != known_.end() && found->second == static_cast<int32_t>(index)) alive[index] = at::Tensor(std::move(strong));
    }
    if (alive[index].defined() && entries[index].used && index + 1 < count) ends.push_back(index + 1);
  }
  results_.clear();
  known_.clear();
  if (count == 0) return;
  ends.push_back(count);
  std::vector<uint8_t> given(count);
  for (size_t index = 0; index < count; ++index) given[index] = alive[index].defined();
  for (size_t part = 0, begin = 0; part < ends.size(); begin = ends[part++]) {
    for (size_t index = begin; index < ends[part]; ++index) {
      for (const Operand& operand : entries[index].operands) {
        if (operand.is_entry() && static_cast<size_t>(operand.index) < begin) given[operand.index] = 1;
      }
    }
  }
  std::vector<autograd::Edge> edges(count);
  const std::vector<autograd::Edge> outer_edges = std::move(edges_->of);
  for (size_t part = 0, begin = 0; part < ends.size(); begin = ends[part++]) {
    auto node = make_node<ProgramBackward>(record, begin, ends[part]);
    for (size_t index = ends[part]; index-- > begin;) {
      for (const Operand& operand : entries[index].operands) {
        if (!record->wants(operand)) continue;
        if (operand.is_outer()) node->add_next_edge(outer_edges[operand.outer()]);
        if (operand.is_entry() && static_cast<size_t>(operand.index) < begin) node->add_next_edge(edges[operand.index]);
      }
    }
    for (size_t index = begin; index < ends[part]; ++index) {
      if (given[index] == 0) continue;
      edges[index] = autograd::Edge(node, node->give(index));
      if (!alive[index].defined()) continue;
      if (entries[index].value.defined()) entries[index].value = alive[index].tensor_data();  // no way back to the node
      autograd::impl::set_gradient_edge(alive[index], edges[index]);
    }
  }
  for (Entry& entry : entries) {
    if (entry.value.defined()) entry.version = static_cast<uint32_t>(entry.value._version());
  }
}

}  // namespace dy2st
