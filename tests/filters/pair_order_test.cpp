// Forms and queries in which the order of names says something, as PHP and Rack read them.
#include "filters/key/pair_order.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "filters/call/call_values.h"
#include "tests/filters/key_builder.h"

namespace recourse::pair_order_test {
namespace {

std::string OrderOf(std::string_view form) { return OrderThatCounts(ParsePairs(form)); }

TEST(PairOrderTest, CountsWhereNamesHaveToDoWithEachOther) {
  for (const auto& [one, other] : {std::pair("items[][sku]=1&items[][qty]=2&items[][sku]=3",
                                             "items[][sku]=1&items[][sku]=3&items[][qty]=2"),
                                   {"x=1&x[]=2", "x[]=2&x=1"},
                                   {"x=1&x[a]=2", "x[a]=2&x=1"},
                                   {"a.b=1&a_b=2", "a_b=2&a.b=1"},
                                   {"a+b[c]=1&a_b[c]=2", "a_b[c]=2&a+b[c]=1"},
                                   {"a[0]=1&a[]=2", "a[]=2&a[0]=1"},
                                   {"n=1&a[k][]=1&a[k][x]=2", "n=1&a[k][x]=2&a[k][]=1"}}) {
    EXPECT_NE(OrderOf(one), OrderOf(other)) << one;
    KeyCase call = FormCall(one);
    const DerivedKey key = Derive(call);
    call.body = other;
    EXPECT_NE(Derive(call).args_hash, key.args_hash) << one;
    call = JsonCall("{}");
    call.query = one;
    const DerivedKey asked = Derive(call);
    call.query = other;
    EXPECT_NE(Derive(call).args_hash, asked.args_hash) << one;
  }
}

TEST(PairOrderTest, IsNoArgumentOtherwise) {
  for (const char* const form :
       {"a=1&b=2", "a[x]=1&a[y]=2", "items[0][sku]=1&items[0][qty]=2",
        "list[]=1&list[]=2&other[]=3", "items[0][tags][]=1&items[0][sku]=2", "a.b=1&c=2",
        "ab[x]=1&a[]=2", "items[][sku]=1&items[][qty]=2", "items[][qty]=2&items[][sku]=1",
        "items[][tags][]=1&items[][tags][]=2&items[][sku]=3", ""}) {
    EXPECT_EQ(OrderOf(form), "") << form;
  }
  EXPECT_EQ(Derive(FormCall("a[x]=1&b=2&a[y]=3")).key, Derive(FormCall("b=2&a[y]=3&a[x]=1")).key);
}

TEST(PairOrderTest, WhatIsIgnoredHasNone) {
  KeyCase call = FormCall("x=1&at=2&at[]=3");
  call.tool.ignore = {"/at", "/at[]"};
  const DerivedKey key = Derive(call);
  call.body = "at[]=3&x=1&at=2";
  EXPECT_EQ(Derive(call).key, key.key);
}

// What was begun before the order counted is found under the name that it has.
TEST(PairOrderTest, AnEarlierVersionCountedNone) {
  KeyCase call = FormCall("x=1&x[]=2");
  const DerivedKey key = Derive(call);
  call.body = "x[]=2&x=1";
  const DerivedKey other = Derive(call);
  ASSERT_EQ(key.older.size(), 1U);
  ASSERT_EQ(other.older.size(), 1U);
  EXPECT_EQ(key.older[0].key, other.older[0].key);
  EXPECT_EQ(key.older[0].args_hash, other.older[0].args_hash);
  EXPECT_NE(key.older[0].args_hash, key.args_hash);
}

TEST(PairOrderTest, OfTooManyNamesAllCount) {
  std::string form = "z[]=1&y[]=2";
  EXPECT_EQ(OrderOf(form), "");
  for (int i = 0; i < 1'000; ++i) form += "&n" + std::to_string(i) + "=1";
  EXPECT_NE(OrderOf(form), "");
}

}  // namespace
}  // namespace recourse::pair_order_test
