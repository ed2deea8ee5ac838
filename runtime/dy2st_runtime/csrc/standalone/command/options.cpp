#include "options.h"

#include <charconv>
#include <map>

#include "../files/json.h"

namespace dy2st {

const char kUsage[] =
    "usage: dy2st-run MODEL [--input VALUE]... [--output FOLDER] [--method NAME] [--mode eval|train] [--threads N] [--seed N] [--show]\n"
    "       dy2st-run --train MODEL --method NAME --input VALUE... [--out FILE] [--batch-size N] [--epochs N] [--steps N] [--shuffle]\n"
    "\n"
    "Runs a model that dy2st.save wrote, or trains it.\n"
    "  --input VALUE    a .npy file, or a number where the model takes one; in order, or NAME=VALUE\n"
    "  --output FOLDER  write each tensor of the result to FOLDER/NAME.npy; else the result is printed\n"
    "  --method NAME    the method to call (forward)\n"
    "  --mode MODE      train: the program that was saved for training; eval: the other one (eval; train with --train)\n"
    "  --threads N      threads of PyTorch\n"
    "  --seed N         of random numbers, and of --shuffle\n"
    "  --show           print the inputs that the model takes, and stop\n"
    "\n"
    "  --train          call a method that is a training step for batches of the inputs, and write the model back\n"
    "  --out FILE       write it to another file\n"
    "  --batch-size N   rows of each batch (the size that the model takes, or else all rows)\n"
    "  --drop-last      leave out the last batch of an epoch where it is smaller\n"
    "  --constant VALUE an input that is the same at each step, as for --input\n"
    "  --epochs N       how often all rows are used (1)\n"
    "  --steps N        stop after so many steps\n"
    "  --shuffle        take the rows of each epoch in another order\n"
    "  --save-every N   write the model after each N steps, too\n"
    "  --log-every N    print the result of each N-th step (1; 0 for none)\n";

int64_t whole_number(const std::string& text, const std::string& what) {
  int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) throw Error(what + " takes a whole number, not " + text);
  return number;
}

namespace {

// Options that take a number, with the least that they take.
struct Number {
  int64_t Options::*option;
  int64_t least;
};

const std::map<std::string, Number> numbers = {
    {"--seed", {&Options::seed, 0}},         {"--batch-size", {&Options::batch_size, 1}}, {"--epochs", {&Options::epochs, 1}},
    {"--steps", {&Options::steps, 1}},       {"--save-every", {&Options::save_every, 1}}, {"--log-every", {&Options::log_every, 0}}};
const std::map<std::string, std::string Options::*> texts = {
    {"--output", &Options::output}, {"--method", &Options::method}, {"--out", &Options::out}};
const std::map<std::string, std::vector<std::string> Options::*> lists = {
    {"--input", &Options::inputs}, {"--constant", &Options::constants}};
const std::map<std::string, bool Options::*> flags = {
    {"--train", &Options::trains}, {"--show", &Options::show},       {"--help", &Options::help}, {"-h", &Options::help},
    {"--shuffle", &Options::shuffle}, {"--drop-last", &Options::drop_last}};

void check(const Options& options, const std::vector<std::string>& given) {
  if (options.help) return;
  if (options.model.empty()) throw Error(std::string("a model is needed\n") + kUsage);
  static const std::vector<std::string> of_training = {"--out", "--batch-size", "--drop-last", "--constant", "--epochs",
                                                       "--steps", "--shuffle", "--save-every", "--log-every"};
  for (const std::string& word : given) {
    for (const std::string& one : of_training) {
      if (word == one && !options.trains) throw Error(word + " is for training: add --train");
    }
    if (word == "--output" && options.trains) throw Error("--output is for results; with --train, the model is written to --out, or back");
  }
}

}  // namespace

Options parse_options(int count, char** words) {
  Options options;
  std::string mode;
  std::vector<std::string> given;
  for (int index = 1; index < count; ++index) {
    const std::string word = words[index];
    const auto next = [&]() -> std::string {
      if (index + 1 >= count) throw Error(word + " takes a value");
      return words[++index];
    };
    given.push_back(word);
    if (const auto number = numbers.find(word); number != numbers.end()) {
      const int64_t value = whole_number(next(), word);
      if (value < number->second.least) throw Error(word + " takes a number from " + std::to_string(number->second.least) + " on");
      options.*number->second.option = value;
    } else if (const auto text = texts.find(word); text != texts.end()) {
      options.*text->second = next();
    } else if (const auto list = lists.find(word); list != lists.end()) {
      (options.*list->second).push_back(next());
    } else if (const auto flag = flags.find(word); flag != flags.end()) {
      options.*flag->second = true;
    } else if (word == "--threads") {
      options.threads = static_cast<int>(whole_number(next(), word));
    } else if (word == "--mode") {
      mode = next();
      if (mode != "train" && mode != "eval") throw Error("--mode takes train or eval, not " + mode);
    } else if (word.rfind("--", 0) == 0 || !options.model.empty()) {
      throw Error("there is no option " + word + "\n" + kUsage);
    } else {
      options.model = word;
    }
  }
  options.train_mode = mode.empty() ? options.trains : mode == "train";
  check(options, given);
  return options;
}

}  // namespace dy2st
