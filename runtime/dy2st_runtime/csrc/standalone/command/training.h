// dy2st-run --train.
#pragma once

#include "options.h"

namespace dy2st {

// Trains the model and writes it; the exit status. Throws Error: nothing has been written, but by --save-every.
int train(const Options& options);

}  // namespace dy2st
