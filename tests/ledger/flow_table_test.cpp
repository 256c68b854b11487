#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "filters/ledger/model/flow.h"

namespace recourse {
namespace {

TEST(FlowTable, OnlyTheMovesOfTheTableAreLegal) {
  const std::vector<std::pair<FlowPhase, FlowPhase>> legal = {
      {FlowPhase::kNone, FlowPhase::kOpen},
      {FlowPhase::kOpen, FlowPhase::kCommitted},
      {FlowPhase::kOpen, FlowPhase::kBreaking},
      {FlowPhase::kOpen, FlowPhase::kNeedsHuman},
      {FlowPhase::kCommitted, FlowPhase::kBreaking},
      {FlowPhase::kBreaking, FlowPhase::kUndoing},
      {FlowPhase::kBreaking, FlowPhase::kNeedsHuman},
      {FlowPhase::kUndoing, FlowPhase::kUndoing},
      {FlowPhase::kUndoing, FlowPhase::kUndone},
      {FlowPhase::kUndoing, FlowPhase::kNeedsHuman},
      {FlowPhase::kNeedsHuman, FlowPhase::kBreaking},
      {FlowPhase::kNeedsHuman, FlowPhase::kCommitted}};
  for (int from = 0; from < kFlowPhaseCount; ++from) {
    for (int to = 0; to < kFlowPhaseCount; ++to) {
      const std::pair move(static_cast<FlowPhase>(from), static_cast<FlowPhase>(to));
      EXPECT_EQ(IsLegal(move.first, move.second),
                std::find(legal.begin(), legal.end(), move) != legal.end())
          << NameOf(move.first) << " to " << NameOf(move.second);
    }
  }
}

}  // namespace
}  // namespace recourse
