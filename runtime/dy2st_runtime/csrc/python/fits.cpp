#include "fits.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../python_bridge.h"
#include "classes.h"

namespace dy2st {
namespace {

// A condition on one value. What it refers to, its description keeps.
class Condition {
 public:
  virtual ~Condition() = default;
  virtual bool holds(PyObject* value) const = 0;

  // In a cell, where another thread runs a program that changes it.
  bool holds_inside(PyObject* part) const { return holds(is_cell(part) ? inside_of(part) : part); }
};

using Conditions = std::vector<std::unique_ptr<Condition>>;

std::unique_ptr<Condition> made(PyObject* description);

Conditions all_made(PyObject* descriptions) {
  Conditions found;
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(descriptions); ++index) found.push_back(made(PyTuple_GET_ITEM(descriptions, index)));
  return found;
}

PyObject* part(PyObject* description, Py_ssize_t index) {
  PyObject* found = PyTuple_GetItem(description, index);
  if (found == nullptr) throw_python_error();
  return found;
}

bool says(PyObject* check, PyObject* value) {
  Owned answer(PyObject_CallOneArg(check, value));
  const int holds = PyObject_IsTrue(answer.get());
  if (holds < 0) throw_python_error();
  return holds == 1;
}

// ("python", a function)
class InPython : public Condition {
 public:
  explicit InPython(PyObject* description) : check_(part(description, 1)) {}
  bool holds(PyObject* value) const override { return says(check_, value); }

 private:
  PyObject* check_;
};

// ("class", classes)
class OfClass : public Condition {
 public:
  explicit OfClass(PyObject* description) : classes_(part(description, 1)) {}
  bool holds(PyObject* value) const override {
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(classes_); ++index) {
      if (reinterpret_cast<PyObject*>(Py_TYPE(value)) == PyTuple_GET_ITEM(classes_, index)) return true;
    }
    return false;
  }

 private:
  PyObject* classes_;
};

// ("same", a value, a function for other objects)
class Same : public Condition {
 public:
  explicit Same(PyObject* description) : known_(part(description, 1)), check_(part(description, 2)) {}
  bool holds(PyObject* value) const override { return value == known_ || (Py_IS_TYPE(value, Py_TYPE(known_)) && says(check_, value)); }

 private:
  PyObject *known_, *check_;
};

// ("any", conditions)
class Any : public Condition {
 public:
  explicit Any(PyObject* description) : options_(all_made(part(description, 1))) {}
  bool holds(PyObject* value) const override {
    for (const auto& option : options_) {
      if (option->holds(value)) return true;
    }
    return false;
  }

 private:
  Conditions options_;
};

// ("list", the condition on its items)
class OfList : public Condition {
 public:
  explicit OfList(PyObject* description) : item_(made(part(description, 1))) {}
  bool holds(PyObject* value) const override {
    if (!PyList_CheckExact(value)) return false;
    Deeper deeper;
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(value); ++index) {
      if (!item_->holds(PyList_GET_ITEM(value, index))) return false;
    }
    return true;
  }

 private:
  std::unique_ptr<Condition> item_;
};

// ("tuple", the class, conditions)
class OfTuple : public Condition {
 public:
  explicit OfTuple(PyObject* description) : kind_(part(description, 1)), items_(all_made(part(description, 2))) {}
  bool holds(PyObject* value) const override {
    if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != kind_ || static_cast<size_t>(PyTuple_GET_SIZE(value)) != items_.size()) return false;
    for (size_t index = 0; index < items_.size(); ++index) {
      if (!items_[index]->holds_inside(PyTuple_GET_ITEM(value, static_cast<Py_ssize_t>(index)))) return false;
    }
    return true;
  }

 private:
  PyObject* kind_;
  Conditions items_;
};

// ("dict", its keys, which are strings, conditions)
class OfDict : public Condition {
 public:
  explicit OfDict(PyObject* description) : keys_(part(description, 1)), items_(all_made(part(description, 2))) {}
  bool holds(PyObject* value) const override {
    if (!PyDict_CheckExact(value) || static_cast<size_t>(PyDict_GET_SIZE(value)) != items_.size()) return false;
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0, index = 0;
    while (PyDict_Next(value, &position, &key, &item)) {
      if (!is_key(key, PyTuple_GET_ITEM(keys_, index)) || !items_[static_cast<size_t>(index)]->holds_inside(item)) return false;
      ++index;
    }
    return true;
  }

 private:
  static bool is_key(PyObject* key, PyObject* expected) {
    return key == expected || (PyUnicode_CheckExact(key) && PyUnicode_Compare(key, expected) == 0);
  }

  PyObject* keys_;
  Conditions items_;
};

// ("object", the class, the names of its attributes, for each the slot that it has or None, conditions)
class OfObject : public Condition {
 public:
  explicit OfObject(PyObject* description)
      : kind_(part(description, 1)), names_(part(description, 2)), slots_(part(description, 3)), items_(all_made(part(description, 4))) {}

  bool holds(PyObject* value) const override {
    if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != kind_) return false;
    Deeper deeper;
    const ClassLayout& layout = layout_of(Py_TYPE(value));
    Owned table;
    if (layout.has_table) table = table_of(value);
    if (count(value, layout, table.get()) != items_.size()) return false;
    for (size_t index = 0; index < items_.size(); ++index) {
      const auto place = static_cast<Py_ssize_t>(index);
      Owned item = attribute_of(value, table.get(), PyTuple_GET_ITEM(names_, place), PyTuple_GET_ITEM(slots_, place));
      if (item.get() == nullptr || !items_[index]->holds_inside(item.get())) return false;
    }
    return true;
  }

 private:
  // How many attributes there are.
  size_t count(PyObject* value, const ClassLayout& layout, PyObject* table) const {
    size_t found = table == nullptr ? 0 : static_cast<size_t>(PyDict_GET_SIZE(table));
    for (const Slot& slot : layout.slots) {
      const bool is_hidden_by_table = table != nullptr && in_table(table, slot.name.get()) != nullptr;
      if (!is_hidden_by_table && in_slot(slot, value).get() != nullptr) ++found;
    }
    if (found == items_.size() || table == nullptr) return found;
    PyObject *name = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(table, &position, &name, &item)) found -= is_hidden(name) ? 1 : 0;
    return found;
  }

  PyObject *kind_, *names_, *slots_;
  Conditions items_;
};

// ("tensor", dtype, device, sizes with None for any, strides or None, whether it requires a gradient or None for either, a function for
// tensors whose sizes are symbols)
class OfTensor : public Condition {
 public:
  explicit OfTensor(PyObject* description) : check_(part(description, 6)) {
    dtype_ = reinterpret_cast<THPDtype*>(part(description, 1))->scalar_type;
    device_ = reinterpret_cast<THPDevice*>(part(description, 2))->device;
    read(part(description, 3), sizes_);
    has_strides_ = part(description, 4) != Py_None;
    if (has_strides_) read(part(description, 4), strides_);
    PyObject* gradient = part(description, 5);
    is_any_ = gradient == Py_None;
    requires_grad_ = gradient == Py_True;
  }

  bool holds(PyObject* value) const override {
    if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != THPVariableClass) return false;  // no parameter
    const at::Tensor& tensor = THPVariable_Unpack(value);
    if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return says(check_, value);
    if (tensor.scalar_type() != dtype_ || tensor.device() != device_ || tensor.layout() != at::kStrided || tensor.is_nested()) return false;
    const auto sizes = tensor.sizes();
    if (sizes.size() != sizes_.size()) return false;
    for (size_t dim = 0; dim < sizes_.size(); ++dim) {
      if (sizes_[dim] >= 0 && sizes[dim] != sizes_[dim]) return false;
    }
    if (has_strides_ && tensor.strides() != at::IntArrayRef(strides_)) return false;
    const bool own = tensor.requires_grad();
    return (is_any_ || own == requires_grad_) && !(own && is_leaf(tensor));
  }

 private:
  static void read(PyObject* numbers, std::vector<int64_t>& to) {
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(numbers); ++index) {
      PyObject* number = PyTuple_GET_ITEM(numbers, index);
      to.push_back(number == Py_None ? -1 : PyLong_AsLongLong(number));
      if (PyErr_Occurred() != nullptr) throw_python_error();
    }
  }
  // An item of unbind whose base has been changed in place raises when it is asked: it is none.
  static bool is_leaf(const at::Tensor& tensor) {
    try {
      return tensor.is_leaf();
    } catch (const c10::Error&) {
      return false;
    }
  }

  at::ScalarType dtype_;
  at::Device device_ = at::kCPU;
  std::vector<int64_t> sizes_, strides_;
  bool has_strides_ = false, is_any_ = false, requires_grad_ = false;
  PyObject* check_;
};

template <class Kind>
std::unique_ptr<Condition> make(PyObject* description) {
  return std::make_unique<Kind>(description);
}

std::unique_ptr<Condition> made(PyObject* description) {
  using Make = std::unique_ptr<Condition> (*)(PyObject*);
  static const std::unordered_map<std::string, Make> kinds = {
      {"python", make<InPython>}, {"class", make<OfClass>}, {"same", make<Same>},       {"any", make<Any>},       {"list", make<OfList>},
      {"tuple", make<OfTuple>},   {"dict", make<OfDict>},   {"object", make<OfObject>}, {"tensor", make<OfTensor>},
  };
  const char* kind = PyUnicode_AsUTF8(part(description, 0));
  if (kind == nullptr) throw_python_error();
  const auto found = kinds.find(kind);
  TORCH_CHECK(found != kinds.end(), "dy2st: there is no condition ", kind);
  return found->second(description);
}

struct Fits {
  PyObject_HEAD
  PyObject* description;
  Condition* condition;
};

PyObject* make_fits(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* description = nullptr;
  if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &description)) return nullptr;
  try {
    auto condition = made(description);
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) return nullptr;
    reinterpret_cast<Fits*>(self)->description = Py_NewRef(description);
    reinterpret_cast<Fits*>(self)->condition = condition.release();
    return self;
  } catch (...) {
    raise_in_python();
    return nullptr;
  }
}

int visit_fits(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<Fits*>(self)->description);
  return 0;
}

int clear_fits(PyObject* self) {
  delete std::exchange(reinterpret_cast<Fits*>(self)->condition, nullptr);
  Py_CLEAR(reinterpret_cast<Fits*>(self)->description);
  return 0;
}

void drop_fits(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear_fits(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* are_all(PyObject* self, PyObject* items) {
  const Condition* condition = reinterpret_cast<Fits*>(self)->condition;
  if (condition == nullptr || !PyList_Check(items)) Py_RETURN_FALSE;
  Owned kept(Py_NewRef(self));  // while Python is asked
  try {
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(items); ++index) {
      Owned item(Py_NewRef(PyList_GET_ITEM(items, index)));
      if (!condition->holds(item.get())) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
  } catch (...) {
    raise_in_python();
    return nullptr;
  }
}

PyMethodDef methods[] = {
    {"are_all", are_all, METH_O, "Whether all items of a list are as described."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make_fits)},       {Py_tp_dealloc, reinterpret_cast<void*>(drop_fits)},
    {Py_tp_methods, methods},                              {Py_tp_traverse, reinterpret_cast<void*>(visit_fits)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_fits)},    {0, nullptr},
};

PyType_Spec spec = {"dy2st_native.Fits", sizeof(Fits), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

PyObject* fits_type() { return PyType_FromSpec(&spec); }

}  // namespace dy2st
