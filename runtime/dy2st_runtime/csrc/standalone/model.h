// A saved model in a process without Python.
//
//   dy2st::Model model("model.dy2st");
//   std::vector<dy2st::Model::Output> outputs = model.run({torch::randn({3, 8})});
//
//   dy2st::Model trainer("model.dy2st", "step");
//   for (...) trainer.run({images, labels});
//   trainer.save("model.dy2st");
//
// A model runs one call at a time; load it again, or lock, for more. A method that is a training step differentiates what it computes
// and changes weights and states of its optimizer; any other runs without gradients.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "files/archive.h"
#include "files/json.h"
#include "files/state.h"
#include "method.h"

namespace dy2st {

class Model {
 public:
  using Input = Method::Input;
  using Output = Method::Output;

  // Reads an archive and prepares a method of it. Throws Error: the file is damaged, or something in it needs Python.
  explicit Model(const std::string& path, const std::string& method = "forward", bool training = false);
  ~Model();
  // Prepares another method, which finds the state as it is now. Throws Error as the constructor does.
  void use(const std::string& method, bool training = false);
  const std::vector<Input>& inputs() const { return method_->inputs(); }
  // Whether the method is a training step.
  bool trains() const { return method_->trains(); }
  // The names of the methods that are training steps, and of all.
  std::vector<std::string> training_steps() const;
  std::vector<std::string> methods() const;
  // Throws Error: the inputs do not fit, or what the model raises. What a step has changed until then stays changed.
  std::vector<Output> run(const std::vector<Value>& inputs);
  std::vector<Output> run(const std::vector<at::Tensor>& inputs);
  // Writes the model with its state as it is now: an archive like the one that was loaded, for this class and for Python.
  // The file appears whole or not at all, and one of this name stays until then. Throws Error: it cannot be written.
  void save(const std::string& path);

 private:
  std::string path_;
  Archive archive_;
  Json document_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Method> method_;
  bool gradients_ = false;  // a training step was used: from then on tensors of the state say that they are trained
};

}  // namespace dy2st
