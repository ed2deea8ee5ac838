// References to objects of Python, and its errors as exceptions.
#pragma once

#include <Python.h>

#include <torch/csrc/Exceptions.h>

#include <utility>

namespace dy2st {

[[noreturn]] inline void throw_python_error() {
  python_error error;
  error.persist();
  throw error;
}

// Owns a reference.
class Owned {
 public:
  Owned() : object_(nullptr) {}
  explicit Owned(PyObject* object) : object_(object) {
    if (object_ == nullptr) throw_python_error();
  }
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_;
};

// While it lives, Python counts one more call that has not returned; throws where these are too many.
class Deeper {
 public:
  Deeper() {
    if (Py_EnterRecursiveCall(" in an object of a program") != 0) throw_python_error();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
};

}  // namespace dy2st
