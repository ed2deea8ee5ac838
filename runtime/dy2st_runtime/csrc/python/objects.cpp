#include <Python.h>

#include "objects.h"

#include "../python_bridge.h"
#include "cells.h"
#include "classes.h"

namespace dy2st {
namespace {

// The results of an instruction, one after the other: in registers of their own, or in a list.
class Results {
 public:
  Results(const Instruction& instruction, Frame& frame) : instruction_(instruction), frame_(frame) {}

  template <class Make>
  void add(Make make) {
    if (!instruction_.spread) {
      values_.push_back(make());
    } else if (const int32_t output = instruction_.outputs[next_++]; output >= 0) {
      frame_[output] = make();
    }
  }
  bool end() {
    if (!instruction_.spread) frame_[instruction_.outputs[0]] = Value::list(std::move(values_));
    return true;
  }

 private:
  const Instruction& instruction_;
  Frame& frame_;
  size_t next_ = 0;
  std::vector<Value> values_;
};

bool give_nones(Results& results, size_t count) {
  for (size_t index = 0; index < count; ++index) results.add([] { return Value::none(); });
  return results.end();
}

// What is in an object, or under a key, goes into a cell if it is in none; a new reference to the cell.
template <class Set>
Owned closed(PyObject* object, PyObject* part, Set set) {
  Owned made = cell_with(part);
  note_closed(object, made.get());
  set(made.get());
  return made;
}

// Its kind: the class, the names of the attributes, and for each of them what describes the slot that it has, or None.
bool give_attributes(PyObject* object, PyObject* kind, bool in_cells, Results& results) {
  enum { kClass, kNames, kSlots };
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != PyTuple_GET_ITEM(kind, kClass)) return false;
  PyObject *names = PyTuple_GET_ITEM(kind, kNames), *slots = PyTuple_GET_ITEM(kind, kSlots);
  Owned table;
  if (Py_TYPE(object)->tp_dictoffset != 0) table = table_of(object);
  std::vector<Owned> found;
  found.reserve(static_cast<size_t>(PyTuple_GET_SIZE(names)));
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(names); ++index) {
    found.push_back(attribute_of(object, table.get(), PyTuple_GET_ITEM(names, index), PyTuple_GET_ITEM(slots, index)));
    if (found.back().get() == nullptr) return false;  // Python says what is wrong
  }
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(names); ++index) {
    results.add([&] {
      Owned& part = found[static_cast<size_t>(index)];
      if (in_cells && is_collecting() && !is_cell(part.get())) {
        part = closed(object, part.get(), [&](PyObject* cell) {
          set_attribute(object, table.get(), PyTuple_GET_ITEM(names, index), PyTuple_GET_ITEM(slots, index), cell);
        });
      }
      return from_python(part.get());
    });
  }
  return results.end();
}

bool give_items_of_dict(PyObject* table, bool in_cells, Results& results) {
  PyObject *key = nullptr, *part = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(table, &position, &key, &part)) {
    results.add([&] {
      if (!in_cells || !is_collecting() || is_cell(part)) return from_python(part);
      const Owned before(Py_NewRef(part)), name(Py_NewRef(key));
      const Owned cell = closed(table, part, [&](PyObject* given) {
        if (PyDict_SetItem(table, name.get(), given) != 0) throw_python_error();
      });
      return from_python(cell.get());
    });
  }
  return results.end();
}

bool give_items(PyObject* object, size_t count, bool in_cells, Results& results) {
  const Py_ssize_t size = PyTuple_Check(object)       ? PyTuple_GET_SIZE(object)
                          : PyList_CheckExact(object) ? PyList_GET_SIZE(object)
                          : PyDict_CheckExact(object) ? PyDict_GET_SIZE(object)
                                                      : -1;
  if (size < 0) return false;
  if (static_cast<size_t>(size) != count) return give_nones(results, count);
  if (PyDict_CheckExact(object)) return give_items_of_dict(object, in_cells, results);
  for (Py_ssize_t index = 0; index < size; ++index) {
    PyObject* part = PyTuple_Check(object) ? PyTuple_GET_ITEM(object, index) : PyList_GET_ITEM(object, index);
    results.add([part] { return from_python(part); });
  }
  return results.end();
}

// Inputs: the container, how many parts it has or of what kind it is, and whether the parts are taken in cells.
bool parts(const Instruction& instruction, Frame& frame) {
  const Value &value = frame[instruction.inputs[0]], &kind = frame[instruction.inputs[1]];
  Results results(instruction, frame);
  if (value.is(Kind::Object)) {
    hold_python(frame);
    const Value held = value;  // its register may get a part
    if (is_cell(held.object())) {
      results.add([&] { return from_python(items_of(held.object())); });
      return results.end();
    }
    const bool in_cells = frame[instruction.inputs[2]].as_bool();
    if (kind.is(Kind::Object)) return give_attributes(held.object(), kind.object(), in_cells, results);
    return give_items(held.object(), static_cast<size_t>(kind.as_int()), in_cells, results);
  }
  if (value.is(Kind::None)) {
    return give_nones(results, static_cast<size_t>(kind.is(Kind::Int) ? kind.as_int() : PyTuple_GET_SIZE(PyTuple_GET_ITEM(kind.object(), 1))));
  }
  if (!kind.is(Kind::Int) || !is_native_sequence(value)) return false;
  const size_t count = static_cast<size_t>(kind.as_int());
  const Value held = value;
  const auto& items = held.items().values;
  if (items.size() != count) return give_nones(results, count);
  for (const Value& item : items) results.add([&] { return item; });
  return results.end();
}

// Input: the list that is in the cell.
bool make_cell(const Instruction& instruction, Frame& frame) {
  hold_python(frame);
  Owned items(to_python(frame[instruction.inputs[0]]));
  frame[instruction.outputs[0]] = Value::stealing(new_cell(items.get()).release());
  return true;
}

// Keeps what it reads until somebody may ask what has been kept.
bool keep(const Instruction& instruction, Frame& frame) {
  std::vector<Value> values;
  values.swap(frame.kept);
  values.clear();
  for (int32_t source : instruction.reads) values.push_back(frame[source]);
  frame.kept.swap(values);
  frame.keeper = &instruction;
  frame[instruction.outputs[0]] = Value::none();
  return true;
}

}  // namespace

Handler object_handler(const std::string& name) {
  if (name == "item_parts") return parts;
  if (name == "cell") return make_cell;
  return name == "keep" ? keep : nullptr;
}

}  // namespace dy2st
