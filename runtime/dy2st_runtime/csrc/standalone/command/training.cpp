#include "training.h"

#include <ATen/Context.h>
#include <c10/core/GeneratorImpl.h>

#include <charconv>
#include <csignal>
#include <iostream>

#include "../model.h"
#include "../text.h"
#include "../writing/container.h"
#include "inputs.h"

namespace dy2st {
namespace {

volatile std::sig_atomic_t stopped_by = 0;

// The first signal ends the training after the step that runs, the second at once.
void note_signal(int signal) {
  stopped_by = signal;
  std::signal(signal, SIG_DFL);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The shortest digits that give a float back.
std::string float_text(float number) {
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

// Nothing for what is no single number.
std::string number_in(const Value& value) {
  if (value.is(Kind::Bool)) return value.as_bool() ? "True" : "False";
  if (value.is(Kind::Int)) return std::to_string(value.as_int());
  if (value.is(Kind::Float)) return number_text(value.as_float());
  if (!value.is(Kind::Tensor) || value.tensor().numel() != 1 || value.tensor().is_complex()) return "";
  const at::Scalar item = value.tensor().item();
  if (item.isBoolean()) return item.toBool() ? "True" : "False";
  if (item.isIntegral(false)) return std::to_string(item.toLong());
  return value.tensor().scalar_type() == at::kDouble ? number_text(item.toDouble()) : float_text(item.toFloat());
}

void print_step(int64_t step, const std::vector<Model::Output>& outputs) {
  std::cout << "step " << step;
  for (const auto& output : outputs) {
    const std::string number = number_in(output.value);
    if (!number.empty()) std::cout << " " << (output.name.empty() ? "result" : output.name) << "=" << number;
  }
  std::cout << std::endl;
}

void check_trains(const Model& model, const Options& options) {
  if (model.trains()) return;
  const auto steps = model.training_steps();
  throw Error(options.method + " of " + options.model + " is no training step: it has no backward pass. " +
              (steps.empty() ? "Save the model with a method that has one, see docs/training.md"
                             : "Its training steps: " + joined(steps) + "; choose one with --method"));
}

}  // namespace

int train(const Options& options) {
  const std::string target = options.out.empty() ? options.model : options.out;
  Model model(options.model, options.method, options.train_mode);
  check_trains(model, options);
  check_target(target);
  Batches batches(model.inputs(), options);
  const uint64_t seed = options.seed >= 0 ? static_cast<uint64_t>(options.seed) : c10::detail::getNonDeterministicRandom() >> 1;
  if (options.shuffle && options.seed < 0) std::cout << "seed " << seed << std::endl;
  if (options.shuffle || options.seed >= 0) at::manual_seed(seed);
  std::signal(SIGINT, note_signal);
  std::signal(SIGTERM, note_signal);
  const int64_t epochs = options.epochs > 0 ? options.epochs : options.steps > 0 ? options.steps : 1;
  int64_t step = 0, saved = 0;
  const auto is_done = [&] { return stopped_by != 0 || (options.steps > 0 && step >= options.steps); };
  for (int64_t epoch = 0; epoch < epochs && !is_done(); ++epoch) {
    if (options.shuffle) batches.shuffle(seed + static_cast<uint64_t>(epoch));
    for (int64_t index = 0; index < batches.count() && !is_done(); ++index) {
      const auto outputs = model.run(batches[index]);
      ++step;
      if (options.log_every > 0 && step % options.log_every == 0) print_step(step, outputs);
      if (options.save_every > 0 && step % options.save_every == 0) {
        model.save(target);
        saved = step;
      }
    }
  }
  if (saved != step) model.save(target);
  std::cout << "wrote " << target << " after " << step << (step == 1 ? " step" : " steps") << std::endl;
  return stopped_by == 0 ? 0 : 128 + stopped_by;
}

}  // namespace dy2st
