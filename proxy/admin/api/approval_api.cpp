#include "proxy/admin/api/approval_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "filters/approval/approved_call.h"
#include "filters/approval/call_summary.h"
#include "filters/key/operation_request.h"
#include "filters/ledger/model/missing_key.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/access/own_call.h"
#include "proxy/admin/access/problem.h"
#include "proxy/admin/api/query_params.h"
#include "proxy/admin/views/approval_view.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

using Ruling = ApprovalRuling::Kind;

HttpResponse NoSuch(std::uint64_t operation) {
  return Problem(
      404, "No such approval",
      fmt::format("no operation {} that needed an approval is kept", PrintRowId(operation)));
}

// Nobody shows or decides what cannot be read. It may be there, and another process may read it.
HttpResponse SealedAnswer(const Event& event) {
  return Problem(503, "Sealed with a key that is missing here",
                 fmt::format("operation {}: {}; {}", PrintRowId(event.operation), event.detail,
                             kMissingKeyHelp));
}

// Puts what the body says into the order. Its error is a line for people.
std::expected<void, std::string> ReadOrder(const std::string& body, bool is_approve,
                                           ApprovalOrder& order) {
  const auto json = ParseJson(body);
  if (!json || json->kind != Json::Kind::kObject) {
    return std::unexpected("the body must be a JSON object such as {\"digest\": \"...\"}");
  }
  bool has_digest = false;
  for (const auto& [name, value] : json->members) {
    if (value.kind != Json::Kind::kString) {
      return std::unexpected(fmt::format("'{}' must be a string", name));
    }
    if (name == "reason") {
      order.reason = value.text;
    } else if (name == "digest" && is_approve) {
      const auto digest = DigestFromHex(value.text);
      if (!digest) return std::unexpected("'digest' has 64 hexadecimal digits, as shown");
      order.digest = *digest;
      has_digest = true;
    } else if (name == "body" && is_approve) {
      order.body = value.text;
    } else {
      return std::unexpected(fmt::format("'{}' is not one of {}", name,
                                         is_approve ? "digest, reason, body" : "reason"));
    }
  }
  if (is_approve && !has_digest) {
    return std::unexpected(
        "say what you approve: {\"digest\": \"...\"}, as GET /approvals/{operation} shows it");
  }
  if (!is_approve && order.reason.empty()) {
    return std::unexpected("say why, for the agent and for the log: {\"reason\": \"...\"}");
  }
  if (order.reason.size() > limits::kFlowReasonBytesMax) {
    return std::unexpected(
        fmt::format("the reason has more than {} bytes", limits::kFlowReasonBytesMax));
  }
  return {};
}

HttpResponse Refused(const ApprovalOutcome& outcome) {
  switch (outcome.kind) {
    case Ruling::kNotAllowed:
      return Problem(403, "Not yours to decide", outcome.text);
    case Ruling::kExpired:
      return Problem(410, "Too late", outcome.text);
    case Ruling::kOtherRequest:
      return Problem(409, "Another request", outcome.text);
    default:
      return Problem(409, "Not done", outcome.text);
  }
}

namespace approval_page_members {

struct Shown {
  std::vector<std::string> lines;  // JSON
  std::uint64_t next = 0;          // 0: there are no more
};
constexpr JsonMember<Shown> kPage[] = {
    member::Own({"approvals", "ApprovalLine", "", false, /*is_list=*/true},
                [](JsonObject& json, std::string_view name, const Shown& of) {
                  json.Each(name, of.lines,
                            [](std::string& out, const std::string& line) { out += line; });
                }),
    member::Raw<[](const Shown& of) { return of.next == 0 ? "null" : RowIdJson(of.next); }>(
        "next", kCursorSchema, kNextText),
};

}  // namespace approval_page_members

}  // namespace

HttpResponse ApprovalApi::Handle(const AccessControl::Visit& visit, const HttpRequest& request) {
  const std::string_view at = visit.endpoint->path;
  if (at == admin_paths::kApprovals) return List(visit.query);
  std::uint64_t operation = 0;
  if (!ParseId(admin_paths::PlaceIn(at, visit.path), operation) || operation == 0) {
    return Problem(400, "Bad operation", "an approval is named by the number of its operation");
  }
  if (!visit.query.empty()) return Problem(400, "Unknown parameter", "no parameter is taken here");
  if (at == admin_paths::kApproval) return Show(operation);
  ApprovalOrder order{.operation = operation, .by = {visit.who.name, visit.who.groups}};
  return Decide(std::move(order), visit, request);
}

HttpResponse ApprovalApi::List(std::string_view query) {
  std::optional<std::string> tool, caller, group;
  std::function<bool(std::uint64_t)> is_of;
  std::uint64_t limit = 100, after = 0;
  for (const auto& [name, value] : ParsePairs(query)) {
    bool good = true;
    if (name == "tool") {
      tool = value;
    } else if (name == "pod") {
      if (!pods_.is_shared()) return NoPods();
      is_of = pods_.AreOf(value);
    } else if (name == "caller") {
      caller = value;
    } else if (name == "by") {
      group = value;
    } else if (name == "after") {
      good = ParsePlace(value, after);
    } else if (name == "limit") {
      good = ParseNumber(value, limit) && limit > 0 && limit <= limits::kAdminPageMax;
    }
    if (!good) {
      return Problem(400, "Bad parameter",
                     fmt::format("'{}' is no value for {}; accepted: a number", value, name));
    }
  }
  const auto is_asked_for = [&](const Event& event) {
    if (tool && event.tool != *tool) return false;
    if (is_of && !is_of(event.id)) return false;
    if (caller && event.caller != *caller) return false;
    if (!event.approval) return event.is_locked;  // of any group, as far as is known
    const auto& by = event.approval->by;
    return !group || std::find(by.begin(), by.end(), *group) != by.end();
  };
  approval_page_members::Shown shown;
  for (bool more = true; more && shown.next == 0;) {
    const auto page = parts_.runner.List(after, limits::kClaimsPage);
    if (!page) return NoLedger(page.error());
    more = !page->empty();
    for (const PendingApproval& claim : *page) {
      if (shown.lines.size() == limit) {
        shown.next = after;
        break;
      }
      after = claim.event.operation;
      if (!is_asked_for(claim.event)) continue;
      const ApprovalFacts* const facts = claim.event.approval ? &*claim.event.approval : nullptr;
      const std::string summary =
          facts ? SummaryOf(claim.event, parts_.policy(facts->policy)) : std::string();
      AppendApprovalLine(shown.lines.emplace_back(), claim.event, summary, pods_);
    }
  }
  return JsonAnswer(ObjectText(
      [&](JsonObject& json) { WriteMembers(json, approval_page_members::kPage, shown); }));
}

std::expected<Event, HttpResponse> ApprovalApi::Find(std::uint64_t operation) {
  auto event = parts_.runner.Read(operation);
  if (!event) {
    const auto found = parts_.ledger.Find(operation);
    if (!found) return std::unexpected(NoLedger(found.error().detail()));
    // A shared ledger answers there over another connection.
    if (*found) return std::unexpected(NoLedger(event.error()));
    return std::unexpected(NoSuch(operation));
  }
  if (event->is_locked) return std::unexpected(SealedAnswer(*event));
  if (!event->approval) return std::unexpected(NoSuch(operation));
  return std::move(*event);
}

HttpResponse ApprovalApi::Show(std::uint64_t operation) {
  auto event = Find(operation);
  if (!event) return event.error();
  const bool is_pending = IsClaim(event->phase);
  std::optional<RenderedRequest> request;
  if (is_pending) request = event->request;
  std::optional<std::string> original = event->approval->original_body;
  // Once it was decided only the rows before that have it.
  EventFilter rows;
  rows.operation = operation;
  rows.after = event->approval->asked_row - 1;
  rows.up_to = event->id;
  rows.with_answers = true;
  if (!is_pending) {
    const auto page = parts_.ledger.List(rows);
    if (!page) return NoLedger(page.error().detail());
    for (const Event& earlier : page->events) {
      if (!IsClaim(earlier.phase) || !earlier.request || !earlier.approval) continue;
      request = earlier.request;
      original = earlier.approval->original_body;
    }
  }
  const std::string summary =
      is_pending ? SummaryOf(*event, parts_.policy(event->approval->policy)) : std::string();
  return JsonAnswer(ApprovalJson(*event, summary, request ? &*request : nullptr,
                                 original ? &*original : nullptr, CredentialsOf(*event),
                                 EarlierCalls(*event), pods_));
}

// Of what is still to be sent; under another policy it never is.
std::vector<std::string> ApprovalApi::CredentialsOf(const Event& event) const {
  const auto policy = parts_.policy(event.approval->policy);
  const Tool* const tool = policy->FindTool(event.tool);
  std::vector<std::string> names;
  if (!IsClaim(event.phase) || policy->digest != event.approval->policy) return names;
  if (tool == nullptr || !tool->approval) return names;
  for (const SecretHeader& secret : tool->approval->secrets) names.push_back(secret.name);
  for (const SecretHeader& secret : SecretsOf(policy->backends[tool->backend], tool)) {
    if (std::ranges::find(names, secret.name) == names.end()) names.push_back(secret.name);
  }
  return names;
}

std::vector<Event> ApprovalApi::EarlierCalls(const Event& event) {
  std::map<std::uint64_t, Event> calls;
  EventFilter rows;
  rows.back = limits::kEarlierRows;
  rows.up_to = event.id;
  rows.limit = limits::kAdminPageMax;
  for (bool more = true; more;) {
    auto page = parts_.ledger.List(rows);
    if (!page) break;
    for (Event& one : page->events) {
      rows.after = one.id;
      if (one.caller != event.caller || one.operation == event.operation) continue;
      if (one.undoes != 0) continue;  // no agent has made that call
      calls.insert_or_assign(one.operation, std::move(one));
      if (calls.size() > limits::kEarlierCallsMax) calls.erase(calls.begin());
    }
    more = page->more && !page->events.empty();
  }
  std::vector<Event> newest_first;
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    newest_first.push_back(std::move(call->second));
  }
  return newest_first;
}

std::string ApprovalApi::ObjectionTo(const Event& event, const std::string& body) {
  const auto policy = parts_.policy(event.approval->policy);
  if (std::string objection = ObjectionToEdit(event, body, *policy); !objection.empty())
    return objection;
  Event edited = event;
  edited.request->body = body;
  const auto context = ApprovedCall(edited, policy);
  if (!context) return context.error();
  PreparedCall prepared;
  const auto done = PrepareCall(**context, HmacKey({}), prepared);
  return done ? std::string() : RefusalDetail(**context, done.error());
}

// Of the policy in force and of that which asked.
std::vector<CallersRule> ApprovalApi::CallersOf(const Event& event) const {
  return {parts_.policy({})->callers, parts_.policy(event.approval->policy)->callers};
}

std::string ApprovalApi::WhyNotTheirs(const Event& event, const Operator& who) const {
  const AskedCall call{event.caller, event.request ? &event.request->headers : nullptr};
  for (const CallersRule& callers : CallersOf(event)) {
    const std::string own = OwnNameIn(call, who, callers);
    if (own.empty()) continue;
    return fmt::format(
        "who makes a call can never approve it: by your name {} you are its caller, {}", own,
        event.caller);
  }
  const auto& by = event.approval->by;
  const auto asks = [&](const std::string& name) {
    return std::ranges::find(by, name) != by.end();
  };
  if (!who.is_group_name || !asks(who.name) || std::ranges::any_of(who.groups, asks)) return {};
  return fmt::format("{} is the name of a group, which names no person; you are in none of: {}",
                     who.name, fmt::join(by, ", "));
}

// Of several approvers each is another person.
std::string ApprovalApi::WhyNotTwice(const Event& event, const Operator& who) const {
  for (const CallersRule& callers : CallersOf(event)) {
    for (const std::string& name : NamesOf(who, callers)) {
      const auto is_theirs = [&](const ApprovalDecision& one) {
        return !one.is_late && !one.is_void && one.who == name && name != who.name;
      };
      if (!std::ranges::any_of(event.approval->decisions, is_theirs)) continue;
      return "you have approved it already, as " + name + "; another one must too";
    }
  }
  return {};
}

HttpResponse ApprovalApi::Decide(ApprovalOrder order, const AccessControl::Visit& visit,
                                 const HttpRequest& request) {
  const Operator& who = visit.who;
  const bool is_approve = visit.endpoint->path == admin_paths::kApprove;
  order.kind = is_approve ? ApprovalOrder::Kind::kApprove : ApprovalOrder::Kind::kReject;
  if (const auto read = ReadOrder(request.body, is_approve, order); !read) {
    return Problem(400, "Bad body", read.error());
  }
  if (parts_.policy({})->mode == Mode::kObserve) {
    return Problem(409, "Not done", "observe mode sends nothing of its own");
  }
  const auto event = Find(order.operation);
  if (!event) return event.error();
  order.key = event->key;
  if (const std::string why = WhyNotTheirs(*event, who); !why.empty()) {
    return Problem(403, "Not yours to decide", why);
  }
  if (const std::string why = WhyNotTwice(*event, who); is_approve && !why.empty()) {
    return Problem(409, "Not done", why);
  }
  if (order.body && event->phase == Phase::kClaimed) {
    const std::string objection = ObjectionTo(*event, *order.body);
    if (!objection.empty()) return Problem(422, "That body cannot be sent", objection);
  }
  const std::uint64_t operation = order.operation;
  const auto outcome = parts_.runner.Decide(std::move(order));
  if (!outcome) return NoLedger(outcome.error());
  return outcome->kind == Ruling::kTaken ? Show(operation) : Refused(*outcome);
}

JsonShape ApprovalPageShape() { return {"ApprovalPage", "", DocsOf(approval_page_members::kPage)}; }

}  // namespace recourse
