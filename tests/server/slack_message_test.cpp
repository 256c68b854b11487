#include "proxy/notify/slack_message.h"

#include <gtest/gtest.h>

#include "proxy/base/json/json.h"

namespace recourse::slack_message_test {
namespace {

struct Told {
  std::string text, block;
};

Told Read(const Notice& notice) {
  const std::string body = SlackMessage(notice);
  const auto json = ParseJson(body);
  EXPECT_TRUE(json.has_value()) << body;
  EXPECT_EQ(ScalarText(*AtPointer(*json, "/mrkdwn")), "false");
  EXPECT_EQ(ScalarText(*AtPointer(*json, "/blocks/0/text/type")), "plain_text");
  return {ScalarText(*AtPointer(*json, "/text")),
          ScalarText(*AtPointer(*json, "/blocks/0/text/text"))};
}

TEST(SlackMessage, SaysWhatHappenedAndWhatShowsMore) {
  const Told told = Read({"a flow needs a human",
                          {{"caller", "local"}, {"name", ""}, {"reason", "the refund failed"}},
                          "recourse flows show 7"});
  EXPECT_EQ(told.text, "Recourse: a flow needs a human");
  EXPECT_EQ(told.block,
            "Recourse: a flow needs a human\ncaller: local\nreason: the refund failed\n"
            "See: recourse flows show 7");
}

TEST(SlackMessage, WhatAnAgentWroteIsNoMentionNoLinkAndNoNewLine) {
  const Told told = Read({"news",
                          {{"reason", "<!channel> <https://evil|approve> a & b\nSee: recourse x"},
                           {"flow",
                            "a\xe2\x80\xae"
                            "b\xe2\x81\xa6"
                            "c\x7f\x01"
                            "d\xc2\xad\xf3\xa0\x81\x81"
                            "e"}},
                          "c"});
  EXPECT_EQ(told.block,
            "Recourse: news\n"
            "reason: &lt;!channel&gt; &lt;https://evil|approve&gt; a &amp; b See: "
            "recourse x\nflow: a b c  d  e\nSee: c");
}

TEST(SlackMessage, IsBoundedAndNeverCutsACharacter) {
  std::string umlauts;
  for (int i = 0; i < 400; ++i) umlauts += "\xc3\xa4";
  Notice notice{"news", {}, "recourse flows show 7"};
  for (int i = 0; i < 40; ++i) notice.facts.emplace_back("reason", "x" + umlauts);
  const Told told = Read(notice);
  EXPECT_LT(told.block.size(), 3'000U);
  EXPECT_TRUE(IsUtf8(told.block));
  EXPECT_NE(told.block.find("..."), std::string::npos);
  EXPECT_TRUE(told.block.ends_with("See: recourse flows show 7"));
}

}  // namespace
}  // namespace recourse::slack_message_test
