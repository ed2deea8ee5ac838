// The way between values and objects of Python. Everything here takes the GIL itself, unless it says that it needs it.
#pragma once

#include "program.h"

namespace dy2st {

class Gil {
 public:
  Gil();
  ~Gil();
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  int state_;
};

// Needs the GIL. The value of an object; throws the error of Python.
Value from_python(Object* object);
// Needs the GIL. A new reference; throws the error of Python.
Object* to_python(const Value& value);
// Needs the GIL. A constant argument of an operator; nothing if only Python can pass it.
std::optional<c10::IValue> constant_of(Object* object, const c10::TypePtr& type);

// Lets Python carry out an instruction.
void call_python(const Program& program, const Instruction& instruction, Frame& frame);
// The GIL is held from now on, until an operator comes or it is given back: what is done with objects one by one takes it once.
void hold_python(Frame& frame);
void release_python(Frame& frame);
// The function of Python of the instruction that has kept something last is called with it, now that it may be looked at.
void tell_kept(const Program& program, Frame& frame);

// The list of Python that a value is, or nullptr: what is done with its items takes the GIL by itself. False: Python has to do it.
Object* list_in_python(const Value& value);
bool get_in_python(Frame& frame, Object* sequence, const Value& index, Value& to);  // a tuple has items, too
bool set_in_python(Frame& frame, Object* list, const Value& index, const Value& item);
bool append_in_python(Frame& frame, Object* list, const Value& item);
bool length_in_python(Frame& frame, Object* list, Value& to);
// The object that the instruction's Python function gives is kept among the open autocast modes, or is no longer one.
void note_autocast(const Instruction& instruction, Frame& frame);
bool truth_in_python(const Value& value);
// Whether an operator of this name takes numbers for tensors.
bool takes_numbers(const std::string& name);
// Lets handlers of signals run; throws what they raise.
void check_signals();
// Needs the GIL. Makes the C++ exception that is being handled the error of Python.
void raise_in_python();

}  // namespace dy2st
