// dy2st-run: runs a saved model without Python.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Formatting.h>

#include <charconv>
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "model.h"
#include "files/npy.h"
#include "text.h"

namespace {

using dy2st::Error;
using dy2st::Kind;
using dy2st::Model;
using dy2st::Value;

constexpr char kUsage[] =
    "usage: dy2st-run MODEL [--input VALUE]... [--output FOLDER] [--method NAME] [--train] [--threads N] [--seed N] [--show]\n"
    "\n"
    "Runs a model that dy2st.save wrote.\n"
    "  --input VALUE    a .npy file, or a number where the model takes one; in order, or NAME=VALUE\n"
    "  --output FOLDER  write each tensor of the result to FOLDER/NAME.npy; else the result is printed\n"
    "  --method NAME    the method to call (forward)\n"
    "  --train          the program that was saved for training\n"
    "  --threads N      threads of PyTorch\n"
    "  --seed N         of random numbers\n"
    "  --show           print the inputs that the model takes, and stop\n";

struct Options {
  std::string model, output, method = "forward";
  std::vector<std::string> inputs;
  int threads = 0;
  int64_t seed = -1;
  bool training = false, show = false;
};

int64_t whole(const std::string& text, const std::string& what) {
  int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ptr != text.data() + text.size()) throw Error(what + " takes a whole number, not " + text);
  return number;
}

Options parse(int count, char** words) {
  Options options;
  for (int index = 1; index < count; ++index) {
    const std::string word = words[index];
    const auto next = [&]() -> std::string {
      if (index + 1 >= count) throw Error(word + " takes a value");
      return words[++index];
    };
    if (word == "--input") {
      options.inputs.push_back(next());
    } else if (word == "--output") {
      options.output = next();
    } else if (word == "--method") {
      options.method = next();
    } else if (word == "--threads") {
      options.threads = static_cast<int>(whole(next(), word));
    } else if (word == "--seed") {
      options.seed = whole(next(), word);
    } else if (word == "--train") {
      options.training = true;
    } else if (word == "--show") {
      options.show = true;
    } else if (word.rfind("--", 0) == 0 || !options.model.empty()) {
      throw Error("there is no option " + word + "\n" + kUsage);
    } else {
      options.model = word;
    }
  }
  if (options.model.empty()) throw Error(std::string("a model is needed\n") + kUsage);
  return options;
}

Value value_of(const std::string& text, const Model::Input& input) {
  if (input.number.empty()) return Value::of(dy2st::read_npy(text));
  if (input.number == "int") return Value::of(whole(text, input.name));
  if (input.number == "bool") return Value::of(text == "True" || text == "true" || text == "1");
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ptr != text.data() + text.size()) throw Error(input.name + " takes a number, not " + text);
  return Value::of(number);
}

std::vector<Value> inputs_of(const Options& options, const Model& model) {
  const auto& wanted = model.inputs();
  std::vector<Value> values(wanted.size());
  std::vector<bool> given(wanted.size());
  size_t next = 0;
  for (const std::string& text : options.inputs) {
    size_t index = next;
    std::string value = text;
    for (size_t named = 0; named < wanted.size(); ++named) {
      if (text.rfind(wanted[named].name + "=", 0) != 0) continue;
      index = named;
      value = text.substr(wanted[named].name.size() + 1);
    }
    if (index >= wanted.size() || given[index]) throw Error("there is no input for " + text);
    values[index] = value_of(value, wanted[index]);
    given[index] = true;
    while (next < wanted.size() && given[next]) ++next;
  }
  for (size_t index = 0; index < wanted.size(); ++index) {
    if (!given[index]) throw Error("input " + wanted[index].name + " is missing");
  }
  return values;
}

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
    if (count > 1 && (std::string(words[1]) == "--help" || std::string(words[1]) == "-h")) {
      std::cout << kUsage;
      return 0;
    }
    const Options options = parse(count, words);
    if (options.threads > 0) at::set_num_threads(options.threads);
    if (options.seed >= 0) at::manual_seed(static_cast<uint64_t>(options.seed));
    Model model(options.model, options.method, options.training);
    if (options.show) {
      show(model);
      return 0;
    }
    if (!options.output.empty()) {
      std::error_code ignored;  // what cannot be written says so
      std::filesystem::create_directories(options.output, ignored);
    }
    for (const auto& output : model.run(inputs_of(options, model))) print(output.name, output.value, options.output);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "dy2st-run: " << error.what() << "\n";
    return 1;
  }
}
