// What is kept of runs while someone observes: how often and how long each instruction ran, and ranges for torch.profiler.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <chrono>
#include <optional>

#include "program.h"

namespace dy2st {

// Whether runs that begin now are counted.
inline std::atomic<bool> counting{false};

inline int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Observes one run, and adds what it saw to the program at its end.
class Observer {
 public:
  Observer(const Program& program, bool counts, bool ranges) : program_(program), ranges_(ranges) {
    if (counts) seen_.resize(program.instructions.size());
  }
  ~Observer() {
    range_.reset();
    if (seen_.empty()) return;
    const std::lock_guard<std::mutex> guard(program_.lock);
    if (program_.seen.empty()) program_.seen.resize(seen_.size());
    for (size_t index = 0; index < seen_.size(); ++index) program_.seen[index].add(seen_[index]);
    for (const Event& event : events_) {
      if (program_.events.size() >= kMostEvents) break;
      program_.events.push_back(event);
    }
  }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  void begin(const Instruction& instruction) {
    if (ranges_ && instruction.label != label_) {
      range_.reset();
      label_ = instruction.label;
      if (!label_.empty()) {
        range_.emplace(at::RecordScope::USER_SCOPE);
        if (range_->isActive()) range_->before(label_);
      }
    }
    if (!seen_.empty()) start_ = nanoseconds();
  }
  void end(const Instruction& instruction, bool skipped) {
    if (seen_.empty()) return;
    const int64_t took = nanoseconds() - start_;
    const auto index = static_cast<size_t>(&instruction - program_.instructions.data());
    seen_[index].add({1, skipped ? 1 : 0, took});
    if (events_.size() < kMostEvents && instruction.opcode == Opcode::Do) {
      events_.push_back({static_cast<int32_t>(index), start_, took, thread_});
    }
  }

 private:
  static constexpr size_t kMostEvents = 1'000'000;
  static int64_t next_thread() {
    static std::atomic<int64_t> threads{0};
    return ++threads;
  }

  const Program& program_;
  bool ranges_;
  std::vector<Seen> seen_;
  std::vector<Event> events_;
  std::string label_;
  std::optional<at::RecordFunction> range_;
  int64_t start_ = 0;
  inline static thread_local const int64_t thread_ = next_thread();
};

}  // namespace dy2st
