#include "proxy/console/merge.h"

#include <algorithm>
#include <array>
#include <utility>

#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/api/query_params.h"
#include "proxy/config/build_commit.h"

namespace recourse {
namespace {

constexpr std::array<ListForm, 4> kLists = {{
    {admin_paths::kApprovals, "approvals", "asked"},
    {admin_paths::kEvents, "events", "time"},
    {admin_paths::kFlows, "flows", "began"},
    {admin_paths::kOperations, "operations", "time", true},
}};
constexpr std::array<std::string_view, 4> kCursors = {"last", "newer", "next", "older"};

struct MergedRow {
  std::string time, text;
  std::size_t at = 0;
};

MergedRow RowOf(const Json& row, std::string_view time, std::string_view ledger) {
  MergedRow merged{.time = ScalarText(row, time), .text = {}, .at = 0};
  AppendOfLedger(merged.text, row, ledger);
  if (row.kind == Json::Kind::kObject) {
    AppendMembers(merged.text, [&](JsonObject& json) { json.Text("ledger", ledger); });
  }
  return merged;
}

// Of the same time as they came.
void Sort(const ListForm& form, std::vector<MergedRow>& rows) {
  for (std::size_t at = 0; at < rows.size(); ++at) rows[at].at = at;
  std::ranges::sort(rows, [&](const MergedRow& a, const MergedRow& b) {
    if (a.time == b.time) return a.at < b.at;
    return form.is_newest_first ? a.time > b.time : a.time < b.time;
  });
}

// From where each goes on that has more.
LedgerCursors CursorsOf(std::string_view name, std::span<const LedgerAnswer> answers) {
  LedgerCursors cursors;
  for (const LedgerAnswer& answer : answers) {
    const std::string cursor = ScalarText(answer.json, name);
    if (!cursor.empty()) cursors.emplace(answer.ledger, cursor);
  }
  return cursors;
}

void WriteCursors(JsonObject& json, std::span<const LedgerAnswer> answers,
                  const LedgerCursors& kept) {
  for (const std::string_view name : kCursors) {
    const bool is_there = std::ranges::any_of(
        answers, [&](const LedgerAnswer& one) { return one.json.Find(name) != nullptr; });
    LedgerCursors cursors = CursorsOf(name, answers);
    if (name == "next") cursors.insert(kept.begin(), kept.end());
    if (!is_there && cursors.empty()) continue;
    if (cursors.empty()) {
      json.Raw(name, "null");
    } else {
      json.Text(name, PrintLedgerCursors(cursors));
    }
  }
}

std::uint64_t NumberAt(const Json& json, std::string_view group, std::string_view name) {
  const Json* const of = group.empty() ? &json : json.Find(group);
  const Json* const found = of != nullptr ? of->Find(name) : nullptr;
  std::uint64_t number = 0;
  return found != nullptr && ParseNumber(ScalarText(*found), number) ? number : 0;
}

std::uint64_t SumOf(std::span<const LedgerAnswer> answers, std::string_view group,
                    std::string_view name) {
  std::uint64_t sum = 0;
  for (const LedgerAnswer& answer : answers) sum += NumberAt(answer.json, group, name);
  return sum;
}

// Their items one after the other.
void WriteItems(JsonObject& json, std::string_view name, std::span<const LedgerAnswer> answers) {
  JsonList list = json.List(name);
  for (const LedgerAnswer& answer : answers) {
    const Json* const items = answer.json.Find(name);
    if (!IsArray(items)) continue;
    for (const Json& item : items->items) list.Value() += RowOf(item, "", answer.ledger).text;
  }
}

}  // namespace

void WriteLedgers(JsonObject& json, std::span<const RemoteState> states) {
  json.Objects("ledgers", states, [](JsonObject& one, const RemoteState& state) {
    one.Text("name", state.name);
    one.Text("state", state.state);
    one.TextIfAny("why", state.why);
    one.TextIfAny("who", state.who);
    one.Texts("roles", state.roles);
  });
}

const ListForm* ListFormOf(std::string_view path) {
  const auto form = std::ranges::find(kLists, path, &ListForm::path);
  return form == kLists.end() ? nullptr : &*form;
}

std::string MergedPage(const ListForm& form, std::span<const LedgerAnswer> answers,
                       std::span<const RemoteState> states) {
  std::vector<MergedRow> rows;
  for (const LedgerAnswer& answer : answers) {
    const Json* const list = answer.json.Find(form.list);
    if (!IsArray(list)) continue;
    for (const Json& row : list->items) rows.push_back(RowOf(row, form.time, answer.ledger));
  }
  Sort(form, rows);
  return ObjectText([&](JsonObject& json) {
    json.Each(form.list, rows, [](std::string& out, const MergedRow& row) { out += row.text; });
    WriteCursors(json, answers, {});
    WriteLedgers(json, states);
  });
}

std::string MergedLines(const ListForm& form, std::span<const LedgerAnswer> answers,
                        std::span<const RemoteState> states, const FollowState& follow) {
  std::vector<MergedRow> rows;
  for (const LedgerAnswer& answer : answers) {
    for (const Json& row : answer.rows) rows.push_back(RowOf(row, form.time, answer.ledger));
  }
  Sort(form, rows);
  std::string lines;
  for (const MergedRow& row : rows) lines += row.text + "\n";
  lines += ObjectText([&](JsonObject& json) {
    WriteCursors(json, answers, follow.kept);
    for (const std::string_view name : {"more", "gap"}) {
      const bool is_so = std::ranges::any_of(
          answers, [&](const LedgerAnswer& one) { return ScalarText(one.json, name) == "true"; });
      if (is_so || (name == "gap" && follow.has_gap)) json.Bool(name, true);
    }
    WriteLedgers(json, states);
  });
  return lines + "\n";
}

std::string MergedLists(std::span<const LedgerAnswer> answers,
                        std::span<const RemoteState> states) {
  return ObjectText([&](JsonObject& json) {
    for (const Json::Member& member :
         answers.empty() ? std::vector<Json::Member>() : answers.front().json.members) {
      if (member.second.kind == Json::Kind::kArray) WriteItems(json, member.first, answers);
    }
    WriteLedgers(json, states);
  });
}

std::string MergedStatus(std::span<const LedgerAnswer> answers,
                         std::span<const RemoteState> states) {
  return ObjectText([&](JsonObject& json) {
    json.Text("version", RECOURSE_VERSION);
    json.Text("commit", BuildCommit());
    json.Text("state", "ready");
    {
      JsonObject flows = json.Object("flows");
      for (const std::string_view name : {"open", "breaking", "parked", "stopped"}) {
        flows.Number(name, SumOf(answers, "flows", name));
      }
    }
    json.Number("approvals_pending", SumOf(answers, "", "approvals_pending"));
    json.Object("ledger").Number("uncertain", SumOf(answers, "ledger", "uncertain"));
    WriteItems(json, "streams", answers);
    json.Objects("processes", answers, [](JsonObject& one, const LedgerAnswer& answer) {
      one.Text("ledger", answer.ledger);
      for (const std::string_view name : {"version", "state", "mode", "started"}) {
        one.TextIfAny(name, ScalarText(answer.json, name));
      }
    });
    WriteLedgers(json, states);
  });
}

}  // namespace recourse
