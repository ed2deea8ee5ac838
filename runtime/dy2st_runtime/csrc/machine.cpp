// The loop that runs instructions.
#include <ATen/core/grad_mode.h>

#include <chrono>

#include "observe.h"
#include "python_bridge.h"
#include "calls/skip_autograd.h"
#include "tape/tape.h"

namespace dy2st {
namespace {

// Ctrl-C is noticed in a loop without end, and costs a look at the clock for each iteration.
class Patience {
 public:
  void note_iteration(Frame& frame) {
    if ((++iterations_ & 15) != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (frame.holds_python && now - last_ >= std::chrono::milliseconds(5)) release_python(frame);  // other threads wait for it
    if (now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    check_signals();
  }

 private:
  unsigned iterations_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void move(const Instruction& instruction, Frame& frame) {
  const auto& inputs = instruction.inputs;
  if (inputs.size() == 1) {
    Value& source = frame[inputs[0]];
    frame[instruction.outputs[0]] = instruction.last[0] ? Value(std::move(source)) : source;
    return;
  }
  auto& moved = frame.moved;
  for (size_t index = 0; index < inputs.size(); ++index) {
    Value& source = frame[inputs[index]];
    if (instruction.last[index]) {
      moved.push_back(std::move(source));
    } else {
      moved.push_back(source);
    }
  }
  for (size_t index = 0; index < inputs.size(); ++index) frame[instruction.outputs[index]] = std::move(moved[index]);
  moved.clear();
}

void run_python(const Program& program, const Instruction& instruction, Frame& frame, SkipAutograd& skip, Tape& tape) {
  tape.close();
  skip.leave();
  call_python(program, instruction, frame);
  skip.enter();
}

void release_dead(const Instruction& instruction, Frame& frame) {
  for (int32_t index : instruction.dead) frame[index].reset();
}

}  // namespace

Frame::Frame(const Program& owner) : program(owner), registers(owner.registers) {
  for (size_t index = 0; index < owner.constants.size(); ++index) registers[index] = owner.constants[index];
}

namespace {

// Nobody observes.
struct Unobserved {
  void begin(const Instruction&) {}
  void end(const Instruction&, bool) {}
};

template <class Observing>
void execute_observed(const Program& program, Frame& frame, Observing& observer) {
  SkipAutograd skip(frame.skips_autograd);
  Tape tape(frame);
  Patience patience;
  const Instruction* const first = program.instructions.data();
  size_t next = 0;
  while (true) {
    const Instruction& instruction = first[next];
    const size_t current = next;
    frame.at = current;
    observer.begin(instruction);
    switch (instruction.opcode) {
      case Opcode::Do:
        if (frame.holds_python && instruction.op) release_python(frame);
        skip.allow_views(instruction.aliases || frame.gradients);  // a view may have to say that it requires gradients
        if (!frame.records || !tape.take(instruction)) {
          if (instruction.handler == nullptr || !instruction.handler(instruction, frame)) run_python(program, instruction, frame, skip, tape);
        }
        ++next;
        break;
      case Opcode::Jump:
        if (instruction.target <= static_cast<int32_t>(next)) {
          skip.leave();
          patience.note_iteration(frame);
          skip.enter();
        }
        next = instruction.target;
        break;
      case Opcode::Unless:
        next = truth(frame[instruction.inputs[0]]) ? next + 1 : instruction.target;
        break;
      case Opcode::Move:
        move(instruction, frame);
        ++next;
        break;
      case Opcode::Assert:
        if (!truth(frame[instruction.inputs[0]])) run_python(program, instruction, frame, skip, tape);
        ++next;
        break;
      case Opcode::Grad:
        at::GradMode::set_enabled(truth(frame[instruction.inputs[0]]));
        ++next;
        break;
      case Opcode::Enter:
      case Opcode::Exit:
        run_python(program, instruction, frame, skip, tape);
        note_autocast(instruction, frame);
        frame.unobserved = false;
        ++next;
        break;
      case Opcode::Return:
        tape.close();
        return;
    }
    release_dead(instruction, frame);
    observer.end(instruction, next != current + 1);
  }
}

}  // namespace

void execute(const Program& program, Frame& frame) {
  if (frame.counted || frame.labelled) {
    Observer observer(program, frame.counted, frame.labelled);
    execute_observed(program, frame, observer);
  } else {
    Unobserved observer;
    execute_observed(program, frame, observer);
  }
}

}  // namespace dy2st
