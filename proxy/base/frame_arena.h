// Recycles the memory of coroutine frames of one thread, so that a request allocates nothing once
// its thread is warm (performance.md F6).
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace recourse {

// One thread at a time; outlives every frame that came from it.
class FrameArena {
 public:
  FrameArena() = default;
  FrameArena(const FrameArena&) = delete;
  FrameArena& operator=(const FrameArena&) = delete;
  ~FrameArena() {
    for (Node*& list : free_) {
      while (list != nullptr) ::operator delete(std::exchange(list, list->next));
    }
  }

  // A frame of `size` bytes from `arena`, or from the heap when it is null.
  static void* New(std::size_t size, FrameArena* arena) {
    const std::size_t total = size + sizeof(Header);
    void* const memory = arena != nullptr ? arena->Take(total) : ::operator new(total);
    return new (memory) Header{arena} + 1;
  }
  static void Delete(void* frame, std::size_t size) {
    Header* const header = static_cast<Header*>(frame) - 1;
    FrameArena* const arena = header->arena;
    if (arena != nullptr) {
      arena->Give(header, size + sizeof(Header));
    } else {
      ::operator delete(header);
    }
  }

 private:
  // Recycled memory would hide a use after free from AddressSanitizer.
  static constexpr bool kRecycles = !__has_feature(address_sanitizer);
  static constexpr std::size_t kStep = 128;
  static constexpr std::size_t kClasses = 32;  // frames up to 4 KiB; larger ones use the heap
  static constexpr std::size_t kKeptPerClass = 1'024;
  struct alignas(std::max_align_t) Header {
    FrameArena* arena;
  };
  struct Node {
    Node* next;
  };

  void* Take(std::size_t total) {
    const std::size_t index = total / kStep;
    if (!kRecycles || index >= kClasses) return ::operator new(total);
    Node* const node = free_[index];
    if (node == nullptr) return ::operator new((index + 1) * kStep);
    free_[index] = node->next;
    --kept_[index];
    return node;
  }
  void Give(void* memory, std::size_t total) {
    const std::size_t index = total / kStep;
    if (!kRecycles || index >= kClasses || kept_[index] == kKeptPerClass) {
      ::operator delete(memory);
      return;
    }
    free_[index] = new (memory) Node{free_[index]};
    ++kept_[index];
  }

  std::array<Node*, kClasses> free_{};
  std::array<std::size_t, kClasses> kept_{};
};

}  // namespace recourse
