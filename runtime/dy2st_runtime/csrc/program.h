// A program as the machine runs it: instructions over numbered registers.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "value.h"

namespace dy2st {

struct Frame;
struct Instruction;

// Carries out an instruction. False: nothing was done, Python has to do it.
using Handler = bool (*)(const Instruction&, Frame&);

enum class Opcode : uint8_t {
  Do,        // the handler, or else Python
  Jump,      // to the target
  Unless,    // to the target, if the first input is false
  Move,      // inputs to outputs, all at once
  Assert,    // Python raises, if the first input is false
  Grad,      // sets the grad mode
  Enter,     // Python enters an autocast mode
  Exit,      // Python leaves it
  Return,
};

// What a parameter of an operator takes.
enum class Want : uint8_t { Tensor, Int, Float, Bool, Scalar, Ints, Floats, Bools, Scalars, Tensors, OptionalTensors, Constant };

// One argument of an operator: a register, a list of registers, or a constant.
struct Argument {
  Want want = Want::Constant;
  bool optional = false;
  bool number_as_tensor = false;  // a number stands for a tensor, as in x * 2
  bool is_list = false;
  int32_t source = -1;
  std::vector<int32_t> sources;
  c10::IValue constant;
  std::vector<int64_t> ints;      // the constant, for typed calls
  std::optional<at::Tensor> tensor;
  int32_t number_source = -1;     // the register of the number that became the constant
  std::optional<at::Tensor> as_float;  // the same for a float partner, which saves its conversion at each call
  int32_t partner = -1;           // the register of the tensor that it is combined with
};

struct Rule;

struct Instruction {
  Opcode opcode = Opcode::Do;
  bool spread = false;            // each part of the result has a register of its own
  bool aliases = true;            // its result may share memory with an argument, or it changes one
  Handler handler = nullptr;
  Handler general = nullptr;      // what a handler for special cases leaves the others to
  const void* typed = nullptr;    // the operator, for a typed call
  const Rule* rule = nullptr;     // what it does to gradients, where a tape may note it
  bool only_reads = false;        // gives no tensor with gradients, and no other name for one
  bool is_own = false;            // what Python does there is of this library, and runs no other program
  int32_t target = -1;
  std::vector<int32_t> outputs;
  std::vector<int32_t> inputs;    // what the handler reads
  std::vector<Argument> arguments;
  std::vector<int32_t> numbers;   // that the handler of a function of Python takes
  std::vector<int32_t> dead;      // registers to empty afterwards
  std::vector<int32_t> reads;     // what the Python function takes
  std::vector<uint8_t> last;      // of a move: whether the input is not read again
  std::optional<c10::OperatorHandle> op;
  std::string name;
  std::string label;              // the user's function and line
  mutable Object* function = nullptr;  // does the same in Python; made when it is needed
};

// How often an instruction ran, how often it jumped, and how long it took.
struct Seen {
  int64_t runs = 0;
  int64_t skips = 0;
  int64_t nanoseconds = 0;
  void add(const Seen& other) {
    runs += other.runs;
    skips += other.skips;
    nanoseconds += other.nanoseconds;
  }
};

struct Event {
  int32_t instruction;
  int64_t start;
  int64_t nanoseconds;
  int64_t thread;
};

struct Program {
  ~Program();
  std::vector<Instruction> instructions;
  std::vector<Value> constants;   // the first registers
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
  size_t registers = 0;
  bool may_skip_autograd = false; // nothing in it makes a tensor require gradients
  bool switches_grad = false;
  // Somebody wanted gradients of its gradients: then autograd notes each operation by itself.
  std::shared_ptr<std::atomic<bool>> traced_back = std::make_shared<std::atomic<bool>>(false);
  Object* resolve = nullptr;      // gives the Python function of an instruction
  Object* leave_autocast = nullptr;
  std::vector<std::shared_ptr<void>> owned;
  mutable std::mutex lock;
  mutable std::vector<Seen> seen;     // while runs are counted
  mutable std::vector<Event> events;
  std::vector<std::unique_ptr<Frame>> frames;  // not in use
};

// The registers and the state of one run.
struct Frame {
  explicit Frame(const Program& program);
  const Program& program;
  std::vector<Value> registers;
  std::vector<c10::IValue> stack;
  std::vector<Object*> autocasts;
  std::vector<Value> moved;
  size_t at = 0;                  // the instruction that runs
  bool skips_autograd = false;
  bool gradients = false;         // an input requires gradients
  bool records = false;           // gradients are recorded, and a tape may do it
  uint64_t first_node = 0;        // of those that autograd makes in this run; while gradients are recorded
  bool unobserved = false;        // no profiler, no autocast
  bool counted = false;           // someone wants to know how often and how long
  bool labelled = false;          // a profiler runs
  void* python = nullptr;         // the state of this thread in Python, while it runs without the GIL
  bool holds_python = false;
  const Instruction* keeper = nullptr;  // an instruction whose function only keeps what it is given, and has not been told it
  std::vector<Value> kept;
  Value& operator[](int32_t index) { return registers[index]; }
};

// Runs all instructions; the GIL is not held. Throws what an operation raises.
void execute(const Program& program, Frame& frame);

// Handlers by name; nullptr where there is none.
Handler number_handler(const std::string& name);
Handler list_handler(const std::string& name);

// Chooses how an operator is called; false if only Python can.
bool prepare_operator(Program& program, Instruction& instruction);
Handler typed_handler(Program& program, Instruction& instruction);
Handler pointwise_handler(const Program& program, const Instruction& instruction);
bool call_boxed(const Instruction& instruction, Frame& frame);

}  // namespace dy2st
