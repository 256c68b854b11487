// Log lines below a level are left out in one scope: tests that share a process keep theirs.
#pragma once

#include "proxy/base/log/log.h"

namespace recourse {

class QuietLog {
 public:
  // Without an argument nothing is written at all.
  explicit QuietLog(LogLevel least = LogLevel(static_cast<int>(LogLevel::kError) + 1)) {
    SetLogLevel(least);
  }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;
  ~QuietLog() { SetLogLevel(before_); }

 private:
  const LogLevel before_ = LeastLogLevel();
};

}  // namespace recourse
