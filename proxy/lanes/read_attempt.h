// Attempts of a read at its backend, until the head of an answer is here.
#pragma once

#include "proxy/lanes/read_state.h"

namespace recourse {

class ReadAttempt {
 public:
  // It outlives this object and the upload, which runs on when an answer comes early.
  explicit ReadAttempt(ReadState& read) : read_(read), request_(read.request) {}

  // Connects or takes a kept connection, sends, and reads the response's head. Another attempt is
  // possible only while nothing of a response has been seen and the whole request is here.
  Task<Result<void>> Run();
  // What the log says of it.
  void End(const Result<void>& got);

 private:
  void Begin(MonoTime now);
  Result<void> Judge(Result<void> got, bool saw_bytes);
  Task<Result<void>> PassInterim();

  ReadState& read_;
  ServedRequest& request_;
};

// Sends the rest of the request body while the response is awaited.
Task<void> Upload(ReadState& read);

}  // namespace recourse
