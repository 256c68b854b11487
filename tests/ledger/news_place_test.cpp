// Where somebody goes on who follows a ledger, as text.
#include "filters/ledger/model/news_place.h"

#include <gtest/gtest.h>

#include "filters/ledger/model/row_id.h"

namespace recourse::news_place_test {
namespace {

TEST(NewsPlaceTest, APlaceIsReadAsItWasPrinted) {
  const NewsPlace one = NewsPlace::OfRow(17);
  const NewsPlace many{.at_ms = 1'790'000'000'000, .told = {{42, 17}, {43, 5}}};
  const NewsPlace none{.at_ms = 1'790'000'000'000, .told = {}};
  EXPECT_EQ(PrintNewsPlace(one), "17");
  EXPECT_EQ(PrintNewsPlace(many), "1790000000000:42.17,43.5");
  EXPECT_EQ(NewsPlaceJson(one), "17");
  EXPECT_EQ(NewsPlaceJson(none), "\"1790000000000:\"");
  const auto of_a_stream = NewsPlace::OfRow(PackRowId({.stream = 42, .number = 17}));
  EXPECT_EQ(PrintNewsPlace(of_a_stream), "42.17");
  EXPECT_EQ(NewsPlaceJson(of_a_stream), "\"42.17\"");
  for (const NewsPlace& place : {one, of_a_stream, many, none}) {
    EXPECT_EQ(ParseNewsPlace(PrintNewsPlace(place)), place);
  }
}

TEST(NewsPlaceTest, WhatIsNoPlaceIsRefused) {
  for (const char* text : {"", "x", "-1", "42.", ":", "0:42.17", "-5:42.17", "5:17", "5:42.17,",
                           "5:42.17,42.18", "5:42.17 43.5", "now:42.17", "5:,42.17"}) {
    EXPECT_FALSE(ParseNewsPlace(text)) << text;
  }
}

}  // namespace
}  // namespace recourse::news_place_test
