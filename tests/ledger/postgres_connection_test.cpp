// The connection to PostgreSQL and the tables of its ledger.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/schema.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_server.h"

namespace recourse::postgres_connection_test {
namespace {

constexpr PgStatement kBoth{"test_both", "SELECT $1::bigint + 1, $2::bytea, $3::uuid, $4::bigint"};
constexpr PgStatement kDivide{"test_divide", "SELECT 1 / $1::bigint"};
constexpr PgStatement kSum{"test_sum", "SELECT sum(n)::bigint FROM unnest($1::bigint[]) AS n"};
constexpr PgStatement kSleep{"test_sleep", "SELECT pg_sleep(60)"};
constexpr PgStatement kWarn{"test_warn", "COMMIT"};

std::unique_ptr<PgConnection> Connect(const std::string& url,
                                      Millis answer_within = std::chrono::minutes(1)) {
  auto opened = PgConnection::Open({.url = url, .answer_within = answer_within});
  EXPECT_TRUE(opened) << (opened ? "" : opened.error().why);
  return opened ? std::move(*opened) : nullptr;
}

TEST(PostgresConnectionTest, ValuesComeBackAsTheyWent) {
  const auto connection = Connect(FreshPostgresUrl());
  const std::string bytes("\0\xff'\\", 4);
  const Digest digest = DigestOf("d");
  connection->Queue(kBoth, PgArguments().Int(-3).Bytes(bytes).Uuid(digest).Null());
  PgArray numbers(PgArray::Of::kInt);
  for (int i = 1; i <= 4; ++i) numbers.Int(i);
  PgArguments sum;
  numbers.AppendTo(sum);
  connection->Queue(kSum, sum);
  const auto rows = connection->Run();
  ASSERT_TRUE(rows) << rows.error().text;
  EXPECT_EQ(rows->at(0).Int(0, 0), -2);
  EXPECT_EQ(rows->at(0).Bytes(0, 1), bytes);
  EXPECT_EQ(UuidOf(rows->at(0).Uuid(0, 2)), UuidOf(digest));
  EXPECT_TRUE(rows->at(0).IsNull(0, 3));
  EXPECT_EQ(rows->at(1).Int(0, 0), 10);
}

TEST(PostgresConnectionTest, ARefusalNamesItsStatementAndTheConnectionGoesOn) {
  const auto connection = Connect(FreshPostgresUrl());
  connection->Queue(kDivide, PgArguments().Int(1));
  connection->Queue(kDivide, PgArguments().Int(0));
  connection->Queue(kSum, PgArguments().Null());
  const auto refused = connection->Run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, PgFailure::Kind::kRefused);
  EXPECT_EQ(refused.error().sqlstate, "22012");
  EXPECT_EQ(refused.error().at, 1U);
  connection->Queue(kSum, PgArguments().Null());
  connection->Queue(kDivide, PgArguments().Int(1));
  const auto rows = connection->Run();
  ASSERT_TRUE(rows) << rows.error().text;
  EXPECT_EQ(rows->size(), 2U);
}

TEST(PostgresConnectionTest, AnAnswerThatDoesNotComeInTimeLeavesTheOutcomeUnknown) {
  const auto connection = Connect(FreshPostgresUrl(), Millis(1'000));
  connection->Queue(kSleep);
  const auto late = connection->Run();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, PgFailure::Kind::kUnknown);
  EXPECT_EQ(late.error().text, "no answer in time");
  EXPECT_TRUE(connection->is_lost());
}

// Its last words may come after a commit that nobody told of.
TEST(PostgresConnectionTest, WhatASessionThatIsEndedDidIsUnknown) {
  static constexpr PgStatement kEnd{"end", "SELECT pg_terminate_backend(pg_backend_pid())"};
  const auto connection = Connect(FreshPostgresUrl());
  connection->Queue(kEnd);
  const auto ended = connection->Run();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, PgFailure::Kind::kUnknown) << ended.error().text;
}

// A commit that no standby has confirmed comes as success with a warning.
TEST(PostgresConnectionTest, AWarningIsNoConfirmation) {
  const auto connection = Connect(FreshPostgresUrl());
  connection->Queue(kWarn);  // outside of a transaction
  const auto warned = connection->Run();
  ASSERT_FALSE(warned);
  EXPECT_EQ(warned.error().kind, PgFailure::Kind::kUnknown);
}

TEST(PostgresConnectionTest, ACommitThatMayBeLostIsRefused) {
  const std::string url = FreshPostgresUrl() + " options='-csynchronous_commit=off'";
  const auto refused = PgConnection::Open({.url = url});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().why.find("synchronous_commit=off"), std::string::npos);
  EXPECT_TRUE(PgConnection::Open({.url = url, .unsafe_commit = true}));
}

TEST(PostgresConnectionTest, NeitherUrlNorPasswordIsInWhatGoesWrong) {
  const TempDirectory directory;
  const std::string file = directory.path() + "/password";
  std::ofstream(file) << "hunter2\n";
  const auto refused = PgConnection::Open(
      {.url = "host=" + directory.path() + " user=u password=topsecret", .password_file = file});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().why.find("hunter2"), std::string::npos) << refused.error().why;
  EXPECT_EQ(refused.error().why.find("topsecret"), std::string::npos) << refused.error().why;
  const auto unread = PgConnection::Open({.url = "postgres://u:topsecret@h:x:y/d?nothing=1"});
  ASSERT_FALSE(unread);
  EXPECT_EQ(unread.error().why.find("topsecret"), std::string::npos) << unread.error().why;
  const auto why = [](const std::string& path) {
    const auto opened = PgConnection::Open({.url = "host=/x", .password_file = path});
    return opened ? std::string() : opened.error().why;
  };
  EXPECT_EQ(why("/nowhere"),
            "the password file of the ledger's database, /nowhere, cannot be read: No such file or "
            "directory");
  EXPECT_EQ(why(directory.path()), "the password file of the ledger's database, " +
                                       directory.path() + ", cannot be read: Is a directory");
}

TEST(PostgresConnectionTest, TlsIsVerifiedBeyondThisHost) {
  EXPECT_EQ(SslModeFor("", ""), "prefer");
  EXPECT_EQ(SslModeFor("/run/postgresql", ""), "prefer");
  EXPECT_EQ(SslModeFor("localhost,127.0.0.1", "disable"), "disable");
  EXPECT_EQ(SslModeFor("db.svc", ""), "verify-full");
  EXPECT_EQ(SslModeFor("localhost,db.svc", ""), "verify-full");
  EXPECT_EQ(SslModeFor("db.svc", "verify-full"), "verify-full");
  for (const char* const less : {"disable", "prefer", "require", "verify-ca"}) {
    EXPECT_FALSE(SslModeFor("db.svc", less)) << less;
  }
}

TEST(PostgresSchemaTest, ALedgerIsMadeOnceAndKeepsItsIdentity) {
  const std::string url = FreshPostgresUrl();
  const auto connection = Connect(url);
  const auto missing = ReadPgLedgerFacts(*connection);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().why.find("recourse ledger migrate"), std::string::npos);
  ASSERT_TRUE(MigratePgSchema(*connection));
  const auto first = ReadPgLedgerFacts(*connection);
  ASSERT_TRUE(first) << first.error().why;
  EXPECT_EQ(first->schema_version, kPgSchemaVersion);
  EXPECT_NE(first->identity, Digest{});
  ASSERT_TRUE(MigratePgSchema(*connection));
  const auto again = ReadPgLedgerFacts(*connection);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->identity, first->identity);
}

TEST(PostgresSchemaTest, WhatALaterVersionWritesIsLeftToIt) {
  const auto connection = Connect(FreshPostgresLedger());
  ASSERT_TRUE(connection->Execute("UPDATE ledger SET min_writer = 99"));
  EXPECT_FALSE(ReadPgLedgerFacts(*connection));
}

}  // namespace
}  // namespace recourse::postgres_connection_test
