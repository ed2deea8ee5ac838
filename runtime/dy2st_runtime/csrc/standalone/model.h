// A saved model in a process without Python.
//
//   dy2st::Model model("model.dy2st");
//   std::vector<dy2st::Model::Output> outputs = model.run({torch::randn({3, 8})});
//
// A model runs one call at a time; load it again, or lock, for more. Gradients are not recorded.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../program.h"
#include "files/json.h"
#include "files/state.h"

namespace dy2st {

class Model {
 public:
  struct Input {
    std::string name;
    std::string number;  // "int", "float" or "bool"; empty for a tensor
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> shape;  // -1 for a size that may differ
  };
  struct Output {
    std::string name;  // the way to it in the result: "0", "0.steps", "" for the result itself
    Value value;
  };

  // Reads an archive and prepares a method of it. Throws Error: the file is damaged, or something in it needs Python.
  explicit Model(const std::string& path, const std::string& method = "forward", bool training = false);
  ~Model();
  const std::vector<Input>& inputs() const { return inputs_; }
  // Throws Error: the inputs do not fit, or what the model raises.
  std::vector<Output> run(const std::vector<Value>& inputs);
  std::vector<Output> run(const std::vector<at::Tensor>& inputs);

 private:
  struct Effect {
    std::string target;
    const Json* value;
  };
  void check(const std::vector<Value>& inputs) const;

  Json document_;
  const Json* described_ = nullptr;
  std::unique_ptr<State> state_;
  std::unique_ptr<Program> program_;
  std::vector<std::string> places_;
  std::vector<Input> inputs_;
  std::vector<std::string> shapes_;  // names of the sizes that may differ, one for each such size of an input, in order
  std::vector<std::string> states_;
  std::vector<Effect> effects_;
};

}  // namespace dy2st
