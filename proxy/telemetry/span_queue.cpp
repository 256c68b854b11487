#include "proxy/telemetry/span_queue.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/hex.h"

namespace recourse {
namespace {

Span::Of OfKind(OwnRequest::Kind kind) {
  switch (kind) {
    case OwnRequest::Kind::kProbe:
      return Span::Of::kProbe;
    case OwnRequest::Kind::kUndo:
      return Span::Of::kUndo;
    case OwnRequest::Kind::kResend:
      return Span::Of::kResend;
  }
  return Span::Of::kProbe;
}

constexpr std::uint64_t kRandomBits = std::uint64_t{1} << 56;

// From the last 56 bits, which W3C Trace Context asks to be random.
std::uint64_t RandomBitsOf(std::string_view trace_id) {
  std::uint64_t bits = 0;
  const std::string_view last = trace_id.substr(trace_id.size() < 14 ? 0 : trace_id.size() - 14);
  std::from_chars(last.data(), last.data() + last.size(), bits, 16);
  return bits;
}

void WriteHex(std::uint64_t bits, char* out) {
  for (int digit = 0; digit < 16; ++digit) out[digit] = kHexDigits[(bits >> (60 - 4 * digit)) & 15];
}

}  // namespace

SpanIds::SpanIds(Random& seed) {
  std::array<unsigned char, sizeof state_> raw{};
  seed.Fill(raw);
  std::memcpy(&state_, raw.data(), raw.size());
}

// splitmix64. Never zero, which no id may be.
std::uint64_t SpanIds::Next() {
  state_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  mixed ^= mixed >> 31;
  return mixed == 0 ? 1 : mixed;
}

void SpanIds::Fill(TraceIdText& id) {
  WriteHex(Next(), id.text);
  WriteHex(Next(), id.text + 16);
}

void SpanIds::Fill(SpanIdText& id) { WriteHex(Next(), id.text); }

SpanQueue::SpanQueue(double sample_ratio, Random& random, std::function<void(std::size_t)> dropped)
    : threshold_(kRandomBits - static_cast<std::uint64_t>(
                                   std::llround(sample_ratio * static_cast<double>(kRandomBits)))),
      random_(random),
      dropped_(std::move(dropped)) {}

bool SpanQueue::Samples(std::string_view trace_id) const {
  return RandomBitsOf(trace_id) >= threshold_;
}

void SpanQueue::Add(Span span) {
  {
    const std::lock_guard lock(mutex_);
    if (span.of == Span::Of::kAttempt && span.effect == "write") Remember(span);
    if (queue_.size() < kQueuedMax) {
      queue_.push_back(std::move(span));
      return;
    }
  }
  dropped_(1);
}

std::vector<Span> SpanQueue::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(queue_, {});
}

std::size_t SpanQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

void SpanQueue::Remember(const Span& attempt) {
  const auto [entry, is_new] = recent_.insert_or_assign(attempt.trace.text, attempt.ended);
  if (!is_new) return;
  remembered_.push_back(entry->first);
  if (remembered_.size() <= kRecentMax) return;
  recent_.erase(remembered_.front());
  remembered_.pop_front();
}

bool SpanQueue::IsRecent(const std::string& trace, MonoTime now) const {
  const std::lock_guard lock(mutex_);
  const auto found = recent_.find(trace);
  return found != recent_.end() && now - found->second <= kRecentFor;
}

void SpanQueue::Begin(OwnRequest& request) {
  SpanIds ids(random_);
  TraceIdText trace;
  SpanIdText span;
  ids.Fill(trace);
  ids.Fill(span);
  request.trace = {std::string(trace.view()), std::string(span.view()), "01", false};
  if (!IsRecent(request.about_trace, request.began)) return;
  request.trace.trace_id = request.about_trace;
  request.parent =
      AttemptSpanId(request.about_trace, request.about_operation, request.about_attempt);
}

void SpanQueue::Ended(const OwnRequest& request) {
  Span span;
  span.of = OfKind(request.kind);
  span.trace.Set(request.trace.trace_id);
  span.id.Set(request.trace.parent_id);
  span.parent.Set(request.parent);
  if (request.about_trace.size() == 32) {
    span.linked_trace.Set(request.about_trace);
    span.linked.Set(
        AttemptSpanId(request.about_trace, request.about_operation, request.about_attempt));
  }
  span.began = request.began;
  span.ended = request.ended;
  span.policy = request.policy;
  span.tool = request.policy->FindTool(request.tool);
  span.backend = request.backend;
  span.method.Set(request.method);
  span.effect = request.kind == OwnRequest::Kind::kProbe ? "read" : "write";
  if (request.error) span.error = FactsOf(*request.error).slug;
  span.event = PrintRowId(request.about_operation);
  span.operation = request.about_operation;
  span.flow = FlowLabel(*request.policy, request.flow, request.about_trace);
  span.status = request.status;
  span.resend_count = request.attempt - 1;
  Add(std::move(span));
}

}  // namespace recourse
