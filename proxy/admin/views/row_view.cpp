#include "proxy/admin/views/row_view.h"

#include <optional>
#include <variant>

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/admin/views/member_kinds.h"

namespace recourse {
namespace {

namespace row_members {

constexpr JsonMember<PolicyChange> kPolicyChange[] = {
    member::Word<[](const PolicyChange& of) {
      return of.cause == PolicyChange::Cause::kStart ? "start" : "reload";
    }>("cause", R"({"type": "string", "enum": ["start", "reload"]})"),
    member::Text<&PolicyChange::version>("version"),
    member::Hash<&PolicyChange::digest>("digest"),
};
constexpr JsonMember<OperatorOrder> kOrder[] = {
    member::Word<&OperatorOrder::what>(
        "what", R"({"type": "string", "enum": ["drain", "ledger.accept", "ledger.backup", )"
                R"("ledger.takeover", "log-level.debug", "log-level.info", "log-level.warn", )"
                R"("log-level.error", "policy.reload"]})"),
    member::Text<&OperatorOrder::who>("who"),
    member::Text<&OperatorOrder::reason>("reason"),
    member::Text<&OperatorOrder::policy_version>("policy_version"),
    member::Hash<&OperatorOrder::policy>("policy_digest"),
};

// What is told of a row of that kind; nullptr: it is of another.
template <class Told>
constexpr auto kTold = [](const LoggedRow& row) -> std::optional<Told> {
  const Told* const told = std::get_if<Told>(&row.told);
  return told == nullptr ? std::nullopt : std::optional(*told);
};
constexpr JsonMember<LoggedRow> kRow[] = {
    member::Id<[](const LoggedRow& row) { return row.head.seq; }>("number"),
    member::Named<[](const LoggedRow& row) { return row.head.kind; }>(
        "kind", R"({"type": "string", "enum": ["event", "answered", "epoch", "alias", "policy", )"
                R"("retired", "flow", "order"]})"),
    member::Time<[](const LoggedRow& row) { return row.head.wall_ms; }>("time"),
    member::Number<[](const LoggedRow& row) { return row.head.epoch; }>("epoch"),
    member::Hash<[](const LoggedRow& row) { return row.head.prev_hash; }>("prev",
                                                                          "Hash of the row before"),
    member::Hash<[](const LoggedRow& row) { return RowHash(row.bytes); }>(
        "hash", "SHA-256 of the row's bytes"),
    member::Text<[](const LoggedRow& row) { return ToBase64(row.bytes); }>("row",
                                                                           "Its bytes in base64"),
    member::Own({"event", "Event", "", /*may_lack=*/true},
                [](JsonObject& json, std::string_view name, const LoggedRow& row) {
                  const Event* const event = std::get_if<Event>(&row.told);
                  if (event != nullptr) AppendEvent(json.Value(name), *event);
                }),
    member::Own({"flow", "FlowMove", "", /*may_lack=*/true},
                [](JsonObject& json, std::string_view name, const LoggedRow& row) {
                  const FlowMoved* const moved = std::get_if<FlowMoved>(&row.told);
                  if (moved != nullptr) AppendFlowMoved(json.Value(name), *moved);
                }),
    member::Object<kTold<PolicyChange>, kPolicyChange>("policy").MayLack(),
    member::Object<kTold<OperatorOrder>, kOrder>("order", "",
                                                 "Of an operator; no other row tells of it.")
        .MayLack(),
};

}  // namespace row_members
}  // namespace

void AppendRowLine(std::string& out, const LoggedRow& row) {
  {
    JsonObject json(out);
    WriteMembers(json, row_members::kRow, row);
  }
  out.push_back('\n');
}

std::vector<JsonShape> RowShapes() {
  return {{"ChainRow", "A row of the hash chain, and what people read of it.",
           DocsOf(row_members::kRow)}};
}

}  // namespace recourse
