#include "proxy/exchange/session.h"

#include <algorithm>
#include <charconv>

#include "filters/call/poll_id.h"
#include "proxy/base/crash_point.h"
#include "proxy/exchange/head_judgement.h"
#include "proxy/exchange/observation.h"
#include "proxy/exchange/request_head.h"

namespace recourse {
namespace {

// They reflect or expose what a server got.
bool IsRefusedMethod(std::string_view method) {
  return method == "TRACE" || method == "TRACK" || method == "DEBUG";
}

bool SeesOwnVia(const Head& head, std::string_view via) {
  if (!head.Has(FieldId::kVia)) return false;
  const std::string_view pseudonym = via.substr(via.find(' ') + 1);
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.id == FieldId::kVia && field.value.find(pseudonym) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

bool Names(const Tool& tool, std::string_view method) {
  return std::find(tool.methods.begin(), tool.methods.end(), method) != tool.methods.end();
}

const std::string kAllMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

std::string AllowOf(const Tool& tool) {
  if (Names(tool, "*")) return kAllMethods;
  std::string allow;
  for (const std::string& method : tool.methods) allow += (allow.empty() ? "" : ", ") + method;
  return allow;
}

// RFC 9110 7.6.2; -1: there is none. Fails when it is not one number.
std::optional<int> TakeMaxForwards(const Head& head) {
  int hops = -1;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.id != FieldId::kMaxForwards) continue;
    const char* const end = field.value.data() + field.value.size();
    const bool is_first = hops == -1;
    const auto [after, ec] = std::from_chars(field.value.data(), end, hops);
    if (!is_first || ec != std::errc() || after != end || hops < 0) return std::nullopt;
  }
  return hops;
}

}  // namespace

Session::Session(Worker& worker, Socket socket, ConnectionGate::Place place,
                 std::optional<Tcp::endpoint> original)
    : worker_(worker),
      services_(worker.services),
      place_(std::move(place)),
      original_(std::move(original)),
      original_text_(original_ ? AuthorityText(AuthorityOf(*original_), 0) : std::string()),
      client_(std::move(socket), worker.thread.poller(), worker.thread.wheel()),
      identity_(worker.services.caller),
      caller_(identity_),
      meets_opening_(original_.has_value()) {
  in_.pool = &worker.thread.buffers();
}

Task<void> Session::Run() {
  RC_CRASH_POINT("k01");
  if (!original_ && worker_.tls != nullptr && !co_await AcceptTls()) {
    client_.Close();
    co_return;
  }
  while (co_await ReadHead()) {
    if (intercepted_at_ == served_) CountInterception("ok");
    BeginRecord();
    const bool keep = co_await Serve();
    EndRecord();
    if (keep && meets_opening_) continue;  // CONNECT itself asked for nothing
    const bool ends = !keep || IsLast();
    ++served_;
    if (!ends) continue;
    // Who wanted to go on may have sent more already; a reset for that would eat the answer. And
    // how the client of a write leaves tells whether it has read its answer.
    if ((head_.keep_alive || unread_) && !cut_ && !record_.client_gone) linger_ = true;
    break;
  }
  if (intercepted_at_) EndInterception();
  if (client_.tls != nullptr && !cut_) client_.tls->SayGoodbye();
  if (linger_) co_await Linger();
  if (unread_ && client_.error == boost::asio::error::connection_reset) {
    services_.ledger->MarkUnread(*unread_);
  }
  client_.Close();
}

bool Session::MakeRoom() {
  if (LookAtClient() == Peer::kSpeaks) return false;
  leaving_ = true;
  unlink();
  place_.GiveBack();
  services_.metrics->made_room.Increment();
  client_.Cancel();
  return true;
}

void Session::Drain() {
  if (tunnel_ != nullptr) tunnel_->Drain();
  if (waits_for_events_ != nullptr) LimitQuiet(*waits_for_events_);
  if (idle_) client_.Cancel();
}

Task<bool> Session::ReadHead() {
  bool is_timed = false;  // a head that has begun has a time to end; most are here whole at once
  const auto begin_time = [&] {
    if (!std::exchange(is_timed, true)) client_.deadline.Arm(Now() + services_.bounds.head_timeout);
  };
  for (;;) {
    if (in_.begin == in_.end) {  // nothing came yet, or TLS has taken what there was
      is_timed = false;
      if (!BeginIdle()) co_return false;
      if (!EndIdle(co_await ReadInto(client_, in_))) co_return false;
    }
    Met met = Met::kRequest;
    if (meets_opening_) {
      begin_time();
      met = co_await MeetOpening();
    }
    if (met == Met::kOver) co_return false;
    if (in_.begin == in_.end) continue;
    if (met == Met::kRequest) {
      const ParseResult parsed = ParseRequestHead(in_.unread(), head_);
      if (parsed.state == ParseState::kComplete) {
        client_.deadline.Reset();
        co_return true;
      }
      if (parsed.state == ParseState::kBad) {
        BeginRecord();
        services_.metrics->parse_errors
            .Add({{"side", "client"}, {"reason", std::string(FactsOf(parsed.error.code()).slug)}})
            .Increment();
        co_await Refuse(parsed.error.code(), std::string(parsed.error.detail()));
        EndRecord();
        co_return false;
      }
    }
    begin_time();
    if (!co_await ReadMoreHead()) co_return false;
  }
}

// Before bytes of a head are waited for. False: nobody does any more.
bool Session::BeginIdle() {
  if (services_.draining) return false;
  // Who was redirected and waits for the other side to speak first would wait in vain.
  const bool is_awaited = original_ && meets_opening_;
  const MonoTime now = last_ != MonoTime{} ? std::exchange(last_, {}) : Now();
  client_.deadline.ArmLoosely(
      now + (is_awaited ? services_.bounds.head_timeout : services_.bounds.idle_timeout));
  idle_ = true;
  worker_.idle.Add(*this, served_ > 0);
  return true;
}

// `size` bytes came; 0: none will. False: no head follows.
bool Session::EndIdle(std::size_t size) {
  idle_ = false;
  unlink();
  in_.end += size;
  if (size > 0) unread_.reset();
  return size > 0 && !leaving_;
}

// Waits for the rest of a head that has begun.
Task<bool> Session::ReadMoreHead() {
  if (in_.free_size() == 0) in_.Compact();
  RC_CHECK(in_.free_size() > 0);  // the parser refuses a head before it fills the buffer
  const std::size_t size = co_await ReadSome(client_, in_.free_space(), in_.free_size());
  in_.end += size;
  if (size == 0 && client_.deadline.expired()) {
    BeginRecord();
    head_.Reset();
    co_await Refuse(ErrorCode::kRequestTimeout, "the request's head did not arrive in time");
    EndRecord();
  }
  co_return size > 0;
}

// These three only choose; what they return does the work.
Task<bool> Session::Serve() {
  if (IsRefusedMethod(head_.method)) {
    linger_ = true;
    return Refuse(ErrorCode::kMethodNotAllowed,
                  std::string(head_.method) + " is not served by this listener", kAllMethods);
  }
  if (SeesOwnVia(head_, services_.via)) {
    return Refuse(ErrorCode::kLoop, "the request has already passed this proxy");
  }
  if (head_.method == "CONNECT") return ServeConnect();
  if (view_->policy->callers.names_any()) Identify();
  // Who was redirected does not know of a proxy that could refuse a Host.
  const bool only_says_so = original_ && !inside_ && view_->policy->mode == Mode::kObserve;
  if (std::string reason = inside_     ? WhyMisdirected()
                           : original_ ? WhyElsewhere()
                                       : std::string();
      !reason.empty()) {
    if (!only_says_so) return Refuse(ErrorCode::kMisdirected, std::move(reason));
    record_.decision = "would-refuse";
  }
  forwards_left_ = -1;
  if (head_.method == "OPTIONS") {
    const auto hops = TakeMaxForwards(head_);
    if (!hops) {
      return Refuse(ErrorCode::kMalformedRequest, "Max-Forwards is not one number");
    }
    // "http://host" without a path is how "*" is asked through a proxy (RFC 9112 3.2.4).
    const bool is_about_server =
        head_.form == TargetForm::kAsterisk ||
        (head_.form == TargetForm::kAbsolute && head_.authority.end() == head_.target.end());
    if (is_about_server || *hops == 0) {
      return AnswerOptions(kAllMethods);
    }
    forwards_left_ = *hops < 0 ? -1 : *hops - 1;
  }
  // An absolute target's authority wins over Host (RFC 9112 3.2.2).
  const bool is_absolute = head_.form == TargetForm::kAbsolute;
  const std::string named = inside_     ? AuthorityText(inside_->target, inside_->scheme_port)
                            : original_ ? RedirectedAuthority()
                                        : std::string();
  const std::string_view authority = !named.empty() ? std::string_view(named)
                                     : is_absolute  ? head_.authority
                                                    : head_.host;
  record_.host_differs =
      is_absolute && !head_.host.empty() && !EqualsIgnoreCase(head_.host, head_.authority);
  const auto question = head_.path.find('?');
  const std::string_view query =
      question == std::string_view::npos ? std::string_view() : head_.path.substr(question);
  const std::string_view path = head_.path.substr(0, question);
  if (path.starts_with(kPollPath) && view_->policy->mode == Mode::kEnforce) {
    return ServePoll(std::string(path.substr(kPollPath.size())));
  }
  return Route(authority, path, query);
}

Task<bool> Session::Route(std::string_view authority, std::string_view path,
                          std::string_view query) {
  const Policy& policy = *view_->policy;
  const bool is_https = head_.form == TargetForm::kAbsolute ? (head_.target[4] | 0x20) == 's'
                                                            : client_.tls != nullptr;
  const std::uint16_t usual = is_https && !original_ ? 443 : 80;
  const McpPlace place =
      view_->last_host.Place(authority, inside_ ? inside_->scheme_port : usual, path);
  const Backend* const backend = place.backend;
  // What was sent over TLS goes on over TLS, also when another policy came in between.
  if (intercepted_at_ && (backend == nullptr || !policy.routes->Intercepts(*backend))) {
    return RefuseChanged();
  }
  if (backend == nullptr && original_ && !inside_) {
    return TunnelRedirected(std::string(authority));
  }
  if (backend == nullptr) {
    return Refuse(ErrorCode::kUnknownBackend, "no backend of the policy has the authority '" +
                                                  std::string(authority) +
                                                  "'; add it to a backend's url or hosts");
  }
  is_observing_ = policy.mode == Mode::kObserve;
  if (is_observing_) return ServeObserved(place, path, query);
  return RouteTo(place, path, query);
}

Task<bool> Session::RouteTo(McpPlace place, std::string_view path, std::string_view query) {
  const Backend& backend = *place.backend;
  record_.backend = &backend;
  if (place.where == McpPath::kExact) return ServeMcp(backend, query);
  const Policy& policy = *view_->policy;
  // A member, as the lanes begin when this has returned.
  const auto found = policy.routes->Match(backend, head_.method, path, scratch_, match_);
  if (found) record_.tool = match_.tool;
  if (const auto refusal = RefusalOfHead(policy, head_, place, query, found, match_)) {
    const bool has_other_methods = refusal->code() == ErrorCode::kMethodNotAllowed;
    return Refuse(refusal->code(), refusal->detail(),
                  has_other_methods ? AllowOf(*match_.tool) : std::string());
  }
  if (HasFlowOrder(head_)) {
    record_.effect = "write";
    return ServeWrite(match_, query, /*guarded=*/true);
  }
  if (IsQuestionAboutWrite(head_, match_)) return AnswerOptions(AllowOf(*match_.tool));
  const bool listed = match_.tool != nullptr;
  if (!listed) worker_.unlisted.Count(backend, match_.effect, head_.method, path);
  if (match_.effect == Effect::kRead) {
    record_.effect = "read";
    return RelayRead(match_, query);
  }
  record_.effect = "write";
  return ServeWrite(match_, query, listed || match_.unlisted == UnlistedRule::kGuard);
}

Task<bool> Session::RefuseChanged() {
  linger_ = true;
  co_await Refuse(ErrorCode::kMisdirected,
                  "the policy has changed, and TLS to this host is not looked into any more; "
                  "connect again");
  co_return false;
}

void Session::BeginRecord() {
  started_ = Now();
  last_ = {};
  view_ = worker_.view;
  std::destroy_at(&record_);
  std::construct_at(&record_);
  record_.original = original_text_;
  record_.came_by =
      original_ ? CameBy::kRedirect
      : inside_ || head_.form == TargetForm::kAbsolute || head_.form == TargetForm::kAuthority
          ? CameBy::kForward
          : CameBy::kReverse;
  is_observing_ = false;
  judges_body_ = false;
  sends_once_ = false;
  if (caller_ != identity_) caller_ = identity_;
  who_.problem.clear();
  if (client_.tls != nullptr) record_.caller = caller_;
  record_.method.Set(head_.method);
  record_.trace_id.Set(TraceIdOf(head_));
  if (services_.tracer != nullptr) BeginSpan();
}

void Session::EndRecord() {
  if (last_ == MonoTime{}) last_ = Now();
  const MonoTime ended = last_;
  const auto duration = ended - started_;
  CountUnknownCaller();
  view_->metrics.Count(record_, duration);
  if (span_.is_on) EndSpan(ended);
  if (observed_) {
    std::exchange(observed_, nullptr)->Ended(record_, duration);
  } else {
    view_->log.Append(record_, duration);
  }
  record_.tool = nullptr;
  record_.backend = nullptr;
  view_.reset();
}

}  // namespace recourse
