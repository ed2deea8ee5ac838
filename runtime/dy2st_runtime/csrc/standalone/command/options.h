// The command line of dy2st-run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dy2st {

struct Options {
  std::string model, output, method = "forward", out;
  std::vector<std::string> inputs, constants;
  int threads = 0;
  int64_t seed = -1, batch_size = 0, epochs = 0, steps = 0, save_every = 0, log_every = 1;
  bool train_mode = false, trains = false, show = false, help = false, shuffle = false, drop_last = false;
};

extern const char kUsage[];

// Throws Error: there is no such option, or it does not fit the others.
Options parse_options(int count, char** words);

// A whole number; throws Error that says who takes it.
int64_t whole_number(const std::string& text, const std::string& what);

}  // namespace dy2st
