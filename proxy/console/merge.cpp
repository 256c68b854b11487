#include "proxy/console/merge.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/api/query_params.h"
#include "proxy/config/build_commit.h"

namespace recourse {
namespace {

constexpr std::array<ListForm, 4> kLists = {{
    {admin_paths::kApprovals, "approvals", "asked", "operation"},
    {admin_paths::kEvents, "events", "time", "event_id"},
    {admin_paths::kFlows, "flows", "began", "number"},
    {admin_paths::kOperations, "operations", "time", "event_id", true},
}};
constexpr std::array<std::string_view, 4> kCursors = {"last", "newer", "next", "older"};
constexpr std::string_view kLedgerMember = "ledger", kLedgersMember = "ledgers";

std::string RowText(const Json& row, std::string_view ledger) {
  std::string text;
  if (row.Find(kLedgerMember) != nullptr) {  // whose it is we say
    Json own = row;
    std::erase_if(own.members, [](const auto& member) { return member.first == kLedgerMember; });
    AppendOfLedger(text, own, ledger);
  } else {
    AppendOfLedger(text, row, ledger);
  }
  if (row.kind == Json::Kind::kObject) {
    AppendMembers(text, [&](JsonObject& json) { json.Text(kLedgerMember, ledger); });
  }
  return text;
}

const std::vector<Json>& RowsIn(const ListForm& form, const LedgerAnswer& answer) {
  const Json* const list = answer.json.Find(form.list);
  return IsArray(list) ? list->items : answer.rows;
}

struct TimedRow {
  std::string time;
  MergedRow row;
};

// In the order of its log, whatever the clocks of its pods said.
void AddRows(std::vector<TimedRow>& rows, const ListForm& form, const std::vector<Json>& list,
             std::size_t answer) {
  std::string last;
  for (std::size_t row = 0; row < list.size(); ++row) {
    std::string time = ScalarText(list[row], form.time);
    const bool is_early = form.is_newest_first ? time > last : time < last;
    if (!last.empty() && (time.empty() || is_early)) time = last;
    last = time;
    rows.push_back({.time = std::move(time), .row = {.answer = answer, .row = row}});
  }
}

// A page has those of its form even where nobody answers: whoever reads on looks for a null.
bool IsOfForm(const ListForm& form, std::string_view cursor) {
  return form.is_newest_first == (cursor != "next");
}

void WriteCursors(JsonObject& json, const ListForm& form, std::span<const LedgerAnswer> answers,
                  const KeptPlaces& kept) {
  for (const std::string_view name : kCursors) {
    const bool is_there = std::ranges::any_of(
        answers, [&](const LedgerAnswer& one) { return one.json.Find(name) != nullptr; });
    LedgerCursors cursors = CursorsOf(name, answers);
    if (name == kept.cursor) cursors.insert(kept.places.begin(), kept.places.end());
    if (!is_there && cursors.empty() && !IsOfForm(form, name)) continue;
    if (cursors.empty()) {
      json.Raw(name, name == "last" ? "0" : "null");
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
  for (const LedgerAnswer& answer : answers) {
    const std::uint64_t number = NumberAt(answer.json, group, name);
    sum += std::min(number, std::numeric_limits<std::uint64_t>::max() - sum);
  }
  return sum;
}

// Their items one after the other.
void WriteItems(JsonObject& json, std::string_view name, std::span<const LedgerAnswer> answers) {
  JsonList list(json.ForeignValue(name));
  for (const LedgerAnswer& answer : answers) {
    const Json* const items = answer.json.Find(name);
    if (!IsArray(items)) continue;
    for (const Json& item : items->items) list.Value() += RowText(item, answer.ledger);
  }
}

// Of all that any of them has.
std::vector<std::string_view> ListNames(std::span<const LedgerAnswer> answers) {
  std::vector<std::string_view> names;
  for (const LedgerAnswer& answer : answers) {
    for (const auto& [name, member] : answer.json.members) {
      const bool is_known = std::ranges::find(names, name) != names.end();
      if (IsArray(&member) && name != kLedgersMember && !is_known) names.push_back(name);
    }
  }
  return names;
}

}  // namespace

void WriteLedgers(JsonObject& json, std::span<const RemoteState> states) {
  json.Objects(kLedgersMember, states, [](JsonObject& one, const RemoteState& state) {
    one.Text("name", state.name);
    one.Text("state", state.state);
    one.TextIfAny("why", state.why);
    one.TextIfAny("who", state.who);
    one.Texts("roles", state.roles);
  });
}

// What would be read as the cursors of others is none.
LedgerCursors CursorsOf(std::string_view name, std::span<const LedgerAnswer> answers) {
  LedgerCursors cursors;
  for (const LedgerAnswer& answer : answers) {
    const std::string cursor = ScalarText(answer.json, name);
    if (!cursor.empty() && cursor.find('~') == cursor.npos) cursors.emplace(answer.ledger, cursor);
  }
  return cursors;
}

const ListForm* ListFormOf(std::string_view path) {
  const auto form = std::ranges::find(kLists, path, &ListForm::path);
  return form == kLists.end() ? nullptr : &*form;
}

std::vector<Json>* RowsIn(const ListForm& form, LedgerAnswer& answer) {
  const auto list = std::ranges::find(answer.json.members, form.list, &Json::Member::first);
  const bool is_page = list != answer.json.members.end() && IsArray(&list->second);
  return is_page ? &list->second.items : &answer.rows;
}

// Of the same time as they came.
std::vector<MergedRow> MergedOrder(const ListForm& form, std::span<const LedgerAnswer> answers) {
  std::vector<TimedRow> rows;
  for (std::size_t i = 0; i < answers.size(); ++i) AddRows(rows, form, RowsIn(form, answers[i]), i);
  std::ranges::sort(rows, [&](const TimedRow& a, const TimedRow& b) {
    if (a.time == b.time) return a.row < b.row;
    return form.is_newest_first ? a.time > b.time : a.time < b.time;
  });
  std::vector<MergedRow> order;
  for (const TimedRow& row : rows) order.push_back(row.row);
  return order;
}

std::string MergedPage(const ListForm& form, std::span<const LedgerAnswer> answers,
                       std::span<const RemoteState> states, const KeptPlaces& kept) {
  return ObjectText([&](JsonObject& json) {
    json.Each(form.list, MergedOrder(form, answers), [&](std::string& out, const MergedRow& row) {
      const LedgerAnswer& answer = answers[row.answer];
      out += RowText(RowsIn(form, answer)[row.row], answer.ledger);
    });
    WriteCursors(json, form, answers, kept);
    WriteLedgers(json, states);
  });
}

std::string MergedLines(const ListForm& form, std::span<const LedgerAnswer> answers,
                        std::span<const RemoteState> states, const FollowState& follow) {
  std::string lines;
  for (const MergedRow& row : MergedOrder(form, answers)) {
    const LedgerAnswer& answer = answers[row.answer];
    lines += RowText(RowsIn(form, answer)[row.row], answer.ledger) + "\n";
  }
  lines += ObjectText([&](JsonObject& json) {
    WriteCursors(json, form, answers, follow.kept);
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
    for (const std::string_view name : ListNames(answers)) WriteItems(json, name, answers);
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
      one.Text(kLedgerMember, answer.ledger);
      for (const std::string_view name : {"version", "state", "mode", "started"}) {
        one.TextIfAny(name, ScalarText(answer.json, name));
      }
      const Json* const held = answer.json.Find("ledger");
      if (held == nullptr || ScalarText(*held, "away") != "true") return;
      one.Bool("away", true);
      one.TextIfAny("counted", ScalarText(*held, "counted"));
    });
    WriteLedgers(json, states);
  });
}

}  // namespace recourse
