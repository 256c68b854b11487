#include "proxy/admin/views/event_view.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/rows/row_codec.h"
#include "policy/template/own_terms.h"
#include "policy/undo/undo_class.h"
#include "proxy/admin/views/member_kinds.h"
#include "proxy/admin/views/message_view.h"

namespace recourse {
namespace {

constexpr std::string_view kHidden = "[credential]";

void WriteRequest(JsonObject& json, std::string_view name,
                  const std::optional<RenderedRequest>& request) {
  if (!request) return;
  Headers fields = request->headers;
  DropTerms(fields);
  WriteMessage(json, name,
               {.method = request->method,
                .target = ShownTarget(request->target, kHidden),
                .headers = fields,
                .body = request->body,
                .hidden = kHidden});
}

std::string_view NameOf(ApprovalDecision::Kind kind) {
  switch (kind) {
    case ApprovalDecision::Kind::kApproved:
      return "approved";
    case ApprovalDecision::Kind::kEdited:
      return "edited";
    case ApprovalDecision::Kind::kRejected:
      return "rejected";
  }
  return "";
}

bool IsDecided(const Event& event) { return event.approval && !event.approval->decisions.empty(); }

namespace event_members {

using member::Bool, member::Hash, member::Id, member::Named, member::Number, member::Text,
    member::TextIfAny, member::Time, member::Word;

constexpr JsonMember<ApprovalDecision> kDecision[] = {
    Word<[](const ApprovalDecision& of) { return NameOf(of.kind); }>(
        "decision", R"({"type": "string", "enum": ["approved", "edited", "rejected"]})"),
    Text<&ApprovalDecision::who>("who"),
    Text<&ApprovalDecision::reason>("reason"),
    Time<&ApprovalDecision::wall_ms>("time"),
    Hash<&ApprovalDecision::digest>("digest"),
    Bool<[](const ApprovalDecision& of) { return !of.is_late && !of.is_void; }>("counts"),
    Bool<&ApprovalDecision::is_late>("late"),
};

constexpr JsonMember<Event> kEvent[] = {
    Id<&Event::id>("event_id"),
    Id<&Event::operation>("operation", "The first event of its operation"),
    Hash<&Event::key>("idempotency_key"),
    Text<&Event::tool>("tool"),
    Text<&Event::backend>("backend"),
    TextIfAny<[](const Event& event) {
      return event.undo_class != UndoClass::kRead ? UndoClassName(event.undo_class)
                                                  : std::string_view();
    }>("class", "", "UndoClass"),
    Hash<&Event::args_hash>("args_hash"),
    Named<&Event::status>("status", "Status"),
    Named<&Event::phase>("phase", "Phase"),
    Number<&Event::attempt>("attempt"),
    Text<&Event::external_ref>("external_ref"),
    Text<&Event::trace_id>("trace_id"),
    Text<&Event::flow>("flow"),
    Text<&Event::flow_name>("flow_name"),
    Id<&Event::undoes>("undoes", "The operation that it undoes; 0: none"),
    Text<&Event::caller>("caller"),
    Text<&Event::policy_version>("policy_version"),
    Number<&Event::epoch>("epoch"),
    Time<&Event::wall_ms>("time"),
    Named<&Event::cause>("cause", "Cause"),
    Text<&Event::method>("method", "tools/call: of an MCP tool, whose name is `path`"),
    Text<&Event::path>("path"),
    Number<&Event::http_status>("http_status", "0: none"),
    Bool<[](const Event& event) { return event.undo.has_value(); }>(
        "undo", "An undo request was rendered for it"),
    Text<&Event::detail>("detail"),
    TextIfAny<[](const Event& event) {
      return event.verdict != ObserveVerdict::kNone ? NameOf(event.verdict) : std::string_view();
    }>("verdict", "", "Verdict"),
    Id<[](const Event& event) {
      return event.verdict != ObserveVerdict::kNone ? std::optional(event.related) : std::nullopt;
    }>("related")
        .MayLack(),
    member::Own({"decisions", "ApprovalDecision", "Of humans, if it needed any; not in lists",
                 /*may_lack=*/true, /*is_list=*/true},
                [](JsonObject& json, std::string_view name, const Event& event) {
                  if (IsDecided(event)) json.Each(name, event.approval->decisions, AppendDecision);
                }),
    Hash<[](const Event& event) {
      return IsDecided(event) ? std::optional(event.approval->policy) : std::nullopt;
    }>("policy_digest", "Of the policy that they decided under")
        .MayLack(),
};

// Their messages are `KeptMessage`.
using Kept = std::optional<RenderedRequest>;
template <Kept Event::* kRequest>
constexpr auto KeptRequest(std::string_view name) {
  return member::Own({name, "KeptMessage", "", /*may_lack=*/true},
                     [](JsonObject& json, std::string_view as, const Event& event) {
                       WriteRequest(json, as, event.*kRequest);
                     });
}
constexpr JsonMember<Event> kKept[] = {
    member::Own({"answer", "KeptMessage", "", /*may_lack=*/true},
                [](JsonObject& json, std::string_view name, const Event& event) {
                  if (event.answer_kept) WriteResponse(json, name, event.answer, kHidden);
                }),
    KeptRequest<&Event::request>("request"),
    member::Raw<[](const Event& event) {
      return event.request_left_out ? std::optional("true") : std::nullopt;
    }>("request_left_out", R"({"const": true})")
        .MayLack(),
    KeptRequest<&Event::settle>("settle_request"),
    KeptRequest<&Event::task>("task_request"),
    KeptRequest<&Event::undo>("undo_request"),
};

constexpr JsonMember<FlowMoved> kFlowMove[] = {
    Id<&FlowMoved::id>("event_id"),
    member::Raw<[](const FlowMoved&) { return R"("flow")"; }>("kind", R"({"const": "flow"})"),
    Id<&FlowMoved::number>("flow_number"),
    Text<&FlowMoved::flow>("flow"),
    Text<&FlowMoved::flow_name>("flow_name"),
    Text<&FlowMoved::caller>("caller"),
    Named<&FlowMoved::phase>("phase", "FlowPhase"),
    Named<&FlowMoved::cause>("cause", "FlowCause"),
    Text<&FlowMoved::reason>("reason"),
    Number<&FlowMoved::steps>("steps"),
    Number<&FlowMoved::undone>("undone"),
    Text<&FlowMoved::policy_version>("policy_version"),
    Time<&FlowMoved::wall_ms>("time"),
};

constexpr JsonMember<VerifyReport> kVerified[] = {
    Bool<&VerifyReport::ok>("ok"),
    Number<[](const VerifyReport& of) {
      const std::uint32_t stream = UnpackRowId(of.last_id).stream;
      return stream != 0 ? std::optional(stream) : std::nullopt;
    }>("stream", "Of a shared ledger: the one that this process writes, which alone was checked")
        .MayLack(),
    Id<&VerifyReport::first_id>("first_id"),
    Text<&VerifyReport::base>("base"),
    Number<&VerifyReport::rows>("rows"),
    Id<&VerifyReport::last_id>("last_id"),
    Text<&VerifyReport::head>("head"),
    Text<&VerifyReport::problem>("problem"),
    Id<[](const VerifyReport& of) { return of.ok ? std::nullopt : std::optional(of.bad_row); }>(
        "bad_row")
        .MayLack(),
    Text<[](const VerifyReport& of) { return of.ok ? std::nullopt : std::optional(of.check); }>(
        "check")
        .MayLack(),
};

constexpr JsonMember<LedgerStats> kLedger[] = {
    Bool<&LedgerStats::latched>("latched", "A commit failed: writes are refused until a restart"),
    Bool<&LedgerStats::is_full>("full"),
    Bool<&LedgerStats::is_index_failing>("index_failing",
                                         "The key index cannot be written and grows in memory"),
    Bool<&LedgerStats::restored>("restored", "A restore from a backup is not accepted yet"),
    Bool<&LedgerStats::is_away>("away", "Its database does not answer: new writes are refused"),
    TextIfAny<&LedgerStats::refused>("refused",
                                     "Why its database takes no new writes, although it answers"),
    Time<&LedgerStats::counted_ms>(
        "counted",
        "Of a shared ledger: when what is told of all pods was so. Without it that is not known")
        .MayLack(),
    TextIfAny<&LedgerStats::not_opened>("not_opened", "Why nothing is recorded; observe mode only"),
    Id<&LedgerStats::first_id>("first_id"),
    Id<&LedgerStats::last_id>("last_id"),
    Number<&LedgerStats::rows>("rows"),
    Number<&LedgerStats::operations>("operations"),
    Number<&LedgerStats::running>("running"),
    Number<&LedgerStats::uncertain>("uncertain"),
    Number<&LedgerStats::tombstones>("tombstones"),
    Number<&LedgerStats::locked_carried>("locked_carried"),
    Number<&LedgerStats::used_bytes>("used_bytes"),
    Number<&LedgerStats::free_bytes>(
        "free_bytes", "Set aside for what comes; more is as it is needed while the disk has room"),
    Number<&LedgerStats::reserve_bytes>("reserve_bytes"),
    Number<&LedgerStats::map_bytes>("size_limit_bytes"),
    Hash<&LedgerStats::identity>("identity", "", kTextSchema),
    Hash<&LedgerStats::head>("head"),
    Number<[](const LedgerStats&) { return kRowFormatVersion; }>("row_format"),
    Number<[](const LedgerStats& of) { return of.oldest_row_ms / 1000; }>("oldest_row_s"),
    Number<[](const LedgerStats& of) { return of.retention_lag_ms / 1000; }>("retention_lag_s"),
};

}  // namespace event_members
}  // namespace

std::string Rfc3339Millis(std::int64_t unix_millis) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(unix_millis / 1000)), unix_millis % 1000);
}

void AppendDecision(std::string& out, const ApprovalDecision& decision) {
  JsonObject json(out);
  WriteMembers(json, event_members::kDecision, decision);
}

void AppendEvent(std::string& out, const Event& event, PodNames* pods) {
  JsonObject json(out);
  WriteMembers(json, event_members::kEvent, event);
  if (pods != nullptr) pods->Write(json, event.id);
}

void AppendEventWithAnswer(std::string& out, const Event& event, PodNames* pods) {
  JsonObject json(out);
  WriteMembers(json, event_members::kEvent, event);
  if (pods != nullptr) pods->Write(json, event.id);
  WriteMembers(json, event_members::kKept, event);
}

void AppendFlowMoved(std::string& out, const FlowMoved& moved, PodNames* pods) {
  JsonObject json(out);
  WriteMembers(json, event_members::kFlowMove, moved);
  if (pods != nullptr) pods->Write(json, moved.id);
}

void LeaveRowsOf(const std::function<bool(std::uint64_t row)>& is_of, EventPage& page) {
  EventPage left;
  EachRow(
      page,
      [&](const FlowMoved& moved) {
        if (!is_of(moved.id)) return;
        left.flows.push_back(moved);
        left.flows.back().events_before = left.events.size();
      },
      [&](const Event& event) {
        if (is_of(event.id)) left.events.push_back(event);
      });
  page.events = std::move(left.events);
  page.flows = std::move(left.flows);
}

std::string NextOf(const EventPage& page) {
  return page.more && page.last_id > 0 ? RowIdJson(page.last_id) : "null";
}

std::string ToJson(const VerifyReport& report) {
  return ObjectText(
      [&](JsonObject& json) { WriteMembers(json, event_members::kVerified, report); });
}

std::string ToJson(const LedgerStats& stats) {
  return ObjectText([&](JsonObject& json) { WriteMembers(json, event_members::kLedger, stats); });
}

JsonShape EventWithMessages() { return {"", "", DocsOf(event_members::kKept), "EventFacts"}; }

std::vector<JsonShape> EventShapes() {
  return {
      {"EventFacts", "One row of the log. `verdict` and `related` are there in observe mode.",
       DocsOf(event_members::kEvent, kPodMembers), "", /*is_base=*/true},
      {"Event", "", {}, "EventFacts"},
      {"FlowMove", "A row of the log that says what became of a flow.",
       DocsOf(event_members::kFlowMove, kPodMembers)},
      {"ApprovalDecision", "", DocsOf(event_members::kDecision)},
      {"Ledger", "", DocsOf(event_members::kLedger)},
      {"Verified", "", DocsOf(event_members::kVerified)},
  };
}

}  // namespace recourse
