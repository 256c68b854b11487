#include "filters/tracing.h"

#include <algorithm>

#include "filters/ledger/model/row_id.h"
#include "policy/model/principal.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

bool IsSecretPlace(const ScopeRule& rule) {
  if (rule.kind == ScopeRule::Kind::kSession) return true;
  return rule.kind == ScopeRule::Kind::kHeader &&
         (IsCredentialField(rule.name) || IsPrincipalField(rule.name) ||
          EqualsIgnoreCase(rule.name, kSessionField));
}

}  // namespace

std::string FormatTraceparent(const TraceContext& trace) {
  constexpr std::size_t kTextBytes = 55;
  std::string text;
  text.reserve(kTextBytes);
  text.append("00-").append(trace.trace_id).append("-").append(trace.parent_id);
  return text.append("-").append(trace.flags);
}

std::string FlowLabel(const Policy& policy, std::string_view flow, std::string_view trace_id) {
  const FlowRules& rules = policy.flow_rules;
  const bool may_be_secret = std::ranges::any_of(rules.parent, IsSecretPlace) ||
                             (rules.without_trace.kind == WithoutTrace::Kind::kPlace &&
                              IsSecretPlace(rules.without_trace.place));
  if (!may_be_secret || flow.empty() || flow == trace_id) return std::string(flow);
  return "sha256:" + ToHex(Sha256(flow)).substr(0, 16);
}

std::string AttemptSpanId(std::string_view trace_id, std::uint64_t operation,
                          std::uint16_t attempt) {
  std::string parts;
  AppendPart(parts, "recourse attempt span");
  AppendPart(parts, trace_id);
  AppendPart(parts, PrintRowId(operation));
  AppendPart(parts, std::to_string(attempt));
  std::string id = ToHex(Sha256(parts)).substr(0, 16);
  if (id.find_first_not_of('0') == std::string::npos) id.back() = '1';  // all zeros is invalid
  return id;
}

Task<Result<Answer>> ExchangeTraced(UpstreamConnection& connection, HttpRequest request,
                                    MonoTime deadline, std::size_t answer_bytes_max,
                                    SpanSink* tracing, const Clock& clock, OwnRequest told) {
  if (tracing == nullptr) {
    co_return co_await connection.Exchange(request, deadline, answer_bytes_max);
  }
  told.began = clock.Now();
  tracing->Begin(told);
  SetHeader(request.headers, "traceparent", FormatTraceparent(told.trace));
  told.method = request.method;
  auto answer = co_await connection.Exchange(request, deadline, answer_bytes_max);
  told.ended = clock.Now();
  if (answer) {
    told.status = answer->response.status;
  } else {
    told.error = answer.error().code();
  }
  tracing->Ended(told);
  co_return answer;
}

}  // namespace recourse
