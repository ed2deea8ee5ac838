// The extension module: one type, whose objects run one program each.
#include <Python.h>

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "build.h"
#include "cells.h"
#include "classes.h"
#include "fits.h"
#include "holding.h"
#include "inputs.h"
#include "../listing.h"
#include "../observe.h"
#include "../python_bridge.h"

namespace dy2st {
namespace {

struct Machine {
  PyObject_HEAD
  Program* program;
};

thread_local Py_ssize_t failed = -1;

// Whether something else wants to see each call of an operator.
bool is_intercepted() {
  const auto included = c10::impl::tls_local_dispatch_key_set().included_;
  return at::impl::torch_function_mode_enabled() || c10::impl::dispatch_mode_enabled() ||
         !(included - c10::default_included_set).empty();
}

// A frame from the pool, given back empty.
class Borrowed {
 public:
  explicit Borrowed(Program& program) : program_(program) {
    const std::lock_guard<std::mutex> guard(program.lock);
    if (!program.frames.empty()) {
      frame_ = std::move(program.frames.back());
      program.frames.pop_back();
    }
  }
  ~Borrowed() {
    if (!frame_) return;
    for (size_t index = program_.constants.size(); index < frame_->registers.size(); ++index) frame_->registers[index].reset();
    frame_->stack.clear();
    frame_->moved.clear();
    frame_->autocasts.clear();
    frame_->keeper = nullptr;
    frame_->kept.clear();
    const std::lock_guard<std::mutex> guard(program_.lock);
    program_.frames.push_back(std::move(frame_));
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Frame& frame() {
    if (!frame_) frame_ = std::make_unique<Frame>(program_);
    return *frame_;
  }

 private:
  Program& program_;
  std::unique_ptr<Frame> frame_;
};

// What the program had opened is closed; the error of Python stays.
void leave_autocasts(const Program& program, Frame& frame) {
  if (frame.autocasts.empty()) return;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  while (!frame.autocasts.empty()) {
    PyObject* mode = frame.autocasts.back();
    frame.autocasts.pop_back();
    PyObject* left = PyObject_CallOneArg(program.leave_autocast, mode);
    if (left == nullptr) PyErr_WriteUnraisable(mode);
    Py_XDECREF(left);
    Py_DECREF(mode);
  }
  PyErr_Restore(type, value, traceback);
}

void execute_unlocked(const Program& program, Frame& frame) {
  frame.python = PyEval_SaveThread();
  frame.holds_python = false;
  try {
    execute(program, frame);
  } catch (...) {
    hold_python(frame);
    throw;
  }
  hold_python(frame);
}

// What was kept is told; the error of Python stays.
void tell_kept_of_failed(const Program& program, Frame& frame) {
  if (frame.keeper == nullptr) return;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  try {
    tell_kept(program, frame);
  } catch (...) {
    raise_in_python();
    PyErr_WriteUnraisable(nullptr);
  }
  PyErr_Restore(type, value, traceback);
}

PyObject* outputs_of(const Program& program, Frame& frame) {
  PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(program.outputs.size()));
  if (made == nullptr) throw python_error();
  try {
    for (size_t index = 0; index < program.outputs.size(); ++index) {
      PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(index), to_python(frame[program.outputs[index]]));
    }
  } catch (...) {
    Py_DECREF(made);
    throw;
  }
  return made;
}

PyObject* run(PyObject* self, PyObject* given) {
  Program& program = *reinterpret_cast<Machine*>(self)->program;
  failed = -1;
  if (is_intercepted()) Py_RETURN_NOTIMPLEMENTED;
  PyObject* values = PySequence_Fast(given, "the values of a program must be a sequence");
  if (values == nullptr) return nullptr;
  PyObject* result = nullptr;
  if (PySequence_Fast_GET_SIZE(values) != static_cast<Py_ssize_t>(program.inputs.size())) {
    PyErr_Format(PyExc_TypeError, "the program takes %zd values, not %zd", program.inputs.size(), PySequence_Fast_GET_SIZE(values));
  } else {
    Borrowed borrowed(program);
    Frame& frame = borrowed.frame();
    const bool grad_enabled = at::GradMode::is_enabled();
    try {
      if (!load_inputs(program, frame, PySequence_Fast_ITEMS(values))) {
        result = Py_NewRef(Py_NotImplemented);
      } else {
        execute_unlocked(program, frame);
        result = outputs_of(program, frame);
      }
    } catch (...) {
      raise_in_python();
      failed = static_cast<Py_ssize_t>(frame.at);
      at::GradMode::set_enabled(grad_enabled);
      tell_kept_of_failed(program, frame);
      leave_autocasts(program, frame);
    }
    for (PyObject* mode : frame.autocasts) Py_DECREF(mode);
  }
  Py_DECREF(values);
  return result;
}

PyObject* in_python(PyObject* self, PyObject*) {
  const Program& program = *reinterpret_cast<Machine*>(self)->program;
  PyObject* found = PyList_New(0);
  for (size_t index = 0; found != nullptr && index < program.instructions.size(); ++index) {
    const Instruction& instruction = program.instructions[index];
    if (instruction.opcode != Opcode::Do || instruction.handler != nullptr) continue;
    PyObject* number = PyLong_FromSize_t(index);
    if (number == nullptr || PyList_Append(found, number) != 0) Py_CLEAR(found);
    Py_XDECREF(number);
  }
  return found;
}

PyObject* list_instructions(PyObject* self, PyObject*) {
  const auto of_object = [](const Value& value) {
    PyObject* object = value.object();
    const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : nullptr;
    PyErr_Clear();
    return text != nullptr ? std::string("text ") + text : std::string("object of type ") + Py_TYPE(object)->tp_name;
  };
  const std::string text = listing(*reinterpret_cast<Machine*>(self)->program, of_object);
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

// A list of what a function makes of each item; the error of Python where it gives none.
template <class Items, class Make>
PyObject* list_of(const Items& items, Make make) {
  PyObject* made = PyList_New(0);
  for (const auto& item : items) {
    PyObject* part = made == nullptr ? nullptr : make(item);
    if (part == nullptr || PyList_Append(made, part) != 0) Py_CLEAR(made);
    Py_XDECREF(part);
  }
  return made;
}

PyObject* taken(PyObject* self, PyObject*) {
  const Program& program = *reinterpret_cast<Machine*>(self)->program;
  std::vector<Seen> seen;
  std::vector<Event> events;
  {
    const std::lock_guard<std::mutex> guard(program.lock);
    seen.swap(program.seen);
    events.swap(program.events);
  }
  PyObject* counts = list_of(seen, [](const Seen& item) {
    return Py_BuildValue("LLL", static_cast<long long>(item.runs), static_cast<long long>(item.skips), static_cast<long long>(item.nanoseconds));
  });
  PyObject* trace = list_of(events, [](const Event& item) {
    return Py_BuildValue("iLLL", item.instruction, static_cast<long long>(item.start), static_cast<long long>(item.nanoseconds), static_cast<long long>(item.thread));
  });
  if (counts == nullptr || trace == nullptr) {
    Py_XDECREF(counts);
    Py_XDECREF(trace);
    return nullptr;
  }
  return Py_BuildValue("NN", counts, trace);
}

PyObject* count_runs(PyObject*, PyObject* on) {
  counting = PyObject_IsTrue(on) == 1;
  Py_RETURN_NONE;
}

PyObject* make_machine(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* description = nullptr;
  if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &description)) return nullptr;
  try {
    auto program = build(description);
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) reinterpret_cast<Machine*>(self)->program = program.release();
    return self;
  } catch (...) {
    raise_in_python();
    return nullptr;
  }
}

// What a program holds may hold the program: a method that it calls, whose object has the static function.
int visit_machine(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const Program* program = reinterpret_cast<Machine*>(self)->program;
  if (program == nullptr) return 0;
  Py_VISIT(program->resolve);
  Py_VISIT(program->leave_autocast);
  for (const Instruction& instruction : program->instructions) Py_VISIT(instruction.function);
  for (const Value& constant : program->constants) {
    if (constant.is(Kind::Object)) Py_VISIT(constant.object());
  }
  for (const auto& frame : program->frames) {  // those in the pool; one that runs keeps the program alive
    for (size_t index = 0; index < program->constants.size(); ++index) {
      if (frame->registers[index].is(Kind::Object)) Py_VISIT(frame->registers[index].object());
    }
  }
  return 0;
}

int clear_machine(PyObject* self) {
  Program* program = reinterpret_cast<Machine*>(self)->program;
  if (program == nullptr) return 0;
  PyObject* resolve = std::exchange(program->resolve, Py_NewRef(Py_None));
  Py_XDECREF(resolve);
  for (const Instruction& instruction : program->instructions) Py_CLEAR(instruction.function);
  return 0;
}

void drop_machine(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  delete reinterpret_cast<Machine*>(self)->program;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* failed_at(PyObject*, PyObject*) { return PyLong_FromSsize_t(failed); }

PyMethodDef methods[] = {
    {"run", run, METH_O, "Run the program; NotImplemented where only Python can."},
    {"taken", taken, METH_NOARGS, "For each instruction how often it ran, jumped, and how long; then the events. Forgets them."},
    {"in_python", in_python, METH_NOARGS, "The instructions that Python carries out."},
    {"listing", list_instructions, METH_NOARGS, "The instructions as text."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make_machine)},
    {Py_tp_dealloc, reinterpret_cast<void*>(drop_machine)},
    {Py_tp_methods, methods},
    {Py_tp_traverse, reinterpret_cast<void*>(visit_machine)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_machine)},
    {0, nullptr},
};

PyType_Spec spec = {"dy2st_native.Machine", sizeof(Machine), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

// Carries out what throws the error of Python.
template <class Do>
PyObject* done(Do act) {
  try {
    act();
  } catch (...) {
    raise_in_python();
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* use(PyObject*, PyObject* args) {
  PyObject *cell = nullptr, *slots_of = nullptr, *without_cells = nullptr, *plain = nullptr;
  if (!PyArg_ParseTuple(args, "OOO!O!", &cell, &slots_of, &PyTuple_Type, &without_cells, &PyTuple_Type, &plain)) return nullptr;
  return done([&] { use_classes(cell, slots_of, without_cells, plain); });
}

PyObject* collect(PyObject*, PyObject* to) {
  const bool is_fit = to == Py_None || (PyTuple_Check(to) && PyTuple_GET_SIZE(to) == 2 && PyList_Check(PyTuple_GET_ITEM(to, 0)));
  return is_fit ? collect_closed(to) : PyErr_Format(PyExc_TypeError, "a list and a dict are expected, or None");
}

PyObject* close_one(PyObject*, PyObject* value) {
  return done([&] { close_cells(value); });
}

PyObject* open_all(PyObject*, PyObject* values) {
  if (!PyList_Check(values)) return PyErr_Format(PyExc_TypeError, "the values whose cells are opened must be in a list");
  return done([&] { open_cells(values); });
}

PyObject* holds(PyObject*, PyObject* args) {
  PyObject *items = nullptr, *values = nullptr, *is_plain = nullptr, *others = nullptr;
  if (!PyArg_ParseTuple(args, "OO!OO!", &items, &PyTuple_Type, &values, &is_plain, &PyTuple_Type, &others)) return nullptr;
  try {
    return PyBool_FromLong(holds_one_of(items, values, is_plain, others));
  } catch (...) {
    raise_in_python();
    return nullptr;
  }
}

PyMethodDef functions[] = {
    {"use", use, METH_VARARGS, "The class of cells, what gives the slots of a class, and the classes that have no cells, or nothing at all."},
    {"collect", collect, METH_O, "Where this thread notes the objects that get cells, and their owners; gives where it did so far."},
    {"close", close_one, METH_O, "Put what is in an object or dict in cells."},
    {"holds", holds, METH_VARARGS, "Whether one of some objects is in what a list holds."},
    {"open", open_all, METH_O, "Put what is in the cells of all objects in a list into their places."},
    {"count_runs", count_runs, METH_O, "Whether runs that begin from now on are counted."},
    {"failed_at", failed_at, METH_NOARGS, "The instruction at which the last run of this thread failed, or -1."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "dy2st_native", "Runs programs.", -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace dy2st

PyMODINIT_FUNC PyInit_dy2st_native() {
  PyObject* module = PyModule_Create(&dy2st::definition);
  if (module == nullptr) return nullptr;
  PyObject* type = PyType_FromSpec(&dy2st::spec);
  if (type == nullptr || PyModule_AddObject(module, "Machine", type) != 0) {
    Py_XDECREF(type);
    Py_DECREF(module);
    return nullptr;
  }
  PyObject* fits = dy2st::fits_type();
  if (fits == nullptr || PyModule_AddObject(module, "Fits", fits) != 0) {
    Py_XDECREF(fits);
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
