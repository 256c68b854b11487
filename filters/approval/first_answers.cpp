#include "filters/approval/first_answers.h"

#include <algorithm>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

std::size_t BytesOf(const HttpResponse& answer) {
  std::size_t size = sizeof answer + answer.body.size();
  for (const auto& [name, value] : answer.headers) size += name.size() + value.size();
  return size;
}

}  // namespace

void FirstAnswers::Put(AttemptId of, HttpResponse answer) {
  const std::size_t size = BytesOf(answer);
  if (size > limits::kFirstAnswersBytesMax) return;
  const std::lock_guard lock(mutex_);
  while (bytes_ + size > limits::kFirstAnswersBytesMax) {
    bytes_ -= BytesOf(answers_.front().second);
    answers_.pop_front();
  }
  bytes_ += size;
  answers_.emplace_back(of, std::move(answer));
}

std::optional<HttpResponse> FirstAnswers::Take(AttemptId of) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(answers_, of, &std::pair<AttemptId, HttpResponse>::first);
  if (at == answers_.end()) return std::nullopt;
  HttpResponse answer = std::move(at->second);
  bytes_ -= BytesOf(answer);
  answers_.erase(at);
  return answer;
}

}  // namespace recourse
