#include "proxy/cli/operation_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "filters/ledger/model/event.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/watch_limits.h"
#include "proxy/cli/api_call.h"
#include "proxy/cli/ledger_states.h"
#include "proxy/cli/table.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

constexpr Column kOperationColumns[] = {
    {"OPERATION", 9, Column::Kind::kWhole, 0, Column::Side::kRight},
    {"TIME", 24, Column::Kind::kTime},
    {"PHASE", 11, Column::Kind::kWhole},
    {"TRY", 3, Column::Kind::kExtra, 3, Column::Side::kRight},
    {"TOOL", 22, Column::Kind::kText, 16},
    {"EXTERNAL REF", 14, Column::Kind::kText, 8},
    {"FLOW", 32, Column::Kind::kExtra, 9},
};

// What observe mode saw is in no flow, and nothing waits for it.
std::string FlowOf(const Json& operation) {
  return operation.Find("verdict") == nullptr ? Printable(operation, "flow") : "(observed)";
}

void AddOperationRow(PodTable& table, const Json& operation) {
  table.Row(operation,
            {Printable(operation, "operation"), Printable(operation, "time"),
             Printable(operation, "phase"), Printable(operation, "attempt"), ToolOrUndo(operation),
             Printable(operation, "external_ref"), FlowOf(operation)});
}

// What is asked for to settle it. Of what observe mode saw nobody has to.
bool IsWaiting(const OperationQuery& query) { return query.phase == NameOf(Phase::kUncertain); }

std::string PageTarget(const OperationQuery& query, std::uint64_t left, const std::string& before) {
  std::string target = fmt::format("{}?limit={}", admin_paths::kOperations,
                                   std::min<std::uint64_t>(left, limits::kOperationsPageMax));
  if (IsWaiting(query)) target += "&observed=false";
  for (const auto& [name, value] : {std::pair("phase", &query.phase),
                                    {"tool", &query.tool},
                                    {"pod", &query.pod},
                                    {"status", &query.status},
                                    {"trace", &query.trace},
                                    {"flow", &query.flow},
                                    {"caller", &query.caller},
                                    {"value", &query.value},
                                    {"before", &before}}) {
    if (!value->empty()) target += fmt::format("&{}={}", name, PercentEncode(*value));
  }
  return target;
}

std::string BodyOf(const SettleArguments& order) {
  return ObjectText([&](JsonObject& json) {
    json.Text("as", order.as);
    json.Text("reason", order.reason);
    json.TextIfAny("external_ref", order.external_ref);
    json.TextIfAny("by", order.by);
  });
}

}  // namespace

int ListOperations(const ApiClient& client, const OperationQuery& query, std::ostream& out,
                   std::ostream& err) {
  std::uint64_t left = query.limit;
  std::string before;
  std::string json = "[";
  PodTable table(out, kOperationColumns);
  LedgerStates states(err);
  do {
    const auto text = Call(client, "GET", PageTarget(query, left, before));
    if (!text) return Fail(err, text.error());
    const auto page = ParseJson(*text);
    const Json* operations = page ? page->Find("operations") : nullptr;
    if (operations == nullptr) return Fail(err, kNotUnderstood);
    states.Tell(*page);
    left -= std::min<std::uint64_t>(left, operations->items.size());
    before = Printable(*page, "older");
    if (client.json) {
      AppendItems(json, *text, "operations");
      continue;
    }
    for (const Json& operation : operations->items) AddOperationRow(table, operation);
    table.Flush();
    if (before.empty() && !table.is_begun()) out << "none\n";
  } while (left > 0 && !before.empty());
  if (client.json) out << json << "]\n";
  return states.exit_code();
}

int ShowOperation(const ApiClient& client, const std::string& id, std::ostream& out,
                  std::ostream& err) {
  const auto text = Call(client, "GET", admin_paths::FillPlace(admin_paths::kEvent, id));
  if (!text) return Fail(err, text.error());
  const auto event = ParseJson(*text);
  const std::string operation = event ? Printable(*event, "operation") : std::string();
  if (operation.empty()) return Fail(err, id + " is the number of no operation's event");
  std::string last;
  for (std::string after = "0"; !after.empty();) {
    const auto events = Call(client, "GET",
                             admin_paths::kEvents + ("?operation=" + PercentEncode(operation) +
                                                     "&after=" + PercentEncode(after)));
    if (!events) return Fail(err, events.error());
    const auto page = ParseJson(*events);
    const Json* const rows = page ? page->Find("events") : nullptr;
    if (rows == nullptr) return Fail(err, kNotUnderstood);
    if (!rows->items.empty()) last = Printable(rows->items.back(), "event_id");
    after = Printable(*page, "next");
  }
  return ShowEvent(client, last, out, err);
}

int SettleOperation(const ApiClient& client, const SettleArguments& order, std::ostream& out,
                    std::ostream& err) {
  const auto event = Show(client,
                          HttpRequest{"POST",
                                      admin_paths::FillPlace(admin_paths::kSettle, order.id),
                                      {{"Content-Type", "application/json"}},
                                      BodyOf(order)},
                          out, err);
  if (!event) return event.error();
  out << "operation " << Printable(*event, "operation") << " is " << Printable(*event, "phase");
  if (const std::string ref = Printable(*event, "external_ref"); !ref.empty()) {
    out << ", external ref " << ref;
  }
  out << "\n";
  return kExitOk;
}

}  // namespace recourse
