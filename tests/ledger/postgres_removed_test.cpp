// What somebody removes of the tables of a shared ledger, of which retention removes rows too.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "proxy/base/crypto/hash.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_removed_test {
namespace {

using RemovedTest = PostgresRetentionTest;

// A process with little to do removes what is old, and what it has kept is of today.
TEST_F(RemovedTest, WhatSomebodyRemovesOfAnyCallThatIsKeptIsFound) {
  Finish(*other_, "old");
  Age(kRule.retention.count() + 1);
  NewOperation call = Call("kept");
  call.event.intent = Sha256("what it is");
  const Event kept = Record(*one_, Success(Dispatch(*one_, std::move(call))));
  Finish(*other_, "of today");
  EXPECT_GT(Turn().rows, 0U);
  ASSERT_EQ(Problem(), "");
  const RowId id = UnpackRowId(kept.operation);
  const std::string is = " = " + std::to_string(id.stream) + " AND ";
  for (const auto& [table, whose] :
       {std::pair<std::string, std::string>{"intent", "stream" + is + "number"},
        {"operation", "op_stream" + is + "op_number"}}) {
    const std::string all = table + " WHERE " + whose + " = " + std::to_string(id.number);
    Execute("CREATE TABLE was AS SELECT * FROM " + all + "; DELETE FROM " + all);
    EXPECT_NE(Problem(), "") << table;
    Execute("INSERT INTO " + table + " SELECT * FROM was; DROP TABLE was");
    ASSERT_EQ(Problem(), "");
  }
  Execute("DELETE FROM intent WHERE stream" + is + "number = " + std::to_string(id.number) +
          "; DELETE FROM operation WHERE op_stream" + is +
          "op_number = " + std::to_string(id.number));
  EXPECT_NE(Problem(), "") << "both";
  Execute("DELETE FROM event WHERE op_stream" + is + "op_number = " + std::to_string(id.number));
  EXPECT_NE(Problem(), "") << "all of it";
}

TEST_F(RemovedTest, WhatAKeeperOfAnEarlierVersionHasRemovedIsMissedByNobody) {
  const Event old = Record(*other_, Success(Dispatch(*one_, Call("old"))));
  Finish(*one_, "before");
  Age(kRule.retention.count() + 1);
  Finish(*other_, "of today");
  EXPECT_GT(Turn().rows, 0U);
  Execute("DELETE FROM work WHERE kind = 4 AND stream > 0");
  EXPECT_EQ(Problem(), "");
  const auto repeat = TryBegin(*other_, Call("old"));
  ASSERT_TRUE(repeat);
  EXPECT_EQ(repeat->event.operation, old.operation);
}

}  // namespace
}  // namespace recourse::postgres_removed_test
