#include "tests/sim/documents.h"

#include <fmt/format.h>

#include <algorithm>

namespace recourse {
namespace {

using Ended = DocumentSent::End;

bool IsOnDocument(const std::string& path) {
  return path.starts_with("/doc/") && path.find('/', 5) == std::string::npos;
}

std::map<std::string, std::string> MembersOf(const std::string& body) {
  std::map<std::string, std::string> members;
  const auto json = ParseJson(body);
  if (!json || json->kind != Json::Kind::kObject) return members;
  for (const auto& [name, value] : json->members) members[name] = CanonicalJson(value);
  return members;
}

std::string Swapped(const std::string& path) {
  static constexpr std::string_view kLock = "/lock", kUnlock = "/unlock";
  if (path.ends_with(kUnlock)) return path.substr(0, path.size() - kUnlock.size()) + "/lock";
  if (path.ends_with(kLock)) return path.substr(0, path.size() - kLock.size()) + "/unlock";
  return {};
}

bool IsSameCall(const DocumentWrite& a, const DocumentWrite& b) {
  return a.method == b.method && a.path == b.path && a.body == b.body;
}

}  // namespace

bool Supersedes(const DocumentWrite& later, const DocumentWrite& earlier) {
  const bool is_on_it = later.path == earlier.path || later.made == earlier.path;
  if (earlier.method == "PUT" || earlier.method == "DELETE") return is_on_it;
  if (earlier.method == "PATCH") {
    if (later.path != earlier.path) return false;
    if (later.method == "PUT" || later.method == "DELETE") return true;
    if (later.method != "PATCH") return false;
    const auto mine = MembersOf(earlier.body);
    return std::ranges::any_of(MembersOf(later.body), [&](const auto& member) {
      const auto found = mine.find(member.first);
      return found != mine.end() && found->second != member.second;
    });
  }
  if (later.method == "DELETE") {
    return later.path == earlier.path || (!earlier.made.empty() && later.path == earlier.made);
  }
  return later.method == "POST" && later.path == Swapped(earlier.path) &&
         later.body == earlier.body;
}

Step Documents::Receive(const HttpRequest& request) {
  DocumentSent sent;
  const auto field = [&](std::string_view name) {
    const std::string* const value = FindHeader(request.headers, name);
    return value == nullptr ? std::string() : *value;
  };
  const std::string trace = field("X-Test-Trace");
  sent.write = {request.method, request.target, request.body, trace, field("Authorization"), {}};
  sent.at = loop_.now();
  sent.begun = Tick();
  const bool fails = dice_.Percent(fault_percent_);
  const unsigned kind = fails ? dice_.Below(4) : 0;
  const bool reaches = !fails || kind < 2;
  const bool done = reaches && Execute(sent);
  if (done && sent.write.method == "POST") JudgeAgain(sent);
  sent_.push_back(sent);
  const Millis delay = dice_.Percent(30) ? dice_.Time(900) : Millis(0);
  const Ended end = fails ? Ended::kUnknown : done ? Ended::kExecuted : Ended::kRejected;
  loop_.Start(End(sent_.size() - 1, delay, end));
  if (fails) return After(delay, kind % 2 == 0 ? CutAfterSend() : Respond(500, "oops"));
  if (!done) return After(delay, Respond(404, R"({"error":"none"})"));
  Headers headers;
  std::string body = fmt::format(R"({{"effect":{}}})", sent.effect);
  if (!sent.write.made.empty()) {
    // Backends name what they made in one of these ways, or both.
    const std::string id = sent.write.made.substr(5);
    if (id.size() % 2 == 0) headers.emplace_back("Location", sent.write.made);
    if (id.size() % 2 == 1) body = fmt::format(R"({{"effect":{},"id":"{}"}})", sent.effect, id);
  }
  return After(delay, Respond(200, std::move(body), std::move(headers)));
}

Step Documents::Probe(const HttpRequest& /*request*/) { return Respond(404, "{}"); }

Task<void> Documents::End(std::size_t at, Millis delay, Ended end) {
  if (delay > Millis(0)) co_await loop_.timer().SleepUntil(loop_.now() + delay);
  if (sent_[at].end == Ended::kRunning) sent_[at].end = end;
  if (sent_[at].ended == 0) sent_[at].ended = Tick();
}

std::size_t Documents::Expect(DocumentWrite write) {
  DocumentSent sent;
  sent.write = std::move(write);
  sent.begun = Tick();
  sent.is_expected = true;
  sent_.push_back(std::move(sent));
  return sent_.size() - 1;
}

void Documents::Expected(std::size_t at, Ended end) {
  if (sent_[at].end == Ended::kRunning) sent_[at].end = end;
  if (sent_[at].ended == 0) sent_[at].ended = Tick();
  WasWrittenDown(at);
}

// When the process wrote down what a call did, only this is known of: before its client was told,
// and not before the backend had said so.
void Documents::WasWrittenDown(std::size_t expected) {
  const DocumentSent& call = sent_[expected];
  for (std::size_t i = expected + 1; i < sent_.size(); ++i) {
    DocumentSent& sent = sent_[i];
    const bool is_its = IsSameCall(sent.write, call.write) &&
                        sent.write.principal == call.write.principal && !sent.is_expected;
    if (is_its && sent.ended != 0) sent.ended = Tick();
  }
}

void Documents::Forget() {
  for (std::size_t i = life_begun_; i < sent_.size(); ++i) {
    DocumentSent& sent = sent_[i];
    const bool is_untold = sent.is_expected && sent.ended == 0;
    // Its outcome may have come and not been remembered.
    if (sent.end == Ended::kRunning) sent.end = Ended::kUnknown;
    if (sent.ended == 0) sent.ended = Tick();
    if (is_untold) WasWrittenDown(i);
  }
  life_begun_ = sent_.size();
}

bool Documents::Execute(DocumentSent& sent) {
  DocumentWrite& write = sent.write;
  const bool exists = documents_.contains(write.path);
  if (write.method == "PUT") {
    documents_[write.path] = MembersOf(write.body);
  } else if (write.method == "DELETE") {
    if (!exists) return false;
    documents_.erase(write.path);
  } else if (write.method == "PATCH") {
    if (!exists) return false;
    for (auto& [name, value] : MembersOf(write.body)) documents_[write.path][name] = value;
  } else if (write.path == "/doc") {
    write.made = "/doc/" + std::string(1 + names_.size() % 2, 'n') + std::to_string(names_.size());
    documents_[write.made] = MembersOf(write.body);
    names_.push_back(write.made);
  } else if (!IsOnDocument(write.path) &&
             !documents_.contains(write.path.substr(0, write.path.rfind('/')))) {
    return false;
  }
  sent.has_effect = true;
  sent.effect = ++effects_;
  return true;
}

// A POST that is made again must be another call, or its first answer was had and is true no more.
void Documents::JudgeAgain(const DocumentSent& sent) {
  for (auto first = sent_.rbegin(); first != sent_.rend(); ++first) {
    if (!first->has_effect || !IsSameCall(first->write, sent.write)) continue;
    const bool is_same_key = !sent.write.trace.empty() && first->write.trace == sent.write.trace;
    const bool is_retry =
        first->write.principal == sent.write.principal && !first->is_answered && !first->has_client;
    if (!is_same_key && !is_retry) return;
    if (sent.at - first->at > remembers_) return;
    const bool is_superseded = std::ranges::any_of(sent_, [&](const DocumentSent& other) {
      const bool is_later = other.ended == 0 || other.ended > first->begun;
      const bool may_have = other.end != Ended::kRejected || other.ended == 0;
      return is_later && may_have && Supersedes(other.write, first->write);
    });
    if (is_superseded && first->is_answered) return;
    problems_.push_back(fmt::format(
        "{} {} {} was made again: effects {} and {}, {}{}", sent.write.method, sent.write.path,
        sent.write.body, first->effect, sent.effect,
        first->is_answered ? "answered" : "not answered", is_superseded ? ", superseded" : ""));
    return;
  }
}

DocumentSent* Documents::Find(int effect) {
  const auto found = std::ranges::find_if(
      sent_, [&](const DocumentSent& sent) { return sent.has_effect && sent.effect == effect; });
  return found == sent_.end() ? nullptr : &*found;
}

std::string Documents::AnyDocument() {
  const std::size_t newest = std::min<std::size_t>(names_.size(), 4);
  const auto at = dice_.Below(static_cast<unsigned>(newest));
  return at < 2 ? names_[at] : names_[names_.size() - (at - 1)];
}

}  // namespace recourse
