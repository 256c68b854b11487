#include "proxy/net/loop/heap_trim.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>

namespace recourse {

bool HeapTrim::Look(MonoTime now) {
  if (now < due_) return true;
  due_ = now + kPause;
  if (!rule_.IsWorthIt(Size())) return false;
  ::malloc_trim(0);
  rule_.Trimmed(Size());
  return false;
}

// Where the system does not tell, there is nothing to trim for.
HeapSize HeapTrim::Size() {
  char text[128] = {};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t size = ::read(file, text, sizeof text - 1);
  ::close(file);
  unsigned long all = 0, resident = 0, of_files = 0;
  if (size <= 0 || std::sscanf(text, "%lu %lu %lu", &all, &resident, &of_files) != 3) return {};
  return {.resident = (resident - of_files) * static_cast<std::size_t>(::getpagesize()),
          .free = ::mallinfo2().fordblks};
}

}  // namespace recourse
