// Collects the instructions of one program; the Python of executors/native/lowering.py does the same for programs in memory, and
// tests/runtime/test_lowerings.py compares what both give.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../../assemble.h"
#include "../files/json.h"
#include "lower.h"
#include "../gradients.h"
#include "../text.h"
#include "uses.h"

namespace dy2st {

using Registers = std::vector<int32_t>;

// What the names of a block stand for.
struct Scope {
  std::map<std::string, int32_t> values;
  std::map<std::string, Registers> results;  // of what gives each part a register
};

// One argument of an operator, before its parameter is looked at.
struct Given {
  enum class Kind : uint8_t { Missing, Register, List, Constant } kind = Kind::Missing;
  int32_t source = -1;
  Registers sources;
  c10::IValue constant;
};

// A step with what only archives have.
struct ArchiveStep : Step {
  ArchiveStep(std::string kind_given, std::string name_given = "", Registers inputs_given = {}, Registers outputs_given = {}) {
    kind = std::move(kind_given);
    name = std::move(name_given);
    inputs = std::move(inputs_given);
    outputs = std::move(outputs_given);
  }
  std::vector<Given> arguments;
  Deed* deed = nullptr;
  std::string place;
};

// Registers are numbered from 0, constants -2, -3, ...
class Lowering {
 public:
  explicit Lowering(const Json& program)
      : blocks_(program["blocks"].array()), sources_(program["sources"].array()), trains_(trains(program)), program_(std::make_unique<Program>()) {}
  Lowered whole();

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw Error(what + " needs Python" + place_); }

  // Registers: lower.cpp.
  int32_t fresh() {
    own_.insert(count_);
    return count_++;
  }
  int32_t constant(Value value);
  Value constant_in(const Json& json) const;
  int32_t value_named(const std::string& name) const;
  int32_t value_of(const Json& json);
  Registers values_of(const std::vector<Json>& items);
  void emit(ArchiveStep step);

  // Blocks and what runs them: lower.cpp.
  Registers block(const Json& described);
  void note_place(const Json& node);
  void release(const std::vector<std::pair<size_t, size_t>>& steps, const Registers& kept);
  void operation(const Json& node);
  bool take_part(const Json& node);
  void branch(const Json& node);
  void loop(const Json& node, const Json& pred);
  void leave(const Registers& sources, const Registers& targets, const std::set<int32_t>& dying);
  Registers results_of(const Json& node, size_t count);
  void finish_control(const Json& node, const Registers& results);
  void alias(const Json& block, const Registers& registers);
  const Json& inner(const Json& json) const;
  bool gives_parts(const Json& node, size_t count) const;

  // Single operations: operations.cpp.
  void call(const Json& node);
  ArchiveStep call_operator(const Json& node, const std::string& target);
  Given given(const Json& json);
  ArchiveStep number(const Json& node, const std::string& target);
  ArchiveStep on_list(const Json& node, const std::string& target);

  // What is done in the place of Python: deeds.cpp.
  ArchiveStep deed(const Json& node, const std::string& target);
  ArchiveStep report(const Json& node);
  std::vector<Deed::Part> parts(const Json& json, bool is_text);
  Operand operand(const Json& json);
  void resolve_registers(Operand& operand) const;

  // Gradients and modes: gradients.cpp.
  bool without_gradients(const Json& node);
  [[noreturn]] void refuse_transform(const Json& node) const;
  void in_place_of_checkpoint(const Json& node);
  ArchiveStep grad_mode(const Json& node);
  ArchiveStep other(const Json& node, const std::string& target);

  Instruction made(const ArchiveStep& step);

  const std::vector<Json>& blocks_;
  const std::vector<Json>& sources_;
  const bool trains_;
  std::unique_ptr<Program> program_;
  std::vector<ArchiveStep> steps_;
  std::map<std::string, int32_t> known_;  // constants, by kind and value
  std::map<std::string, Uses> uses_;
  int32_t count_ = 0;
  int depth_ = 0;
  Scope scope_;
  std::set<int32_t> own_, left_;
  std::string place_;
};

}  // namespace dy2st
