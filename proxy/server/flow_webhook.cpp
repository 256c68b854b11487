#include "proxy/server/flow_webhook.h"

#include <algorithm>
#include <utility>

#include "policy/url.h"
#include "proxy/base/hash.h"
#include "proxy/base/json.h"
#include "proxy/base/limits.h"
#include "proxy/base/log.h"
#include "proxy/net/tls_client.h"
#include "proxy/server/event_json.h"
#include "proxy/server/flow_json.h"
#include "proxy/server/slack_message.h"

namespace recourse {
namespace {

constexpr std::size_t kFlowPage = 256;
constexpr std::string_view kUnusable = "the url of the webhook cannot be used";

Millis PauseAfter(int failures) {
  const int doublings = std::clamp(failures - 1, 0, 20);
  return std::min<Millis>(limits::kUndoBackoffFirst * (1 << doublings), limits::kUndoBackoffMax);
}

// Without the path and the answer, which are sealed in the ledger for a reason.
std::string BodyOfUnknown(const Event& event) {
  std::string body =
      "{\"type\":\"operation.unknown\",\"number\":" + std::to_string(event.operation);
  const auto member = [&body](std::string_view name, std::string_view value) {
    body += ",\"" + std::string(name) + "\":";
    AppendJsonString(body, value);
  };
  member("tool", event.tool);
  member("backend", event.backend);
  member("caller", event.caller);
  member("trace_id", event.trace_id);
  member("flow", event.flow);
  member("since", Rfc3339Millis(event.wall_ms));
  member("cause", NameOf(event.cause));
  body += ",\"attempt\":" + std::to_string(event.attempt);
  member("command", "recourse events show " + std::to_string(event.id));
  return body + "}";
}

// As the loader of policies has it: nothing to sign with.
bool IsSlack(const FlowRules::Webhook& hook) { return hook.secret_file.empty(); }

Notice NoticeOf(const FlowState& state) {
  return {"a flow needs a human",
          {{"flow", state.id},
           {"name", state.name},
           {"caller", state.caller},
           {"why", state.reason},
           {"since", Rfc3339Millis(state.changed_ms)}},
          "recourse flows show " + std::to_string(state.number)};
}

Notice NoticeOf(const Event& unknown) {
  return {"nobody knows whether a call took effect",
          {{"tool", unknown.tool},
           {"backend", unknown.backend},
           {"caller", unknown.caller},
           {"trace", unknown.trace_id},
           {"why", std::string(NameOf(unknown.cause))},
           {"since", Rfc3339Millis(unknown.wall_ms)}},
          "recourse events show " + std::to_string(unknown.id)};
}

}  // namespace

std::string WebhookSignature(std::string_view secret, std::int64_t unix_seconds,
                             std::string_view body) {
  const std::string time = std::to_string(unix_seconds);
  return "t=" + time + ",v1=" + ToHex(HmacSha256(secret, time + "." + std::string(body)));
}

Task<void> FlowWebhook::Run() {
  co_await LoadParked();
  for (int failures = 0; !is_stopping_;) {
    // A copy: the policy itself must not be held while there is nothing to say.
    const std::optional<FlowRules::Webhook> hook = parts_.policy()->flow_rules.webhook;
    if (!hook) waiting_.clear();
    if (waiting_.empty()) {
      wake_.emplace();
      co_await wake_->Wait();
      wake_.reset();
      continue;
    }
    // Each in turn, so that one that is never taken stops no other.
    auto next = waiting_.upper_bound(last_);
    if (next == waiting_.end()) next = waiting_.begin();
    last_ = *next;
    const News news = last_;
    waiting_.erase(next);
    const bool is_said = co_await Deliver(news, *hook);
    failures = is_said ? 0 : failures + 1;
    if (is_said) continue;
    waiting_.insert(news);
    co_await parts_.timer.SleepUntil(parts_.clock.Now() + PauseAfter(failures));
  }
}

void FlowWebhook::Tell(const FlowNews& news) {
  if (news.state.phase != FlowPhase::kNeedsHuman) return;
  Add({News::Of::kFlow, news.state.number});
}

void FlowWebhook::Stop() {
  is_stopping_ = true;
  if (wake_ && !wake_->is_set()) wake_->Set(true);
}

void FlowWebhook::Add(News news) {
  waiting_.insert(news);
  if (wake_ && !wake_->is_set()) wake_->Set(true);
}

Task<void> FlowWebhook::WatchUnknown() {
  while (!is_stopping_) {
    if (parts_.policy()->flow_rules.webhook) co_await LookForUnknown();
    co_await parts_.timer.SleepUntil(parts_.clock.Now() + kLook);
  }
}

Task<void> FlowWebhook::LookForUnknown() {
  const std::int64_t now = ToUnixMillis(parts_.clock.WallNow());
  std::set<std::uint64_t> still;
  for (std::uint64_t after = 0;;) {
    const auto page = co_await parts_.ledger.Open(after, kFlowPage, parts_.executor);
    if (!page) co_return;  // the next look may find the ledger again
    if (page->empty()) break;
    for (const Event& event : *page) {
      after = std::max(after, event.operation);
      if (event.phase != Phase::kUncertain) continue;
      if (now - event.wall_ms < kUnknownFor.count()) continue;
      still.insert(event.operation);
      if (!announced_.contains(event.operation)) Add({News::Of::kOperation, event.operation});
    }
  }
  announced_ = std::move(still);
}

Task<void> FlowWebhook::LoadParked() {
  for (std::uint64_t after = 0;;) {
    const auto page = co_await parts_.ledger.Flows(after, kFlowPage, parts_.executor);
    if (!page || page->empty()) co_return;
    for (const FlowState& state : *page) {
      if (state.phase == FlowPhase::kNeedsHuman) waiting_.insert({News::Of::kFlow, state.number});
      after = state.number;
    }
  }
}

Task<std::optional<FlowState>> FlowWebhook::Parked(std::uint64_t number) {
  auto page = co_await parts_.ledger.Flows(number - 1, 1, parts_.executor);
  if (!page || page->empty() || page->front().number != number) co_return std::nullopt;
  if (page->front().phase != FlowPhase::kNeedsHuman) co_return std::nullopt;
  co_return std::move(page->front());
}

Task<std::string> FlowWebhook::BodyAbout(News news, bool is_slack) {
  if (news.of == News::Of::kFlow) {
    auto state = co_await Parked(news.number);
    if (!state) co_return std::string();
    if (is_slack) co_return SlackMessage(NoticeOf(*state));
    co_return co_await BodyOf(std::move(*state));
  }
  const auto event = co_await parts_.ledger.Join(news.number, parts_.clock.Now(), parts_.executor);
  const bool is_unknown = event && *event && (*event)->phase == Phase::kUncertain;
  if (!is_unknown) co_return std::string();
  co_return is_slack ? SlackMessage(NoticeOf(**event)) : BodyOfUnknown(**event);
}

Task<bool> FlowWebhook::Deliver(News news, FlowRules::Webhook hook) {
  std::string body = co_await BodyAbout(news, IsSlack(hook));
  if (body.empty()) co_return true;
  const auto status = co_await Post(std::move(hook), std::move(body));
  const bool is_taken = status && *status >= 200 && *status <= 299;
  parts_.count(is_taken);
  if (!is_taken) {
    Log(LogLevel::kWarn, "the webhook did not take the news; it is tried again",
        {{"about", news.of == News::Of::kFlow ? "flow" : "operation"},
         {"number", std::to_string(news.number)},
         {"reason", status ? "it answered " + std::to_string(*status)
                           : std::string(status.error().detail())}});
  }
  co_return is_taken;
}

Task<std::string> FlowWebhook::BodyOf(FlowState state) {
  std::string body;
  AppendFlowLine(body, state);
  body.pop_back();
  body += ",\"type\":\"flow.needs_human\",\"command\":\"recourse flows show " +
          std::to_string(state.number) + "\",\"steps\":[";
  std::size_t told = 0;
  for (const FlowStep& step : state.steps) {
    if (++told > limits::kWebhookStepsMax) break;
    const auto event =
        co_await parts_.ledger.Join(step.operation, parts_.clock.Now(), parts_.executor);
    if (body.back() == '}') body.push_back(',');
    body += "{\"step\":" + std::to_string(step.operation) + ",\"tool\":";
    AppendJsonString(body, event && *event ? (*event)->tool : std::string());
    body += ",\"phase\":\"" + std::string(NameOf(step.phase)) + "\",\"undo_phase\":\"" +
            std::string(step.undo == 0 ? std::string_view() : NameOf(step.undo_phase)) + "\"}";
  }
  co_return body + "]}";
}

const Backend* FlowWebhook::BackendOf(const std::string& url) {
  if (backend_ && url_ == url) return &*backend_;
  backend_ = BackendFromUrl(url);
  url_ = url;
  if (!backend_) return nullptr;
  backend_->name = "webhook";
  backend_->timeout = limits::kWebhookTimeout;
  if (backend_->scheme == "https") {
    auto tls = TlsClient::Make(*backend_);
    if (!tls) {
      Log(LogLevel::kError, kUnusable, {{"reason", tls.error()}});
      backend_.reset();
      return nullptr;
    }
    backend_->tls = std::move(*tls);
  }
  return &*backend_;
}

// The status of the answer.
Task<Result<int>> FlowWebhook::Post(FlowRules::Webhook hook, std::string body) {
  const auto secret =
      IsSlack(hook) ? Result<std::string>(std::string()) : parts_.read_secret(hook.secret_file);
  if (!secret) {
    co_return std::unexpected(
        Error(ErrorCode::kInternal, "flow_rules.webhook.secret_file cannot be read"));
  }
  const Backend* const backend = BackendOf(hook.url);
  if (backend == nullptr) co_return std::unexpected(Error(ErrorCode::kInternal, kUnusable));
  const std::int64_t seconds = ToUnixMillis(parts_.clock.WallNow()) / 1'000;
  const std::string target = backend->base_path.empty() ? "/" : backend->base_path;
  HttpRequest request{"POST", target, {}, std::move(body)};
  request.headers = {{"Content-Type", "application/json"}, {"Accept-Encoding", "identity"}};
  if (!IsSlack(hook)) {
    request.headers.emplace_back("Recourse-Signature",
                                 WebhookSignature(*secret, seconds, request.body));
  }
  const MonoTime deadline = parts_.clock.Now() + limits::kWebhookTimeout;
  const auto connection = parts_.upstream.Open(*backend);
  const auto connected = co_await connection->Connected();
  if (!connected) co_return std::unexpected(connected.error());
  const auto answer =
      co_await connection->Exchange(request, deadline, limits::kWebhookAnswerBytesMax);
  if (!answer) co_return std::unexpected(answer.error());
  co_return answer->response.status;
}

}  // namespace recourse
