// Answers to approved calls that nobody has been told yet, whole: with the fields, cookies among
// them, that the ledger does not keep. In memory only, and no more than kFirstAnswersBytesMax.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "filters/ledger/model/event.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// Thread-safe.
class FirstAnswers {
 public:
  // The oldest ones make room for it.
  void Put(AttemptId of, HttpResponse answer);
  // For whoever asks first; nullopt for all others.
  std::optional<HttpResponse> Take(AttemptId of);

 private:
  std::mutex mutex_;
  std::deque<std::pair<AttemptId, HttpResponse>> answers_;
  std::size_t bytes_ = 0;
};

}  // namespace recourse
