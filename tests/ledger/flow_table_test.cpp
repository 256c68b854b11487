#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/model/flow.h"
#include "proxy/base/crypto/hash.h"

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

// Stored ledgers have it in their index.
TEST(FlowKeyTest, IsTheDigestOfItsPartsHoweverLongTheyAre) {
  for (const std::size_t size : {0U, 1U, 40U, 92U, 93U, 94U, 500U}) {
    for (const std::string caller : {"", "agent"}) {
      const std::string flow(size, 'f');
      std::string text = "recourse-flow";
      AppendPart(text, caller);
      AppendPart(text, flow);
      EXPECT_EQ(FlowKeyOf(caller, flow), Sha256(text)) << size;
      EXPECT_EQ(FlowKeyOf(caller, flow), Sha256(text)) << "again";
    }
  }
}

}  // namespace
}  // namespace recourse
