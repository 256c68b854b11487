// What an I/O thread does when the process may open no more files: it closes what is kept for later
// use, here or on another thread.
#pragma once

#include <functional>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"
#include "proxy/net/loop/deadline_wheel.h"

namespace recourse {

// Belongs to the thread of `executor` and `wheel`.
class FilePressure {
 public:
  FilePressure(Executor& executor, DeadlineWheel& wheel);
  FilePressure(const FilePressure&) = delete;
  FilePressure& operator=(const FilePressure&) = delete;

  // `free` closes what is kept for later use; false: there was nothing. It is called as long as
  // this lives, when the process may open no more files.
  void WhenShort(std::move_only_function<bool()> free) { free_ = std::move(free); }
  bool Free() { return free_ && free_(); }
  // Those of all threads, this one too. Before any of them starts.
  void HasPeers(std::vector<FilePressure*> all) { all_ = std::move(all); }
  // Where nothing is kept here, the others are asked as well. True as soon as something was closed,
  // which is not said any more after `limit`.
  Task<bool> FreeAnywhere(MonoTime limit);
  // As the kernel gives the lowest number that is free, few files are left where a new one has this
  // number or a higher one. Nothing idle keeps such a file: they are for clients and probes.
  int short_from() const { return short_from_; }

 private:
  struct Search;

  Executor& executor_;
  DeadlineWheel& wheel_;
  const int short_from_;
  std::move_only_function<bool()> free_;
  std::vector<FilePressure*> all_;
};

}  // namespace recourse
