// What people are told where no connection to the ledger's database could be made, and whether
// whoever is restarted may find another answer.
#include "filters/ledger/postgres/client/connect_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace recourse::connect_failure_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kAt = "connection to server at \"10.0.0.7\", port 5432 failed: ";
constexpr const char* kThere = "connection to server at \"10.0.0.8\", port 5432 failed: ";

Unopened Why(const std::string& said, const PgConnecting& with = {}) {
  return WhyUnconnected(kAt + said + "\n", with);
}

TEST(ConnectFailureTest, WhatComesUpLaterIsTriedAgain) {
  for (const char* const said :
       {"Connection refused\n\tIs the server running on that host and accepting connections?",
        "timeout expired", "FATAL:  the database system is starting up",
        "FATAL:  the database system is shutting down", "FATAL:  sorry, too many clients already",
        "session is read-only", "server closed the connection unexpectedly",
        "FATAL:  password authentication failed for user \"pod\"",
        "fe_sendauth: no password supplied", "SSL error: certificate verify failed"}) {
    EXPECT_TRUE(Why(said).may_pass) << said;
  }
  EXPECT_TRUE(
      WhyUnconnected("could not translate host name \"db\" to address: Try again\n", {}).may_pass);
}

TEST(ConnectFailureTest, AMistakeNeedsAPerson) {
  for (const char* const said :
       {"server certificate for \"a\" does not match host name \"b\"",
        "root certificate file \"/ca\" does not exist\nEither provide the file, or change sslmode",
        "server does not support SSL, but SSL was required",
        "channel binding required, but server did not offer an authentication method for it",
        "FATAL:  role \"pod\" does not exist", "FATAL:  database \"d\" does not exist",
        "FATAL:  role \"pod\" is not permitted to log in",
        "FATAL:  no pg_hba.conf entry for host \"10.0.0.1\", user \"pod\", no encryption",
        "FATAL:  permission denied for database \"d\""}) {
    EXPECT_FALSE(Why(said).may_pass) << said;
  }
  EXPECT_FALSE(WhyUnconnected("invalid sslmode value: \"x\"\n", {}).may_pass);
}

// The one of several that is away may be the one that is meant.
TEST(ConnectFailureTest, AMistakeIsOneAtEveryAddress) {
  const std::string mistaken = "FATAL:  role \"pod\" does not exist\n";
  EXPECT_FALSE(WhyUnconnected(kAt + mistaken + kThere + mistaken, {}).may_pass);
  EXPECT_TRUE(WhyUnconnected(kAt + mistaken + kThere + "Connection refused\n", {}).may_pass);
}

TEST(ConnectFailureTest, ARefusedPasswordIsToldByItsFile) {
  const std::string said = "FATAL:  password authentication failed for user \"pod\"";
  EXPECT_THAT(Why(said, {.password_file = "/run/db/password"}).why,
              AllOf(StartsWith("the ledger's database refuses the password: "),
                    HasSubstr("it is what /run/db/password holds"), Not(HasSubstr("host,"))));
  EXPECT_THAT(Why(said).why, HasSubstr("--ledger-password-file"));
}

TEST(ConnectFailureTest, AnUntrustedCertificateIsToldByItsAuthority) {
  const std::string why =
      Why("SSL error: certificate verify failed", {.authorities = "/etc/ssl/all.crt"}).why;
  EXPECT_THAT(why, HasSubstr("sslrootcert=FILE (now /etc/ssl/all.crt); sslmode=verify-full"));
  const std::string name = Why("server certificate for \"a\" does not match host name \"b\"").why;
  EXPECT_THAT(name, AllOf(HasSubstr("sslrootcert=FILE"), HasSubstr("hostaddr=ADDRESS")));
  for (const std::string& one : {why, name}) {
    EXPECT_THAT(one, AllOf(Not(HasSubstr("see that it runs")), Not(HasSubstr("password"))));
  }
}

TEST(ConnectFailureTest, ASecondTryWithoutTlsIsNotTold) {
  const std::string first = "FATAL:  password authentication failed for user \"pod\"";
  const std::string second = "FATAL:  no pg_hba.conf entry for host \"10.0.0.1\", no encryption";
  const std::string said = kAt + first + "\n" + kAt + second + "\n";
  const Unopened told = WhyUnconnected(said, {.tries_plain = true});
  EXPECT_THAT(told.why, AllOf(HasSubstr(first), Not(HasSubstr("pg_hba"))));
  EXPECT_TRUE(told.may_pass);
  EXPECT_THAT(WhyUnconnected(said, {}).why, HasSubstr("pg_hba"));
  EXPECT_THAT(WhyUnconnected(kAt + first + "\n" + kThere + first, {.tries_plain = true}).why,
              AllOf(HasSubstr("10.0.0.7"), HasSubstr("10.0.0.8")));
}

TEST(ConnectFailureTest, ARoleThatMayNotIsNamedWithWhatGivesItTheRight) {
  const std::string said = "ERROR:  permission denied for table ledger";
  const std::string pod = WhyForbidden(said, "pod_a", {"pod", "shop/a"});
  EXPECT_THAT(pod, AllOf(HasSubstr("the role pod_a, group shop/a: " + said),
                         HasSubstr("ledger grant --ledger URL --role pod_a --as pod"
                                   " --group shop/a")));
  EXPECT_THAT(WhyForbidden(said, "eve", {}), testing::EndsWith("--role eve --as reader"));
  EXPECT_THAT(WhyForbidden(said, "pod_a", {.task = "migration"}),
              testing::EndsWith("--role pod_a --as migration"));
  EXPECT_THAT(WhyForbidden(said, "pod_a", kPgOwns), HasSubstr("as the role that owns"));
}

TEST(ConnectFailureTest, AServerThatIsReadOnlyFullOrStopsIsAskedAgain) {
  for (const char* const state : {"", "25006", "40001", "53100", "53300", "57P01", "58030"}) {
    EXPECT_TRUE(MayPass(state)) << state;
  }
  for (const char* const state : {"42501", "42P01", "22012", "26000", "23505"}) {
    EXPECT_FALSE(MayPass(state)) << state;
  }
}

}  // namespace
}  // namespace recourse::connect_failure_test
