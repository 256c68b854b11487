#include "proxy/admin/views/event_view.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "filters/ledger/model/row_id.h"

namespace recourse::event_view_test {
namespace {

Event EventAt(std::uint32_t stream, std::uint64_t number, std::int64_t wall_ms) {
  Event event;
  event.id = PackRowId({stream, number});
  event.wall_ms = wall_ms;
  return event;
}
FlowMoved MovedAt(std::uint32_t stream, std::uint64_t number, std::int64_t wall_ms,
                  std::size_t events_before) {
  FlowMoved moved;
  moved.id = PackRowId({stream, number});
  moved.wall_ms = wall_ms;
  moved.events_before = events_before;
  return moved;
}

std::string IdsOf(const EventPage& page) {
  std::string ids;
  const auto add = [&](const auto& row) { ids += PrintRowId(row.id) + " "; };
  EachRow(page, add, add);
  return ids;
}

// Of two pods, the clock of the first of which is a second ahead: their rows keep the log's order.
EventPage PageOfTwo() {
  EventPage page;
  page.events = {EventAt(2, 50, 100), EventAt(1, 76, 1'100), EventAt(2, 53, 130)};
  page.flows = {MovedAt(1, 75, 1'090, 1), MovedAt(1, 77, 1'110, 2), MovedAt(2, 52, 120, 2),
                MovedAt(2, 54, 140, 3)};
  return page;
}

TEST(EventViewTest, RowsOfTwoPodsAreShownInTheOrderOfTheLogWhateverTheirClocksSay) {
  EXPECT_EQ(IdsOf(PageOfTwo()), "2.50 1.75 1.76 1.77 2.52 2.53 2.54 ");
  EXPECT_EQ(IdsOf({}), "");
}

TEST(EventViewTest, TheRowsOfOnePodKeepTheirOrder) {
  for (const auto& [stream, left] :
       {std::pair(1U, "1.75 1.76 1.77 "), {2U, "2.50 2.52 2.53 2.54 "}, {3U, ""}}) {
    EventPage page = PageOfTwo();
    LeaveRowsOf([&](std::uint64_t row) { return UnpackRowId(row).stream == stream; }, page);
    EXPECT_EQ(IdsOf(page), left);
  }
}

}  // namespace
}  // namespace recourse::event_view_test
