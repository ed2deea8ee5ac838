// Backward passes of what a program has computed, in the thread that runs it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace dy2st {

// Adds the gradients of a tensor to its leaves, as autograd's engine does: the same nodes, in the same order, give the same bits. Without
// the threads, the queue and the state that the engine has for devices, hooks and passes inside of passes, for which there is no need.
//
// False, with nothing done: the graph has something of that kind, or a node that is older than the run, or leads to one of ``untouched``
// that has no gradient; then it is the engine's.
bool run_backward(const at::Tensor& root, const at::Tensor& gradient, bool keeps_graph, uint64_t first_node,
                  const std::vector<at::Tensor>& untouched);

}  // namespace dy2st
