// dy2st-run: runs and trains a saved model without Python.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Formatting.h>

#include <filesystem>
#include <iomanip>
#include <iostream>

#include "command/inputs.h"
#include "command/options.h"
#include "command/training.h"
#include "files/npy.h"
#include "model.h"
#include "text.h"

namespace {

using dy2st::Kind;
using dy2st::Model;
using dy2st::Options;
using dy2st::Value;

void show(const Model& model) {
  for (const auto& input : model.inputs()) {
    std::cout << input.name << ": ";
    if (input.number.empty()) {
      std::cout << c10::toString(input.dtype) << at::IntArrayRef(input.shape) << "\n";
    } else {
      std::cout << input.number << "\n";
    }
  }
}

void print(const std::string& name, const Value& value, const std::string& folder) {
  const std::string shown = name.empty() ? "result" : name;
  if (value.is(Kind::List) || value.is(Kind::Tuple)) {
    const auto& items = value.items().values;
    for (size_t index = 0; index < items.size(); ++index) print(shown + "." + std::to_string(index), items[index], folder);
    return;
  }
  if (value.is(Kind::Tensor) && !folder.empty()) {
    dy2st::write_npy(folder + "/" + shown + ".npy", value.tensor());
    return;
  }
  std::cout << shown << " = ";
  if (value.is(Kind::Tensor)) {
    at::print(std::cout, value.tensor(), 100);
  } else if (value.is(Kind::Bool)) {
    std::cout << (value.as_bool() ? "True" : "False");
  } else if (value.is(Kind::Int)) {
    std::cout << value.as_int();
  } else if (value.is(Kind::Float)) {
    std::cout << std::setprecision(17) << value.as_float();
  } else {
    std::cout << (value.is(Kind::Object) ? dy2st::text_of(value) : "None");
  }
  std::cout << "\n";
}

}  // namespace

int main(int count, char** words) {
  try {
    const Options options = dy2st::parse_options(count, words);
    if (options.help) {
      std::cout << dy2st::kUsage;
      return 0;
    }
    if (options.threads > 0) at::set_num_threads(options.threads);
    if (options.trains && !options.show) return dy2st::train(options);
    if (options.seed >= 0) at::manual_seed(static_cast<uint64_t>(options.seed));
    Model model(options.model, options.method, options.train_mode);
    if (options.show) {
      show(model);
      return 0;
    }
    if (!options.output.empty()) {
      std::error_code ignored;  // what cannot be written says so
      std::filesystem::create_directories(options.output, ignored);
    }
    const auto inputs = dy2st::read_inputs(model.inputs(), options.inputs);
    for (const auto& output : model.run(inputs)) print(output.name, output.value, options.output);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "dy2st-run: " << error.what() << "\n";
    return 1;
  }
}
