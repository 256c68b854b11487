#include "proxy/admin/views/row_view.h"

#include <variant>

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

// What is told of a row, as a member of the row's object.
struct Teller {
  JsonObject& row;

  void operator()(std::monostate) const {}
  void operator()(const Event& event) const { AppendEvent(row.Value("event"), event); }
  void operator()(const FlowMoved& moved) const { AppendFlowMoved(row.Value("flow"), moved); }
  void operator()(const PolicyChange& change) const {
    JsonObject json(row.Value("policy"));
    json.Text("cause", change.cause == PolicyChange::Cause::kStart ? "start" : "reload");
    json.Text("version", change.version);
    json.Text("digest", ToHex(change.digest));
  }
  void operator()(const OperatorOrder& order) const {
    JsonObject json(row.Value("order"));
    json.Text("what", order.what);
    json.Text("who", order.who);
    json.Text("reason", order.reason);
    json.Text("policy_version", order.policy_version);
    json.Text("policy_digest", ToHex(order.policy));
  }
};

}  // namespace

void AppendRowLine(std::string& out, const LoggedRow& row) {
  {
    JsonObject json(out);
    json.Raw("number", RowIdJson(row.head.seq));
    json.Text("kind", NameOf(row.head.kind));
    json.Text("time", Rfc3339Millis(row.head.wall_ms));
    json.Number("epoch", row.head.epoch);
    json.Text("prev", ToHex(row.head.prev_hash));
    json.Text("hash", ToHex(RowHash(row.bytes)));
    json.Text("row", ToBase64(row.bytes));
    std::visit(Teller{json}, row.told);
  }
  out.push_back('\n');
}

}  // namespace recourse
