#include "proxy/admin/access/endpoints.h"

#include <gtest/gtest.h>

namespace recourse::endpoints_test {
namespace {

TEST(EndpointsTest, APathIsFoundBySegments) {
  EXPECT_EQ((*FindEndpoint("GET", "/flows/7"))->pattern(), "/flows/*");
  EXPECT_EQ((*FindEndpoint("POST", "/flows/a%2Fb/close"))->pattern(), "/flows/*/close");
  EXPECT_EQ((*FindEndpoint("GET", "/"))->path, "/");
  EXPECT_EQ((*FindEndpoint("GET", "/ui/app.js"))->pattern(), "/ui/*");
  for (const char* path : {"", "//", "/flows/", "/flows//close", "/flows/7/close/", "/flows/7/8",
                           "flows", "/FLOWS", "/events/1/2", "*"}) {
    const auto found = FindEndpoint("GET", path);
    ASSERT_FALSE(found) << path;
    EXPECT_EQ(found.error(), "") << path;
  }
  EXPECT_EQ(FindEndpoint("PUT", "/session").error(), "DELETE, GET, POST");
  EXPECT_EQ(FindEndpoint("get", "/events").error(), "GET");
}

TEST(EndpointsTest, AQueryHasItsParametersOnly) {
  const Endpoint& stream = **FindEndpoint("GET", "/stream");
  EXPECT_EQ(stream.UnknownParameter("after"), "");
  EXPECT_EQ(stream.UnknownParameter("Last-Event-ID"), "'Last-Event-ID' is not after");
  EXPECT_EQ((*FindEndpoint("GET", "/report"))->UnknownParameter("x"),
            "'x' is not one of since, until");
  // Without any: nobody has looked at it so far.
  EXPECT_EQ((*FindEndpoint("GET", "/flows/7"))->UnknownParameter("x"), "");
}

TEST(EndpointsTest, WhatChangesStateIsNeverForReadersAndNeverAGet) {
  for (const Endpoint& endpoint : AdminEndpoints()) {
    EXPECT_EQ(endpoint.changes(), endpoint.method != "GET");
    if (endpoint.need == Endpoint::Need::kNobody) {
      EXPECT_FALSE(endpoint.changes());
      continue;
    }
    // They take a body, or time, and change nothing that is remembered.
    if (endpoint.path == "/ledger/verify" || endpoint.path == "/session" ||
        endpoint.path == "/policy/explain") {
      continue;
    }
    EXPECT_EQ(endpoint.changes(), endpoint.need != Endpoint::Need::kRead) << endpoint.path;
  }
}

TEST(EndpointsTest, ARoleAllowsItsOwnNeedOnly) {
  using Need = Endpoint::Need;
  for (const auto& [name, role] : kRoleNames) {
    Roles roles;
    roles.Add(role);
    for (const Need need : {Need::kRead, Need::kApprove, Need::kRepair}) {
      EXPECT_EQ(Allows(need, roles), NameOf(need) == name);
    }
    EXPECT_EQ(Allows(Need::kSettle, roles), role == Role::kSettle || role == Role::kRepair);
    EXPECT_TRUE(Allows(Need::kAnyOperator, roles));
  }
  EXPECT_FALSE(Allows(Need::kRead, Roles()));
}

}  // namespace
}  // namespace recourse::endpoints_test
