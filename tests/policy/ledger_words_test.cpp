// Which ledger a policy names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/language/loader.h"
#include "policy/uri/ledger_url.h"
#include "tests/policy/policy_builder.h"

namespace recourse::ledger_words_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

LoadedPolicy Load(const std::string& ledger, const std::string& tool = "") {
  return LoadPolicyText(
      "p.yaml",
      "version: 1\nbackends: { b: { url: \"http://b\", key_header: Idempotency-Key } }\n"
      "tools:\n  t: { match: \"POST b /t\", effect: write, undo: none, reason: r" +
          tool + " }\nledger: { " + ledger + " }\n");
}
std::string ProblemsWith(const std::string& ledger, const std::string& tool = "") {
  return ProblemsOf(Load(ledger, tool));
}

constexpr char kShared[] = "url: \"postgres://recourse@db.svc/recourse\", group: shop/checkout";

TEST(LedgerWordsTest, ASharedLedgerIsNamed) {
  const auto loaded = Load(std::string(kShared) + ", password_file: /run/db/password, wait: 3s");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  const LedgerPlace& place = loaded.policy->ledger_place;
  EXPECT_EQ(place.url, "postgres://recourse@db.svc/recourse");
  EXPECT_EQ(place.password_file, "/run/db/password");
  EXPECT_EQ(place.group, "shop/checkout");
  EXPECT_EQ(place.wait, Millis(3'000));
  EXPECT_EQ(Load("retention: 7d").policy->ledger_place.wait, Millis(2'000));
}

TEST(LedgerWordsTest, WhatCannotBeMeantIsRefused) {
  for (const auto& [ledger, problem] : std::vector<std::pair<std::string, std::string>>{
           {"url: \"mysql://db/x\"",
            "ledger.url: it is no address of a ledger; accepted: postgres"},
           {"url: /var/lib/recourse", "ledger.url: it is no address of a ledger"},
           {"url: \"lmdb:\"", "ledger.url: it names no directory"},
           {"url: \"postgres://u@db/x\"", "ledger.group: say which pods do each other's work"},
           {"group: \"a b\"", "ledger.group: a group's name is 1 to 128 letters"},
           {"url: \"postgres://u@db/x?sslmode=require\", group: g", "ledger.url: sslmode=require"},
           {"url: \"postgres://u@127.0.0.1,db/x?sslmode=disable\", group: g", "sslmode=disable"},
           {"url: \"postgres://u@127.evil/x?sslmode=disable\", group: g", "sslmode=disable"},
           {"url: \"postgres:///x?host=db&sslmode=prefer\", group: g", "sslmode=prefer"},
           {"url: \"postgres://u@localhost/x?hostaddr=192.0.2.1&sslmode=allow\", group: g",
            "sslmode=allow"},
           {"wait: 50ms", "ledger.wait: the duration must be at least"},
           {"wait: 31s", "ledger.wait: accepted: 100ms to 30s"},
           {"urls: \"memory:\"", "ledger.urls: unknown key"},
       }) {
    EXPECT_FALSE(Load(ledger).ok()) << ledger;
    EXPECT_THAT(ProblemsWith(ledger), HasSubstr(problem)) << ledger;
  }
}

TEST(LedgerWordsTest, ThisMachineNeedsNoCertificate) {
  for (const std::string url :
       {"postgres://u@127.0.0.1:5432/x?sslmode=disable", "postgres://u@[::1]/x?sslmode=disable",
        "postgres://u@%2Fvar%2Frun/x?sslmode=disable", "postgres:///x?host=/run&sslmode=disable",
        "postgresql://u@localhost/x?sslmode=disable"}) {
    EXPECT_TRUE(Load("url: \"" + url + "\", group: g").ok()) << ProblemsWith("url: " + url);
  }
}

// A problem that says the url again would put the password into logs.
TEST(LedgerWordsTest, APasswordInTheUrlIsWarnedOfAndNeverSaidAgain) {
  for (const std::string url :
       {"postgres://u:hunter2@db/x", "postgres://u@db/x?password=hunter2"}) {
    const auto loaded = Load("url: \"" + url + "\", group: g");
    EXPECT_TRUE(loaded.ok());
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr("holds a password"));
    EXPECT_THAT(ProblemsOf(loaded), Not(HasSubstr("hunter2")));
  }
  EXPECT_THAT(ProblemsWith("url: \"postgres://u:hunter2@db/x?sslmode=allow\", group: g"),
              Not(HasSubstr("hunter2")));
}

TEST(LedgerWordsTest, KeysOfAGroupAreWarnedOf) {
  EXPECT_THAT(ProblemsWith(kShared, ", scope: caller"),
              HasSubstr("scope: caller takes in all pods of the group shop/checkout"));
  EXPECT_THAT(ProblemsWith(kShared, ", scope: caller, dedupe_window: 1h"),
              HasSubstr("dedupe_window: takes in all pods of the group shop/checkout"));
  EXPECT_THAT(ProblemsWith("retention: 7d", ", scope: caller, dedupe_window: 1h"),
              Not(HasSubstr("group")));
  EXPECT_THAT(ProblemsWith(kShared), Not(HasSubstr("scope")));
}

TEST(LedgerUrlTest, HostsAreReadWhereverTheyStand) {
  const auto hosts = [](std::string_view text) { return ParseLedgerUrl(text)->hosts; };
  EXPECT_THAT(hosts("postgres://u@a:5432,b,[::1]:6432/x?host=%2Frun"),
              ElementsAre("a", "b", "::1", "/run"));
  EXPECT_THAT(hosts("postgres:///x"), IsEmpty());
  EXPECT_TRUE(IsLocal(*ParseLedgerUrl("postgres:///x")));
  EXPECT_FALSE(IsLocal(*ParseLedgerUrl("postgres://u:p@h@db/x")));
  EXPECT_TRUE(ParseLedgerUrl("postgres://u:p@h@db/x")->has_password);
  EXPECT_EQ(ParseLedgerUrl("lmdb:///var/lib/recourse")->place, "/var/lib/recourse");
  EXPECT_EQ(ParseLedgerUrl("lmdb:data")->place, "data");
  EXPECT_EQ(ParseLedgerUrl("memory:?stream=42")->stream, 42U);
  EXPECT_FALSE(ParseLedgerUrl("memory:?stream=-1"));
  EXPECT_FALSE(ParseLedgerUrl("postgres://[::1/x"));
}

}  // namespace
}  // namespace recourse::ledger_words_test
