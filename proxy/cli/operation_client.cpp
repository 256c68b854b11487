#include "proxy/cli/operation_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "proxy/base/json/json_object.h"
#include "proxy/base/watch_limits.h"
#include "proxy/cli/api_call.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

constexpr std::string_view kRow = "{:>9}  {:<24}  {:<13}  {:>3}  {:<22}  {:<20}  {}\n";

void PrintOperationRow(std::ostream& out, const Json& operation) {
  out << fmt::format(fmt::runtime(kRow), Printable(operation, "operation"),
                     Printable(operation, "time"), Printable(operation, "phase"),
                     Printable(operation, "attempt"), Printable(operation, "tool"),
                     Printable(operation, "external_ref"), Printable(operation, "flow"));
}

std::string PageTarget(const OperationQuery& query, std::uint64_t left, const std::string& before) {
  std::string target = fmt::format("/operations?limit={}",
                                   std::min<std::uint64_t>(left, limits::kOperationsPageMax));
  if (!query.phase.empty()) target += "&phase=" + PercentEncode(query.phase);
  if (!query.tool.empty()) target += "&tool=" + PercentEncode(query.tool);
  if (!before.empty()) target += "&before=" + before;
  return target;
}

std::string BodyOf(const SettleArguments& order) {
  std::string body;
  {
    JsonObject json(body);
    json.Text("as", order.as);
    json.Text("reason", order.reason);
    json.TextIfAny("external_ref", order.external_ref);
    json.TextIfAny("by", order.by);
  }
  return body;
}

}  // namespace

int ListOperations(const ApiClient& client, const OperationQuery& query, std::ostream& out,
                   std::ostream& err) {
  std::uint64_t left = query.limit;
  std::string before;
  std::string json = "[";
  bool is_headed = client.json;
  do {
    const auto text = Call(client, "GET", PageTarget(query, left, before));
    if (!text) return Fail(err, text.error());
    const auto page = ParseJson(*text);
    const Json* operations = page ? page->Find("operations") : nullptr;
    if (operations == nullptr) return Fail(err, kNotUnderstood);
    left -= std::min<std::uint64_t>(left, operations->items.size());
    before = Printable(*page, "older");
    if (client.json) {
      // The operations' own text, as the server wrote it.
      const auto first = text->find('[') + 1;
      const auto last = text->rfind("],\"older\":");
      if (json.size() > 1 && last > first) json += ",";
      json.append(*text, first, last - first);
      continue;
    }
    if (!std::exchange(is_headed, true)) {
      out << fmt::format(fmt::runtime(kRow), "OPERATION", "TIME", "PHASE", "TRY", "TOOL",
                         "EXTERNAL REF", "FLOW");
    }
    for (const Json& operation : operations->items) PrintOperationRow(out, operation);
  } while (left > 0 && !before.empty());
  if (client.json) out << json << "]\n";
  return kExitOk;
}

int SettleOperation(const ApiClient& client, const SettleArguments& order, std::ostream& out,
                    std::ostream& err) {
  const auto event = Show(client,
                          HttpRequest{"POST",
                                      "/operations/" + PercentEncode(order.id) + "/settle",
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
