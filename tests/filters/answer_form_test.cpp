#include "filters/answer_form.h"

#include <gtest/gtest.h>

namespace recourse::answer_form_test {
namespace {

HttpResponse Of(int status, std::string type) {
  return {status, "", {{"content-type", std::move(type)}}, ""};
}

TEST(AnswerForm, EventsStreamUnlessThePolicySaysOtherwise) {
  Tool tool;
  const HttpResponse events = Of(200, "Text/Event-Stream ; charset=utf-8");
  const HttpResponse json = Of(201, "application/json");
  EXPECT_TRUE(PassesAsItComes(nullptr, events));
  EXPECT_FALSE(PassesAsItComes(nullptr, json));
  EXPECT_TRUE(PassesAsItComes(&tool, events));
  EXPECT_FALSE(PassesAsItComes(&tool, Of(200, "text/event-streams")));
  tool.answer = AnswerForm::kStream;
  EXPECT_TRUE(PassesAsItComes(&tool, json));
  EXPECT_FALSE(PassesAsItComes(&tool, Of(422, "text/event-stream")));
  EXPECT_FALSE(PassesAsItComes(&tool, Of(307, "text/event-stream")));
  tool.answer = AnswerForm::kWhole;
  EXPECT_FALSE(PassesAsItComes(&tool, events));
}

TEST(AnswerForm, AStreamMayEndByItsOwnWord) {
  for (const char* events :
       {"data: [DONE]\n\n", "data:[DONE]\r\n\r\n", "data: 1\n\ndata: [DONE]\n\n",
        "data: 1\r\n\r\ndata: [DONE]\r\n\r\n"}) {
    EXPECT_TRUE(EndsStream(events)) << events;
  }
  for (const char* events : {"", "\n\n", "data: [DONE]\n", "data: [DONE]", "data: \"[DONE]\"\n\n",
                             "data: [DONE]\n\ndata: 1\n\n", "x data: [DONE]\n\n"}) {
    EXPECT_FALSE(EndsStream(events)) << events;
  }
}

}  // namespace
}  // namespace recourse::answer_form_test
