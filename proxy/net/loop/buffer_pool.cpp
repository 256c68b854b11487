#include "proxy/net/loop/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "proxy/base/limits.h"

namespace recourse {

BufferPool::~BufferPool() {
  for (char* buffer : free_) ::munmap(buffer, limits::kRelayBufferBytes);
}

char* BufferPool::Map() {
  void* const memory = ::mmap(nullptr, limits::kRelayBufferBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(memory);
}

// The oldest ones, which the next to come would be given last. Each takes a system call, which
// fails where the process has as many mappings as it may: a hole in the middle of one makes it two.
bool BufferPool::Trim() {
  const std::size_t count = low_.Look(free_.size(), kFloor, kTrimmedMax);
  const auto end = free_.begin() + static_cast<std::ptrdiff_t>(count);
  const auto is_gone = [](char* buffer) {
    return ::munmap(buffer, limits::kRelayBufferBytes) == 0;
  };
  free_.erase(std::remove_if(free_.begin(), end, is_gone), end);
  return free_.size() > kFloor;
}

}  // namespace recourse
