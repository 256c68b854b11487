// One answer of a console made of those of its ledgers. Pure.
#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/json/json.h"
#include "proxy/base/json/json_object.h"
#include "proxy/console/ledger_ids.h"

namespace recourse {

// How a ledger is for whoever asks: `up`, `away`, or `refused` where they may not.
struct RemoteState {
  std::string_view name, state;
  std::string why{};
  std::string who{};                 // they are there
  std::vector<std::string> roles{};  // and have
};
void WriteLedgers(JsonObject& json, std::span<const RemoteState> states);

struct LedgerAnswer {
  std::string_view ledger;
  Json json;                 // a page, or the last line of some
  std::vector<Json> rows{};  // before that line
};

// A list of the admin API: its member of the page, and those of a row by which it is in order, and
// from which one goes on.
struct ListForm {
  std::string_view path, list, time, id;
  bool is_newest_first = false;
};
// Null: it is none that is merged.
const ListForm* ListFormOf(std::string_view path);

// What it has told: lines, or those of its page. Null: no rows.
std::vector<Json>* RowsIn(const ListForm& form, LedgerAnswer& answer);
// The rows of all, as they are listed.
struct MergedRow {
  std::size_t answer = 0, row = 0;
  friend auto operator<=>(const MergedRow&, const MergedRow&) = default;
};
std::vector<MergedRow> MergedOrder(const ListForm& form, std::span<const LedgerAnswer> answers);

// From where each goes on that has more, by the member of that name.
LedgerCursors CursorsOf(std::string_view name, std::span<const LedgerAnswer> answers);
// Places of those that did not answer, and go on from there: in that cursor.
struct KeptPlaces {
  std::string_view cursor = "next";
  LedgerCursors places{};
};
// Rows of all, each with its `ledger`. Pages of several ledgers need not reach equally far back.
std::string MergedPage(const ListForm& form, std::span<const LedgerAnswer> answers,
                       std::span<const RemoteState> states, const KeptPlaces& kept = {});
// Of what is followed.
struct FollowState {
  KeptPlaces kept{};
  bool has_gap = false;  // something may have been missed
};
// The same as lines.
std::string MergedLines(const ListForm& form, std::span<const LedgerAnswer> answers,
                        std::span<const RemoteState> states, const FollowState& follow);
// Lists of the same name one after the other, each item with its `ledger`.
std::string MergedLists(std::span<const LedgerAnswer> answers, std::span<const RemoteState> states);
// Of GET /status: how much waits, and how each ledger's process is.
std::string MergedStatus(std::span<const LedgerAnswer> answers,
                         std::span<const RemoteState> states);

}  // namespace recourse
