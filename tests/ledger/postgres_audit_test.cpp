// What somebody changed in the tables of a shared ledger is found.
#include <gtest/gtest.h>

#include <string>

#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_audit_test {
namespace {

class AuditedTest : public PostgresUpkeepTest {
 protected:
  void SetUp() override {
    first_ = Finish(*one_, "a");
    last_ = Finish(*one_, "b");
    Finish(*other_, "c");
    ASSERT_EQ(Problem(), "");
  }

  Event first_, last_;
};

TEST_F(AuditedTest, AChangedRowIsFound) {
  Execute("UPDATE event SET bytes = set_byte(bytes, 90, get_byte(bytes, 90) # 1)" + Is(first_.id));
  EXPECT_EQ(Problem(), Row(first_) + ": checksum does not match");
}

TEST_F(AuditedTest, AMissingRowIsFoundAlsoAtTheEnd) {
  Execute("DELETE FROM event" + Is(first_.id));
  EXPECT_EQ(Problem(), Row(first_) + ": row number is wrong");
}

TEST_F(AuditedTest, ALastRowThatIsMissingIsFound) {
  Execute("DELETE FROM event" + Is(last_.id));
  EXPECT_EQ(Problem(), Row(last_) + ": row cannot be read");
}

TEST_F(AuditedTest, SwappedRowsAreFound) {
  Execute(
      "UPDATE event e SET bytes = f.bytes FROM event f WHERE e.stream = f.stream"
      " AND e.number + f.number = " +
      std::to_string(UnpackRowId(first_.id).number + UnpackRowId(last_.id).number) +
      " AND e.number IN (" + std::to_string(UnpackRowId(first_.id).number) + "," +
      std::to_string(UnpackRowId(last_.id).number) +
      ") AND e.stream = " + std::to_string(UnpackRowId(first_.id).stream));
  EXPECT_EQ(Problem(), Row(first_) + ": row number is wrong");
}

TEST_F(AuditedTest, AColumnThatSaysSomethingElseIsFound) {
  for (const std::string set : {"tool = 'other'", "caller = 'other'", "phase = 3", "key = NULL",
                                "op_number = 77", "kind = 9", "won = false", "grp = 'other'"}) {
    Execute("CREATE TABLE was AS SELECT * FROM event" + Is(first_.id) + "; UPDATE event SET " +
            set + Is(first_.id));
    const std::string column = set.substr(0, set.find(' '));
    EXPECT_EQ(Problem(),
              Row(first_) + ": the table's column " + column + " does not say what the row says");
    Execute("DELETE FROM event" + Is(first_.id) +
            "; INSERT INTO event SELECT * FROM was; DROP TABLE was");
  }
  EXPECT_EQ(Problem(), "");
}

TEST_F(AuditedTest, AStreamAndAnOperationThatAreNotWhereTheyShouldBeAreFound) {
  const std::string stream = std::to_string(UnpackRowId(first_.id).stream);
  Execute(
      "UPDATE operation SET last_number = op_number, last_stream = op_stream WHERE op_stream = " +
      stream + " AND op_number = " + std::to_string(UnpackRowId(first_.operation).number));
  EXPECT_EQ(Problem(), "operation " + PrintRowId(first_.operation) + ": its last row " +
                           PrintRowId(first_.operation) + " is not there, or says something else");
  Execute("DELETE FROM stream WHERE stream = " + stream);
  EXPECT_EQ(Problem(), "stream " + stream + ": its rows are there, and it is not listed");
}

TEST_F(AuditedTest, AnOperationThatIsNotListedIsFound) {
  Execute("DELETE FROM operation WHERE op_number = " +
          std::to_string(UnpackRowId(last_.operation).number));
  EXPECT_EQ(Problem(), "operation " + PrintRowId(last_.operation) + ", which row " +
                           PrintRowId(last_.operation) +
                           " tells of: the table `operation` does not have it");
}

TEST_F(AuditedTest, AnOperationThatIsBehindItsRowsIsFound) {
  Execute("UPDATE operation SET last_number = op_number, phase = 3 WHERE op_number = " +
          std::to_string(UnpackRowId(last_.operation).number));
  EXPECT_NE(Problem(), "");
  Execute(
      "UPDATE operation o SET phase = e.phase, cause = get_byte(e.bytes, 87) & 127 FROM event e"
      " WHERE e.stream = o.last_stream AND e.number = o.last_number");
  EXPECT_EQ(Problem(), "operation " + PrintRowId(last_.operation) +
                           ": the table `operation` does"
                           " not know of its row " +
                           PrintRowId(last_.id));
}

TEST_F(AuditedTest, AnOperationThatPassesForATombstoneIsFound) {
  Execute("UPDATE operation SET flags = 4 WHERE op_number = " +
          std::to_string(UnpackRowId(last_.operation).number));
  EXPECT_NE(Problem(), "");
}

TEST_F(AuditedTest, AColumnOfAnOperationThatSaysSomethingElseIsFound) {
  for (const char* const column : {"cause", "attempt", "generation"}) {
    const std::string of =
        " WHERE op_number = " + std::to_string(UnpackRowId(last_.operation).number);
    Execute(std::string("UPDATE operation SET ") + column + " = " + column + " + 1" + of);
    EXPECT_EQ(Problem(), Row(last_) + ": the table `operation` has another " + column);
    Execute(std::string("UPDATE operation SET ") + column + " = " + column + " - 1" + of);
  }
  EXPECT_EQ(Problem(), "");
}

TEST_F(AuditedTest, AnIntentThatIsNotListedIsFound) {
  NewOperation call = Call("d");
  call.event.intent = Sha256("what it is");
  const Event begun = Dispatch(*one_, std::move(call));
  ASSERT_EQ(Problem(), "");
  Execute("CREATE TABLE was AS SELECT * FROM intent; DELETE FROM intent");
  EXPECT_EQ(Problem(), Row(begun) + ": the table `intent` does not have what it says");
  Execute("INSERT INTO intent SELECT * FROM was; UPDATE intent SET number = 99999");
  EXPECT_NE(Problem(), "");
}

// Whoever makes the call under another trace would be told of a call that it never meant.
TEST_F(AuditedTest, AnIntentThatLeadsToTheCallOfAnotherIsFound) {
  const auto call = [](const std::string& key, std::string_view intent) {
    NewOperation made = Call(key, key);
    made.event.intent = Sha256(intent);
    return made;
  };
  const Event first = Dispatch(*one_, call("d", "it"));
  const Event before = Dispatch(*one_, call("e", "it"));  // led to from the next
  const Event last = Dispatch(*other_, call("f", "it"));
  const Event another = Record(*other_, Success(Dispatch(*other_, call("g", "another"))));
  ASSERT_EQ(Problem(), "");
  const auto lead = [&](const Event& from, std::uint64_t to) {
    const RowId id = UnpackRowId(to);
    Execute("UPDATE intent SET stream = " + std::to_string(id.stream) +
            ", number = " + std::to_string(id.number) + Is(from.operation));
  };
  Execute("CREATE TABLE was AS SELECT * FROM intent");
  for (const auto& [from, told] : {std::pair(&last, &first), std::pair(&first, &before)}) {
    lead(*from, another.operation);
    EXPECT_EQ(Problem(), Row(*told) + ": the table `intent` leads from it to another intent");
    Execute("DELETE FROM intent; INSERT INTO intent SELECT * FROM was");
  }
  lead(another, last.operation);
  EXPECT_EQ(Problem(), "row " + PrintRowId(another.operation) +
                           ": the table `intent` leads from it to another intent");
  Execute("DELETE FROM intent; INSERT INTO intent SELECT * FROM was");
  EXPECT_EQ(Problem(), "");
}

TEST_F(AuditedTest, AStreamWhoseRowsAreGoneIsFound) {
  const std::string stream = std::to_string(UnpackRowId(first_.id).stream);
  Execute("DELETE FROM event WHERE stream = " + stream);
  EXPECT_NE(Problem(), "");
  Execute("DELETE FROM stream WHERE stream = " + stream);
  EXPECT_EQ(Problem(), "stream " + stream + ": an operation is of it, and it is not listed");
  Execute("DELETE FROM operation WHERE op_stream = " + stream +
          "; DELETE FROM intent WHERE stream = " + stream);
  EXPECT_EQ(Problem(), "");
  const auto gaps = PgStreamGaps(reader_);
  ASSERT_TRUE(gaps);
  EXPECT_EQ(*gaps, std::vector<std::uint64_t>{UnpackRowId(first_.id).stream});
}

}  // namespace
}  // namespace recourse::postgres_audit_test
