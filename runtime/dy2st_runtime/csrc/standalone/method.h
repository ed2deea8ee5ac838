// One method of a saved model: its program, what it takes from the state and writes to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../program.h"
#include "files/json.h"
#include "files/state.h"

namespace dy2st {

class Method {
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

  // Throws Error: something in it needs Python, or the state lacks what it reads.
  Method(const Json& described, State& state);
  const std::vector<Input>& inputs() const { return inputs_; }
  bool trains() const { return trains_; }
  // Given whether tensors of the state may require gradients.
  std::vector<Output> run(const std::vector<Value>& inputs, State& state, bool gradients);

 private:
  struct Effect {
    std::string target;
    const Json* value;
  };
  void check(const std::vector<Value>& inputs) const;
  void read_inputs();
  void read_effects(State& state);
  void execute_in(Frame& frame, bool gradients) const;

  const Json& described_;
  bool trains_;
  std::unique_ptr<Program> program_;
  std::vector<std::string> places_;
  std::vector<Input> inputs_;
  std::vector<std::string> shapes_;  // names of the sizes that may differ, one for each such size of an input, in order
  std::vector<std::string> states_;
  std::vector<Effect> effects_;
};

// The program of a method for a mode. Throws Error: there is none.
const Json& program_of(const Json& document, const std::string& method, bool training);
// By name, the programs of all methods.
std::vector<std::pair<std::string, const std::vector<Json>*>> methods_of(const Json& document);

}  // namespace dy2st
