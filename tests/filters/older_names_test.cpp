// Names under which earlier versions, or earlier policies, may have begun a call.
#include "filters/key/older_names.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/filters/key_builder.h"

namespace recourse::older_names_test {
namespace {

TEST(OlderNamesTest, WhatBeganBeforeItsTenantWasToldApartIsFound) {
  KeyCase call;
  call.headers = {{"X-Tenant-Id", "t1"}};
  const DerivedKey before = Derive(call);
  call.headers.push_back({"MerchantId", "m1"});
  const DerivedKey now = Derive(call);
  EXPECT_NE(now.key, before.key);
  const auto is_before = [&](const OlderRecipe& older) {
    return older.key == before.key && older.intent == before.intent &&
           older.principal == before.principal;
  };
  EXPECT_TRUE(std::ranges::any_of(now.older, is_before));
  EXPECT_TRUE(std::ranges::none_of(before.older, is_before));
}

TEST(OlderNamesTest, WhatTheLastVersionsBeganIsFoundWithWhatTheyToldApart) {
  for (const char* const last : {"fiware-service", "fiware-servicepath", "Dropbox-API-Path-Root"}) {
    KeyCase call;
    call.headers = {{"MerchantId", "m1"}};
    const DerivedKey before = Derive(call);
    call.headers.push_back({last, "t1"});
    const DerivedKey now = Derive(call);
    EXPECT_NE(now.key, before.key) << last;
    EXPECT_TRUE(std::ranges::any_of(now.older, [&](const OlderRecipe& older) {
      return older.key == before.key && older.intent == before.intent &&
             older.principal == before.principal;
    })) << last;
  }
}

// In one trace the key is the same: it is under another one that the principal is a part of.
TEST(OlderNamesTest, WhatBeganBeforeItsUserWasToldApartIsFoundUnderAnotherTrace) {
  KeyCase call;
  const DerivedKey before = Derive(call);
  call.headers.push_back({"X-Forwarded-User", "ann"});
  const DerivedKey now = Derive(call);
  EXPECT_EQ(now.key, before.key);
  EXPECT_NE(now.principal, before.principal);
  EXPECT_TRUE(std::ranges::any_of(now.older, [&](const OlderRecipe& older) {
    return older.intent == before.intent && older.principal == before.principal;
  }));
}

TEST(OlderNamesTest, WhatAnEarlierNameOfItsCallerBeganIsFoundInAScopeOfAll) {
  KeyCase call;
  call.tool.scope.kind = ScopeRule::Kind::kGlobal;
  call.caller = "pod-1";
  const DerivedKey before = Derive(call);
  call.caller = "agent-1";
  call.earlier_callers = {{.name = "pod-1"}};
  const DerivedKey now = Derive(call);
  EXPECT_EQ(now.key, before.key);
  EXPECT_TRUE(std::ranges::any_of(now.older, [&](const OlderRecipe& older) {
    return older.intent == before.intent && older.principal == before.principal;
  }));
}

TEST(OlderNamesTest, WhatBeganBeforeAFieldWasAnArgumentIsFound) {
  KeyCase call;
  const DerivedKey before = Derive(call);
  call.headers = {{"Content-Range", "bytes 0-9/20"}};
  const DerivedKey now = Derive(call);
  EXPECT_NE(now.key, before.key);
  EXPECT_TRUE(std::ranges::any_of(now.older, [&](const OlderRecipe& older) {
    return older.key == before.key && older.intent == before.intent &&
           older.args_hash == before.args_hash && older.principal == now.principal;
  }));
  EXPECT_TRUE(before.older.empty());
}

TEST(OlderNamesTest, WhatBeganBeforeItsCredentialsWereToldApartIsFound) {
  KeyCase call;
  call.has_client_trace = false;
  const DerivedKey before = Derive(call);
  for (const char* const name : {"MerchantKey", "X-JFrog-Art-Api"}) {
    call.headers = {{name, "k1"}};
    const DerivedKey now = Derive(call);
    EXPECT_NE(now.key, before.key);
    EXPECT_TRUE(std::ranges::any_of(
        now.older, [&](const OlderRecipe& older) { return older.key == before.key; }));
  }
}

}  // namespace
}  // namespace recourse::older_names_test
