#include "proxy/console/ledger_ids.h"

#include <algorithm>
#include <array>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

// tests/e2e/test_console.py holds them to openapi.json.
constexpr std::array<std::string_view, 18> kIdMembers = {
    "event",   "event_id", "example", "first",  "first_event",    "flow_number",
    "last",    "newer",    "next",    "number", "older",          "operation",
    "related", "repeat",   "row",     "step",   "undo_operation", "undoes"};
constexpr std::array<std::string_view, 4> kIdParameters = {"after", "before", "up_to", "operation"};

// Where a ledger says that there is none, it is so everywhere. What it calls an id of another one
// is none there.
bool IsIdText(std::string_view text) {
  return ParseRowId(text).value_or(0) != 0 || SplitLedgerId(text).has_value();
}

// What `change` makes of each id, and all else as it is.
void AppendChanged(std::string& out, const Json& value, bool is_id, const auto& change) {
  if (value.kind == Json::Kind::kObject) {
    JsonObject object(out);
    for (const auto& [name, member] : value.members) {
      AppendChanged(object.ForeignValue(name), member, IsIdMember(name), change);
    }
    return;
  }
  if (value.kind == Json::Kind::kArray) {
    JsonList list(out);
    for (const Json& item : value.items) AppendChanged(list.Value(), item, is_id, change);
    return;
  }
  if (is_id && !change(out, ScalarText(value))) return;
  AppendPlainJson(out, value);
}

}  // namespace

bool IsIdMember(std::string_view name) {
  return std::ranges::find(kIdMembers, name) != kIdMembers.end();
}
bool IsIdParameter(std::string_view name) {
  return std::ranges::find(kIdParameters, name) != kIdParameters.end();
}

void AppendOfLedger(std::string& out, const Json& value, std::string_view ledger) {
  AppendChanged(out, value, false, [&](std::string& text, const std::string& id) {
    if (!IsIdText(id)) return true;
    AppendJsonString(text, std::string(ledger) + ":" + id);
    return false;
  });
}

std::expected<std::string, std::string> LedgerOfBody(std::string_view body) {
  if (body.empty()) return "";
  const auto json = ParseJson(body);
  if (!json) return std::unexpected("the body is no JSON");
  std::string ledger, left;
  bool is_of_two = false;
  AppendChanged(left, *json, false, [&](std::string&, const std::string& id) {
    if (const auto split = SplitLedgerId(id)) {
      is_of_two = is_of_two || (!ledger.empty() && ledger != split->ledger);
      ledger = split->ledger;
    }
    return true;
  });
  if (is_of_two) return std::unexpected("the body names two ledgers");
  return ledger;
}

std::string BodyForLedger(std::string_view body) {
  const auto json = body.empty() ? ParseJson("null") : ParseJson(body);
  if (!json || body.empty()) return std::string(body);
  std::string own;
  AppendChanged(own, *json, false, [](std::string& out, const std::string& id) {
    const auto split = SplitLedgerId(id);
    if (!split) return true;
    out += RowIdJson(ParseRowId(split->id).value_or(0));
    return false;
  });
  return own;
}

std::optional<LedgerCursors> ParseLedgerCursors(std::string_view text) {
  LedgerCursors cursors;
  while (!text.empty()) {
    const auto end = std::min(text.find('~'), text.size());
    const std::string_view one = text.substr(0, end);
    const auto equals = one.find('=');
    if (equals == one.npos || !IsLedgerName(one.substr(0, equals))) return std::nullopt;
    cursors.emplace(one.substr(0, equals), one.substr(equals + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return cursors.empty() ? std::nullopt : std::optional(std::move(cursors));
}

std::string PrintLedgerCursors(const LedgerCursors& cursors) {
  std::string text;
  for (const auto& [ledger, cursor] : cursors) {
    text.append(text.empty() ? "" : "~").append(ledger).append("=").append(cursor);
  }
  return text;
}

}  // namespace recourse
