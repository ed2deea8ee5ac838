// The class Model as a program of a user's has it: one file, several methods, weights that they share.
#include <iostream>

#include "../../runtime/dy2st_runtime/csrc/standalone/files/npy.h"
#include "../../runtime/dy2st_runtime/csrc/standalone/model.h"

int main(int count, char** words) {
  if (count != 4) return 2;
  const std::string folder = words[1];
  const at::Tensor x = dy2st::read_npy(folder + "/x.npy"), y = dy2st::read_npy(folder + "/y.npy");
  dy2st::Model model(words[2]);
  const auto predict = [&] { dy2st::write_npy(folder + "/out.npy", model.run(std::vector<at::Tensor>{x}).at(0).value.tensor()); };
  std::cout << model.trains() << model.methods().size() << model.training_steps().size() << "\n";
  predict();
  model.use("step");
  for (int step = 0; step < 3; ++step) model.run(std::vector<at::Tensor>{x, y});
  model.use("forward");
  predict();
  try {
    model.use("fit");
  } catch (const dy2st::Error& error) {
    std::cout << error.what() << "\n";
  }
  model.use("step");
  model.run(std::vector<at::Tensor>{x, y});
  model.save(words[3]);
  return 0;
}
