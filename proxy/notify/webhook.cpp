#include "proxy/notify/webhook.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/saga/undo_plan.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/base/post_job.h"
#include "proxy/notify/cloud_event.h"

namespace recourse {
namespace {

constexpr std::size_t kPage = 256;

using Format = FlowRules::Webhook::Format;

NewsForm FormOf(const FlowRules::Webhook& hook) {
  return hook.format == Format::kSlack ? NewsForm::kSlack : NewsForm::kMembers;
}

}  // namespace

Task<void> Webhook::Run() {
  co_await telling_.Run([this] { TellNext(); }, [this] { return NextNews(); });
  co_await telling_.Drain();
}

void Webhook::TellNext() {
  if (is_telling_ || telling_.is_stopping()) return;
  // A copy: the policy itself must not be held while there is nothing to say.
  const std::optional<FlowRules::Webhook> hook = parts_.policy()->flow_rules.webhook;
  if (!hook) return waiting_.Clear();
  const std::optional<Notification> news = waiting_.Take(parts_.clock.Now());
  if (!news) return;
  is_telling_ = true;
  telling_.Spawn(TellOne(*news, *hook), [this] {
    is_telling_ = false;
    telling_.Wake();
  });
}

// The end of what is being told wakes the loop.
std::optional<MonoTime> Webhook::NextNews() const {
  if (is_telling_ || waiting_.empty()) return std::nullopt;
  return waiting_.next_try();
}

Task<void> Webhook::TellOne(Notification news, FlowRules::Webhook hook) {
  const Told told = co_await Deliver(news, std::move(hook));
  if (told == Told::kTaken) waiting_.Taken();
  if (told == Told::kNotTaken) waiting_.Failed(news, parts_.clock.Now(), Jitter(parts_.random));
}

void Webhook::Tell(const FlowNotification& news) {
  if (news.state.phase != FlowPhase::kNeedsHuman) return;
  Add({Notification::Of::kFlow, news.state.number});
}

void Webhook::Tell(const Event& claim) { Add({Notification::Of::kApproval, claim.operation}); }

void Webhook::TellHead(std::string news) {
  PostJob(parts_.executor, [this, news = std::move(news)]() mutable {
    head_ = std::move(news);
    Add({Notification::Of::kHead, 0});
  });
}

std::string_view Webhook::NameOf(Notification::Of of) {
  switch (of) {
    case Notification::Of::kFlow:
      return "flow";
    case Notification::Of::kApproval:
      return "approval";
    case Notification::Of::kOperation:
      return "operation";
    case Notification::Of::kHead:
      return "head";
  }
  return "";
}

void Webhook::Stop() {
  telling_.Stop();
  watching_.Stop();
}

void Webhook::Add(Notification news) {
  waiting_.Add(news);
  telling_.Wake();
}

Task<void> Webhook::WatchUnknown() {
  co_await watching_.Run([this] { LookIfDue(); },
                         [this]() -> std::optional<MonoTime> {
                           if (is_looking_) return std::nullopt;  // whose end wakes the loop
                           return next_look_;
                         });
  co_await watching_.Drain();
}

void Webhook::LookIfDue() {
  const MonoTime now = parts_.clock.Now();
  if (is_looking_ || now < next_look_ || watching_.is_stopping()) return;
  next_look_ = now + kLook;
  const bool had_hook = std::exchange(has_hook_, parts_.policy()->flow_rules.webhook.has_value());
  if (!has_hook_) return;
  is_looking_ = true;
  watching_.Spawn(Look(!had_hook), [this] {
    is_looking_ = false;
    next_look_ = parts_.clock.Now() + kLook;
    watching_.Wake();
  });
}

Task<void> Webhook::Look(bool is_new) {
  if (is_new) co_await Load();
  co_await LookForUnknown();
}

Task<void> Webhook::LookForUnknown() {
  const std::int64_t now = ToUnixMillis(parts_.clock.WallNow());
  std::set<std::uint64_t> still;
  for (std::uint64_t after = 0;;) {
    const auto page = co_await parts_.ledger.Open(after, kPage, parts_.executor);
    if (!page) co_return;  // the next look may find the ledger again
    if (page->empty()) break;
    for (const Event& event : *page) {
      after = std::max(after, event.operation);
      if (event.phase != Phase::kUncertain) continue;
      if (now - event.wall_ms < kUnknownFor.count()) continue;
      still.insert(event.operation);
      if (!announced_.contains(event.operation))
        Add({Notification::Of::kOperation, event.operation});
    }
  }
  announced_ = std::move(still);
}

Task<void> Webhook::Load() {
  std::uint64_t flows = 0, claims = 0;
  for (int tries = 1; !telling_.is_stopping(); ++tries) {
    Result<void> loaded = co_await LoadParked(flows);
    if (loaded) loaded = co_await LoadClaims(claims);
    if (loaded) co_return;
    const bool is_last = tries == kLoadTriesMax;
    if (tries == 1 || is_last) {
      Log(LogLevel::kError,
          is_last ? "what needed a human before the start is not told to the webhook; look at it "
                    "with: recourse flows list --parked, recourse approvals list"
                  : "what needs a human already cannot be read; it is tried again",
          {{"reason", loaded.error().detail()}});
    }
    if (is_last) co_return;
    const Millis pause = UndoPause(tries, std::nullopt, Jitter(parts_.random));
    co_await parts_.timer.SleepUntil(parts_.clock.Now() + std::min(pause, kLook));
  }
}

Task<Result<void>> Webhook::LoadParked(std::uint64_t& after) {
  for (;;) {
    const auto page = co_await parts_.ledger.OwnFlows(after, kPage, parts_.executor);
    if (!page) co_return std::unexpected(page.error());
    if (page->empty()) co_return Result<void>();
    for (const FlowState& state : *page) {
      if (state.phase == FlowPhase::kNeedsHuman) Add({Notification::Of::kFlow, state.number});
      after = state.number;
    }
  }
}

Task<Result<void>> Webhook::LoadClaims(std::uint64_t& after) {
  for (;;) {
    const auto page = co_await parts_.ledger.OwnClaims(after, kPage, parts_.executor);
    if (!page) co_return std::unexpected(page.error());
    if (page->empty()) co_return Result<void>();
    for (const PendingApproval& claim : *page) {
      Add({Notification::Of::kApproval, claim.event.operation});
      after = claim.event.operation;
    }
  }
}

Task<std::string> Webhook::BodyAboutFlow(std::uint64_t number, NewsForm form) {
  const auto page = co_await parts_.ledger.Flows(number - 1, 1, parts_.executor);
  if (!page || page->empty() || page->front().number != number) co_return std::string();
  const FlowState& state = page->front();
  if (state.phase != FlowPhase::kNeedsHuman) co_return std::string();
  std::vector<std::string> tools;
  for (const FlowStep& step : state.steps) {
    if (form == NewsForm::kSlack || tools.size() == limits::kWebhookStepsMax) break;
    const auto event = co_await parts_.ledger.Read(step.operation, parts_.executor);
    tools.push_back(event ? event->tool : std::string());
  }
  co_return NewsOfParked(state, tools, form);
}

Task<std::string> Webhook::BodyAbout(Notification news, NewsForm form) {
  if (news.of == Notification::Of::kFlow) co_return co_await BodyAboutFlow(news.number, form);
  if (news.of == Notification::Of::kHead)
    co_return form == NewsForm::kSlack ? std::string() : head_;
  const auto event = co_await parts_.ledger.Read(news.number, parts_.executor);
  if (!event) co_return std::string();
  if (news.of == Notification::Of::kApproval) {
    const bool waits = event->phase == Phase::kClaimed && event->approval;
    co_return waits ? NewsOfAsked(*event, form) : std::string();
  }
  co_return event->phase == Phase::kUncertain ? NewsOfUnknown(*event, form) : std::string();
}

Task<Webhook::Told> Webhook::Deliver(Notification news, FlowRules::Webhook hook) {
  std::string body = co_await BodyAbout(news, FormOf(hook));
  if (body.empty()) co_return Told::kOver;
  if (hook.format == Format::kCloudEvents) {
    body = CloudEvent(body, ToHex(parts_.ledger.OwnStats().identity));
  }
  const auto status = co_await Post(std::move(hook), std::move(body));
  const bool is_taken = status && IsSuccess(*status);
  parts_.count(is_taken);
  if (!is_taken) {
    Log(LogLevel::kWarn, "the webhook did not take the news; it is tried again",
        {{"about", std::string(NameOf(news.of))},
         {"number", PrintRowId(news.number)},
         {"reason", status ? "it answered " + std::to_string(*status)
                           : std::string(status.error().detail())}});
  }
  co_return is_taken ? Told::kTaken : Told::kNotTaken;
}

// The status of the answer.
Task<Result<int>> Webhook::Post(FlowRules::Webhook hook, std::string body) {
  const bool is_signed = hook.format != Format::kSlack;
  const std::expected<std::string, std::string> secret =
      is_signed ? parts_.read_secret(hook.secret_file) : std::string();
  if (!secret) {
    co_return std::unexpected(
        Error(ErrorCode::kInternal, "flow_rules.webhook.secret_file cannot be read"));
  }
  const Backend& backend = hook.backend;
  const std::int64_t seconds = ToUnixMillis(parts_.clock.WallNow()) / 1'000;
  const std::string target = backend.base_path.empty() ? "/" : backend.base_path;
  HttpRequest request{"POST", target, {}, std::move(body)};
  const std::string_view type =
      hook.format == Format::kCloudEvents ? kCloudEventType : "application/json";
  request.headers = {{"Content-Type", std::string(type)}, {"Accept-Encoding", "identity"}};
  if (is_signed) {
    request.headers.emplace_back("Recourse-Signature",
                                 WebhookSignature(*secret, seconds, request.body));
  }
  const MonoTime deadline = parts_.clock.Now() + limits::kWebhookTimeout;
  const auto connection = parts_.upstream.Open(backend);
  const auto connected = co_await connection->Connected();
  if (!connected) co_return std::unexpected(connected.error());
  const auto answer =
      co_await connection->Exchange(request, deadline, limits::kWebhookAnswerBytesMax);
  if (!answer) co_return std::unexpected(answer.error());
  co_return answer->response.status;
}

}  // namespace recourse
