// Calls below autograd, where nothing records gradients: the dispatcher's keys of autograd are excluded while a program runs.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace dy2st {

class SkipAutograd {
 public:
  explicit SkipAutograd(bool active) : active_(active) {
    if (active_) enter();
  }
  ~SkipAutograd() { leave(); }
  SkipAutograd(const SkipAutograd&) = delete;
  SkipAutograd& operator=(const SkipAutograd&) = delete;

  // Operations that make views or change tensors keep what counts versions and remembers bases.
  void allow_views(bool views) {
    if (active_ && views != views_) {
      c10::impl::raw_local_dispatch_key_set.excluded_ = views ? with_views_ : without_views_;
      views_ = views;
    }
  }
  // While Python code runs, the keys are as the caller has them.
  void leave() {
    if (active_) c10::impl::raw_local_dispatch_key_set.excluded_ = before_;
  }
  void enter() {
    if (!active_) return;
    auto& local = c10::impl::raw_local_dispatch_key_set;
    before_ = local.excluded_;
    const c10::DispatchKeySet excluded = local.excluded();
    local.set_excluded(excluded | c10::autograd_dispatch_keyset);
    with_views_ = local.excluded_;
    local.set_excluded(excluded | c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    without_views_ = local.excluded_;
    views_ = false;
  }

 private:
  bool active_;
  bool views_ = false;
  uint64_t before_ = 0;
  uint64_t with_views_ = 0;
  uint64_t without_views_ = 0;
};

}  // namespace dy2st
