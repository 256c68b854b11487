// Recycles the memory of coroutine frames of one thread, so that a request allocates nothing for
// them once its thread is warm.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

#include "proxy/base/check.h"

namespace recourse {

// While one lives on a thread, what frames leave there is kept in it and taken for the next ones.
// Frames are blocks of the heap wherever they begin, so one may end on another thread, or after its
// thread's arena.
class FrameArena {
 public:
  FrameArena() {
    RC_CHECK(of_thread_ == nullptr);
    of_thread_ = this;
  }
  FrameArena(const FrameArena&) = delete;
  FrameArena& operator=(const FrameArena&) = delete;
  ~FrameArena() {
    of_thread_ = nullptr;
    for (Node*& list : free_) {
      while (list != nullptr) ::operator delete(std::exchange(list, list->next));
    }
  }

  static void* New(std::size_t size) {
    const std::size_t steps = StepsOf(size);
    FrameArena* const arena = of_thread_;
    if (arena != nullptr && steps < kClasses && arena->free_[steps] != nullptr) {
      --arena->kept_[steps];
      return std::exchange(arena->free_[steps], arena->free_[steps]->next);
    }
    return ::operator new(steps * kStep);
  }
  static void Delete(void* frame, std::size_t size) {
    const std::size_t steps = StepsOf(size);
    FrameArena* const arena = of_thread_;
    if (!kRecycles || arena == nullptr || steps >= kClasses ||
        arena->kept_[steps] == KeptMax(steps)) {
      ::operator delete(frame);
      return;
    }
    arena->free_[steps] = new (frame) Node{arena->free_[steps]};
    ++arena->kept_[steps];
  }

  // Blocks for frames of that size that are kept.
  std::size_t kept(std::size_t size) const { return kept_[StepsOf(size)]; }

  // Recycled memory would hide a use after free from AddressSanitizer.
  static constexpr bool kRecycles = !__has_feature(address_sanitizer);

 private:
  static constexpr std::size_t kStep = 128;
  static constexpr std::size_t kClasses = 160;  // frames below 20 KiB; larger ones use the heap
  struct Node {
    Node* next;
  };

  static std::size_t StepsOf(std::size_t size) { return (size + kStep - 1) / kStep; }
  // Large ones are those of writes, of which fewer run at once.
  static constexpr std::size_t KeptMax(std::size_t steps) {
    return steps * kStep <= 4 * 1024 ? 1'024 : 64;
  }

  static constinit thread_local FrameArena* of_thread_;

  std::array<Node*, kClasses> free_{};
  std::array<std::size_t, kClasses> kept_{};
};

inline constinit thread_local FrameArena* FrameArena::of_thread_ = nullptr;

}  // namespace recourse
