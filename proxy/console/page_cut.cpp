#include "proxy/console/page_cut.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "proxy/admin/api/query_params.h"
#include "proxy/console/list_query.h"

namespace recourse {
namespace {

void SetMember(Json& object, std::string_view name, std::string text) {
  if (object.kind != Json::Kind::kObject) return;
  std::erase_if(object.members, [&](const auto& member) { return member.first == name; });
  object.members.push_back(
      {std::string(name),
       {.kind = Json::Kind::kString, .text = std::move(text), .items = {}, .members = {}}});
}

class Cut {
 public:
  Cut(const ListForm& form, const Pairs& query, std::vector<LedgerAnswer>& answers)
      : form_(form), query_(query), answers_(answers), reading_(ReadingOf(form, query)) {
    for (LedgerAnswer& answer : answers_) pages_.push_back({.rows = RowsIn(form, answer)});
  }

  void Do() {
    const std::uint64_t limit = Limit();
    std::vector<MergedRow> order = MergedOrder(form_, answers_);
    if (reading_.is_backwards) std::ranges::reverse(order);
    bool is_over = std::ranges::any_of(pages_, [&](const Page& page) {
      return Size(page) == 0 && reading_.has_windows && HasMore(page);
    });
    std::uint64_t shown = 0;
    for (const MergedRow& row : order) {
      if (is_over || shown == limit) break;
      Page& page = pages_[row.answer];
      ++shown;
      is_over = ++page.shown == Size(page) && HasMore(page);
    }
    // Of all flows the newest are asked for.
    if (IsOfNewest()) return LeaveNewest(order, limit);
    for (Page& page : pages_) {
      if (page.shown < Size(page)) Shorten(page);
    }
  }

 private:
  struct Page {
    std::vector<Json>* rows = nullptr;  // null: it has told none
    std::size_t shown = 0;              // of those that are read first
  };

  static std::size_t Size(const Page& page) { return page.rows != nullptr ? page.rows->size() : 0; }
  LedgerAnswer& AnswerOf(const Page& page) {
    return answers_[static_cast<std::size_t>(&page - pages_.data())];
  }
  // Whoever goes on from where it was tells nothing, and nobody waits for that.
  bool HasMore(const Page& page) {
    const LedgerAnswer& answer = AnswerOf(page);
    const LedgerCursors cursors = CursorsOf(reading_.cursor, {&answer, 1});
    return !cursors.empty() &&
           cursors.begin()->second != PlaceGiven(reading_, query_, answer.ledger);
  }
  bool HasGiven(std::string_view name) const { return LastValueOf(query_, name) != nullptr; }

  // A window that is read backwards has its own measure.
  std::uint64_t Limit() const {
    std::uint64_t limit = 0;
    const std::string* const given = HasGiven("back") ? nullptr : LastValueOf(query_, "limit");
    const bool is_there = given != nullptr && ParseNumber(*given, limit) && limit > 0;
    return is_there ? limit : std::numeric_limits<std::uint64_t>::max();
  }

  bool IsOfNewest() {
    if (!HasGiven("all") || form_.is_newest_first) return false;
    return std::ranges::none_of(pages_, [&](const Page& page) { return HasMore(page); });
  }
  void LeaveNewest(const std::vector<MergedRow>& order, std::uint64_t limit) {
    const std::size_t over = order.size() > limit ? order.size() - limit : 0;
    std::vector<std::ptrdiff_t> old(pages_.size());
    for (std::size_t row = 0; row < over; ++row) ++old[order[row].answer];
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      if (old[i] > 0)
        pages_[i].rows->erase(pages_[i].rows->begin(), pages_[i].rows->begin() + old[i]);
    }
  }

  void Shorten(const Page& page) {
    LedgerAnswer& answer = AnswerOf(page);
    std::string place = PlaceIn(page);
    const auto left = static_cast<std::ptrdiff_t>(page.shown);
    if (reading_.is_backwards) {
      page.rows->erase(page.rows->begin(), page.rows->end() - left);
    } else {
      page.rows->erase(page.rows->begin() + left, page.rows->end());
    }
    // What a row without an id is followed by cannot be asked for.
    if (!place.empty()) SetMember(answer.json, reading_.cursor, std::move(place));
  }

  // Where it goes on, of whose page so much is shown.
  std::string PlaceIn(const Page& page) {
    const auto id = [&](std::size_t read) {
      return ScalarText((*page.rows)[reading_.is_backwards ? Size(page) - 1 - read : read],
                        form_.id);
    };
    if (reading_.is_up_to) return id(page.shown);
    if (page.shown > 0) return id(page.shown - 1);
    return PlaceGiven(reading_, query_, AnswerOf(page).ledger);
  }

  const ListForm& form_;
  const Pairs& query_;
  std::vector<LedgerAnswer>& answers_;
  const Reading reading_;
  std::vector<Page> pages_{};
};

}  // namespace

void CutPage(const ListForm& form, const Pairs& query, std::vector<LedgerAnswer>& answers) {
  Cut(form, query, answers).Do();
}

}  // namespace recourse
