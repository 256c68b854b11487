#include "filters/call/answers.h"

#include <fmt/format.h>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/json/error_member.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::string_view kProblemBase = "https://recourse.dev/problems/";
constexpr int kRetryAfterSeconds = 1;

int StatusOf(ErrorCode code, const ProblemFacts& facts) {
  return facts.status.value_or(FactsOf(code).http_status);
}

std::string_view OutcomeOf(const ErrorFacts& meaning, const ProblemFacts& facts) {
  return facts.outcome.empty() ? meaning.outcome : facts.outcome;
}

std::string_view TypeOf(ErrorCode code, int status) {
  return code == ErrorCode::kKeyReused ? "idempotency_error" : ErrorTypeOf(status);
}

// Cuts at a character boundary, so that the text stays UTF-8.
std::string_view Bounded(std::string_view text) {
  if (text.size() <= limits::kDetailBytesMax) return text;
  std::size_t size = limits::kDetailBytesMax;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

// An RFC 8941 string: of what it may not hold, blanks are left.
std::string QuotedText(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : Bounded(text)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c >= ' ' && c <= '~' ? c : ' ';
  }
  return quoted + '"';
}

void AddOperationFields(Headers& headers, std::string_view key, std::uint64_t event,
                        std::string_view outcome, std::string_view flow) {
  if (!key.empty()) SetHeader(headers, "Idempotency-Key", key);
  if (event != 0) SetHeader(headers, "Recourse-Event", PrintRowId(event));
  if (!outcome.empty()) SetHeader(headers, "Recourse-Outcome", outcome);
  if (!flow.empty()) SetHeader(headers, "Recourse-Flow", flow);
}

}  // namespace

std::string JoinSentences(std::initializer_list<std::string_view> sentences) {
  std::string text;
  for (std::string_view sentence : sentences) {
    while (sentence.ends_with('.') || sentence.ends_with('\n')) sentence.remove_suffix(1);
    if (sentence.empty() || text.find(sentence) != std::string::npos) continue;
    if (!text.empty()) text += ' ';
    text.append(sentence) += '.';
  }
  return text;
}

void AddShouldRetry(Headers& headers, bool should_retry) {
  const char* const word = should_retry ? "true" : "false";
  headers.emplace_back("x-should-retry", word);
  headers.emplace_back("stripe-should-retry", word);
}

std::string ProblemBody(ErrorCode code, std::string_view detail, const ProblemFacts& facts) {
  const ErrorFacts& own = FactsOf(code);
  const ErrorFacts& meaning = FactsOf(facts.speaks_for.value_or(code));
  const std::string_view told = detail.empty() ? own.title : Bounded(detail);
  const std::string_view advice = facts.advice.empty() ? meaning.advice : facts.advice;
  std::string body;
  {
    JsonObject json(body);
    json.Text("type", std::string(kProblemBase).append(own.slug));
    json.Text("title", own.title);
    json.Number("status", StatusOf(code, facts));
    json.Text("detail", told);
    json.Text("outcome", OutcomeOf(meaning, facts));
    json.Bool("retryable", meaning.retryable && !facts.never_settles);
    if (facts.event != 0) json.Raw("event", RowIdJson(facts.event));
    json.TextIfAny("flow", facts.flow);
    json.Text("advice", advice);
    AddError(json, TypeOf(code, StatusOf(code, facts)), own.slug,
             JoinSentences({own.title, told, advice}));
  }
  body += "\n";
  return body;
}

WriteAnswer MakeProblem(ErrorCode code, std::string_view detail, const ProblemFacts& facts) {
  const ErrorFacts& own = FactsOf(code);
  const ErrorFacts& meaning = FactsOf(facts.speaks_for.value_or(code));
  WriteAnswer answer;
  answer.error = code;
  HttpResponse& response = answer.response;
  response.status = StatusOf(code, facts);
  response.body = ProblemBody(code, detail, facts);
  response.headers.emplace_back("Content-Type", "application/problem+json");
  response.headers.emplace_back("Cache-Control", "no-store");
  std::string proxy_status = fmt::format(
      "recourse; error={}", facts.proxy_error.empty() ? own.proxy_error : facts.proxy_error);
  if (facts.received_status != 0) {
    proxy_status += fmt::format("; received-status={}", facts.received_status);
  }
  response.headers.emplace_back("Proxy-Status", std::move(proxy_status));
  AddOperationFields(response.headers, facts.key, facts.event, OutcomeOf(meaning, facts),
                     facts.flow);
  if (facts.never_settles) {
    AddShouldRetry(response.headers, false);
  } else if (facts.retry_after_s || meaning.retryable) {
    response.headers.emplace_back("Retry-After",
                                  std::to_string(facts.retry_after_s.value_or(kRetryAfterSeconds)));
  }
  return answer;
}

void Decorate(HttpResponse& response, const AnswerFacts& facts) {
  AddOperationFields(response.headers, facts.key, facts.event, facts.outcome, facts.flow);
  if (facts.origin == AnswerSource::kReplay) {
    SetHeader(response.headers, "Idempotent-Replayed", "true");
  }
  if (!facts.doubt.empty()) {
    response.headers.emplace_back(
        "Proxy-Status", fmt::format("recourse; received-status={}; details={}", response.status,
                                    QuotedText(facts.doubt)));
  }
}

bool IsOwnField(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {"recourse-", "x-accel-"};
  static constexpr std::string_view kNames[] = {"idempotent-replayed", "x-sendfile"};
  for (const std::string_view prefix : kPrefixes) {
    if (EqualsIgnoreCase(name.substr(0, prefix.size()), prefix)) return true;
  }
  for (const std::string_view own : kNames) {
    if (EqualsIgnoreCase(name, own)) return true;
  }
  return false;
}

void StripOwnFields(Headers& headers) {
  std::erase_if(headers, [](const Header& field) { return IsOwnField(field.first); });
}

}  // namespace recourse
