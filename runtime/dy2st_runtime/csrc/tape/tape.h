// Gradients of what a program computes, with one node of autograd for many operations.
//
// While a program runs with gradients, operations that have a rule (tape_rules.cpp) run below autograd and are noted. Before anything
// else sees one of their results, what was noted becomes a node of PyTorch's autograd, or a few of them, and the results that are
// still there get their history. The node walks backward through its entries in the order of autograd's engine, with the formulas of
// PyTorch's derivatives and one edge for each use of a tensor from outside, so that every sum of gradients is made of the same
// terms in the same order: the bits are eager's. For gradients of gradients the steps backward are recorded by autograd, and what they
// need of the entries leads back to the node; there, sums may be made in another order, so the program does without a tape from then on.
//
// Source of the idea: reverse accumulation over a Wengert list (Wengert, 1964).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/flat_hash_map.h>

#include <memory>
#include <mutex>
#include <vector>

#include "../program.h"

namespace dy2st {

struct Entry;
struct Record;
struct Step;

// What an entry takes: another entry, a tensor from outside, or a number.
struct Operand {
  static constexpr int32_t kNumber = -1, kAbsent = -2, kFirstOuter = -3;
  static Operand of_number(double number) { return {kNumber, number}; }
  static Operand of_outer(size_t index) { return {kFirstOuter - static_cast<int32_t>(index), 0}; }
  bool is_entry() const { return index >= 0; }
  bool is_outer() const { return index <= kFirstOuter; }
  bool is_number() const { return index == kNumber; }
  size_t outer() const { return static_cast<size_t>(kFirstOuter - index); }

  int32_t index = kAbsent;
  double number = 0;
};

constexpr size_t kMostOperands = 3;
constexpr uint8_t kKeepsResult = 8;

// What an operator does to gradients.
struct Rule {
  const char* name;  // of autograd's own node
  uint8_t operands;  // how many arguments it looks at; the first is a tensor
  // Whether it is for operands of these shapes; nullptr where an entry is absent.
  bool (*fits)(const at::Tensor* const* tensors);
  // Bits: the operands whose values are needed for the gradients that are wanted, and kKeepsResult.
  uint8_t (*keeps)(const bool* wanted);
  void (*backward)(Step& step);
};

// The rule of an instruction; nullptr where there is none.
const Rule* rule_of(const Program& program, const Instruction& instruction);
// Whether an operator gives nothing that has a gradient, and no other name for a tensor.
bool only_reads(const std::string& name);

// An operation that was done.
struct Entry {
  const Rule* rule = nullptr;
  Operand operands[kMostOperands];
  uint32_t sizes = 0;  // where its sizes are
  uint32_t dims = 0;
  uint32_t version = 0;
  at::ScalarType type = at::kFloat;
  bool used = false;   // a later entry takes it
  at::Tensor value;    // the result, where gradients need it
};

// What one run noted between two looks at its results; shared by the nodes that it became.
struct Record {
  struct Outer {
    at::Tensor tensor;
    uint32_t version = 0;
    uint32_t sizes = 0;
    uint32_t dims = 0;
    bool wanted = false;  // it requires a gradient
    size_t nodes = 0;     // that may still need it
  };

  at::IntArrayRef sizes_of(const Operand& operand) const;
  bool wants(const Operand& operand) const { return operand.is_entry() || (operand.is_outer() && outers[operand.outer()].wanted); }
  // A value that gradients need; throws what autograd does where it was changed or given up.
  const at::Tensor& value(const Operand& operand) const;
  const at::Tensor& result(const Entry& entry) const;

  std::vector<Entry> entries;
  std::vector<Outer> outers;
  std::vector<int64_t> sizes;
  std::shared_ptr<std::atomic<bool>> traced_back;  // of the program
  std::mutex lock;  // of what nodes give up
};

// One step backward.
struct Step {
  const at::Tensor& operand(size_t index) const {
    const Operand& operand = entry.operands[index];
    const bool own = traced != nullptr && operand.is_entry() && traced[operand.index].defined();
    return own ? traced[operand.index] : record.value(operand);
  }
  bool is_number(size_t index) const { return entry.operands[index].is_number(); }
  double number(size_t index) const { return entry.operands[index].number; }
  bool is_absent(size_t index) const { return entry.operands[index].index == Operand::kAbsent; }
  at::IntArrayRef sizes(size_t index) const { return record.sizes_of(entry.operands[index]); }
  const at::Tensor& result() const {
    const auto index = &entry - record.entries.data();
    return traced != nullptr && traced[index].defined() ? traced[index] : record.result(entry);
  }

  const Record& record;
  const Entry& entry;
  const at::Tensor& gradient;
  const at::Tensor* traced;  // results of entries with their history, for gradients of gradients
  bool wanted[kMostOperands] = {};
  at::Tensor gradients[kMostOperands];
};

// The same tensor added to another one, as autograd's engine adds up gradients.
void accumulate(at::Tensor& sum, at::Tensor&& term);

// Notes what one run does.
class Tape {
 public:
  explicit Tape(Frame& frame) : frame_(frame) {}
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // Carries out an instruction, if it can be noted. If not, it comes next, and finds all that it may look at with its history.
  bool take(const Instruction& instruction) {
    if (instruction.rule != nullptr && note(instruction)) return true;
    if (record_ && !instruction.only_reads && touches(instruction)) close();
    return false;
  }
  // What was noted becomes a part of autograd's graph.
  void close();

 private:
  struct Edges;
  struct Reading;
  bool note(const Instruction& instruction);
  bool read(const Instruction& instruction, Reading& to) const;
  bool touches(const Instruction& instruction) const;
  bool touches(const Value& value) const;
  int32_t entry_of(const at::Tensor& tensor) const;
  size_t outer_of(const at::Tensor& tensor, bool wanted);
  uint32_t note_sizes(const at::Tensor& tensor);

  Frame& frame_;
  std::shared_ptr<Record> record_;
  std::shared_ptr<Edges> edges_;  // of the outers
  std::vector<c10::weak_intrusive_ptr<at::TensorImpl>> results_;
  ska::flat_hash_map<const at::TensorImpl*, int32_t> known_;
};

}  // namespace dy2st
