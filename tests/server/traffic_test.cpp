#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include "proxy/traffic/traffic_recorder.h"
#include "tests/support/temp_directory.h"

namespace recourse::traffic_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kNow = 1'795'687'200'000;  // 2026-11-26T10:00:00Z

SeenCall Order(const std::string& body) {
  SeenCall call;
  call.wall_ms = kNow;
  call.backend = "shop";
  call.method = "POST";
  call.path = "/orders/o-17/lines";
  call.query = "?page=2";
  call.content_type = "application/json";
  call.body = body;
  call.has_body = true;
  call.answer = R"({"id": 17, "items": [0, 1, {"id": "c"}, 3, 4, 5, 6, {"id": "h"}, {"id": "i"}]})";
  call.status = 201;
  return call;
}

Sighting Seen(const SeenCall& call, const HmacKey& key) {
  return SightingOf(call, key).value_or(Sighting());
}

const SeenValue* At(const std::vector<SeenValue>& values, const std::string& place) {
  const auto at = std::ranges::find(values, place, &SeenValue::place);
  return at == values.end() ? nullptr : &*at;
}

TEST(TrafficTest, EqualValuesHaveEqualHashesWhereverTheyStand) {
  const HmacKey key("k");
  const Sighting seen =
      Seen(Order(R"({"order": "o-17", "n": 17, "m": 17.0, "lines": [1, 2]})"), key);
  ASSERT_EQ(seen.path.size(), 3);
  EXPECT_EQ(seen.path[0].word, "orders");
  EXPECT_EQ(seen.path[1].word, "");
  EXPECT_EQ(seen.path[1].hash, At(seen.body, "body#/order")->hash);
  EXPECT_EQ(At(seen.body, "body#/n")->hash, At(seen.answer, "answer.body#/id")->hash);
  EXPECT_EQ(At(seen.body, "body#/n")->hash, At(seen.body, "body#/m")->hash);
  EXPECT_EQ(At(seen.body, "body#/lines")->kind, ValueKind::kComposite);
  EXPECT_NE(At(seen.answer, "answer.body#/items/2/id"), nullptr);
  EXPECT_NE(At(seen.answer, "answer.body#/items/7/id"), nullptr);
  EXPECT_EQ(At(seen.answer, "answer.body#/items/8/id"), nullptr) << "a list may be long";
  EXPECT_NE(At(seen.query, "query.page"), nullptr);
  EXPECT_NE(Seen(Order(R"({"order": "o-17"})"), HmacKey("other")).body[0].hash,
            At(seen.body, "body#/order")->hash);
}

TEST(TrafficTest, KindsAreToldBeforeTheValueIsForgotten) {
  const std::vector<std::pair<std::string, ValueKind>> cases{
      {R"("2026-11-26T10:00:03.25Z")", ValueKind::kTime},
      {R"("2026-11-26T11:01:00+01:00")", ValueKind::kTime},
      {R"("2026-11-26 10:00:00")", ValueKind::kTime},
      {R"("2026-11-26T04:31:00.5-0530")", ValueKind::kTime},
      {R"("2026-11-26T10:30:00Z")", ValueKind::kWord},  // half an hour on: an appointment
      {R"("2026-12-24")", ValueKind::kWord},
      {R"("2026-12-24T10:00:00Z")", ValueKind::kWord},
      {"1795687201", ValueKind::kTime},
      {"1795687201123", ValueKind::kTime},
      {"1795680000", ValueKind::kNumber},
      {"12.5", ValueKind::kNumber},
      {"true", ValueKind::kFlag},
      {"null", ValueKind::kFlag},
      {R"("")", ValueKind::kFlag},
      {R"("0e0d8d7c-1f9b-4a61-8c1e-7e2d3a4b5c6d")", ValueKind::kOpaque},
      {R"("01HF8Z3J4K5M6N7P8Q9R0S1T2V")", ValueKind::kOpaque},
      {R"("9f86d081884c7d65")", ValueKind::kOpaque},
      {R"("order-2026-000000017")", ValueKind::kWord},
      {R"("17")", ValueKind::kNumber},  // as ids are that a collection counts
      {R"("0123456789")", ValueKind::kWord},
      {R"("two words")", ValueKind::kText},
      {R"("ada")", ValueKind::kWord},
  };
  for (const auto& [text, kind] : cases) {
    const Sighting seen = Seen(Order(R"({"x": )" + text + "}"), HmacKey("k"));
    ASSERT_EQ(seen.body.size(), 1) << text;
    EXPECT_EQ(seen.body[0].kind, kind) << text;
  }
}

TEST(TrafficTest, AnEmptyObjectSaysNothing) {
  const Sighting seen = Seen(Order("{}"), HmacKey("k"));
  EXPECT_EQ(seen.form, SeenBody::kJson);
  EXPECT_TRUE(seen.body.empty());
  EXPECT_EQ(Seen(Order(R"({"x": {}})"), HmacKey("k")).body.size(), 1);
}

TEST(TrafficTest, BodiesThatNobodyReadsAreOfAnotherForm) {
  SeenCall call = Order("{");
  EXPECT_EQ(Seen(call, HmacKey("k")).form, SeenBody::kOther);
  call.body.clear();
  EXPECT_EQ(Seen(call, HmacKey("k")).form, SeenBody::kOther);
  call.has_body = false;
  EXPECT_EQ(Seen(call, HmacKey("k")).form, SeenBody::kNone);
  call = Order("a=1&b=2");
  call.content_type = "application/x-www-form-urlencoded";
  EXPECT_EQ(Seen(call, HmacKey("k")).body.size(), 2);
}

TEST(TrafficTest, ManyMembersCountAsOneBeyondABound) {
  std::string body = "{\"m\": 1";
  for (int i = 0; i < 300; ++i) body += ", \"m" + std::to_string(i) + "\": 2";
  const Sighting seen = Seen(Order(body + "}"), HmacKey("k"));
  EXPECT_LE(seen.body.size(), 129);
  EXPECT_NE(At(seen.body, "(others)"), nullptr);
}

SeenCall ToolCall(const std::string& params, const std::string& result) {
  SeenCall call =
      Order(R"({"jsonrpc":"2.0","id":7,"method":"tools/call","params":)" + params + "}");
  call.path = "/mcp";
  call.is_message = true;
  call.trace_id = "of the field";
  call.answer = R"({"jsonrpc":"2.0","id":7,)" + result + "}";
  call.answer_type = "application/json";
  call.status = 200;
  return call;
}

const std::string kOrderCall = R"({"name":"create_order","arguments":{"item":"tea-7","n":{"m":1}},)"
                               R"("_meta":{"dev.recourse/intent":"i-1"}})";

TEST(TrafficTest, ACallOfAnMcpToolIsSeenAsItsArgumentsAndItsResult) {
  const HmacKey key("k");
  const SeenCall call = ToolCall(
      kOrderCall, R"("result":{"content":[],"structuredContent":{"id":"tea-7","ok":true}})");
  const Sighting seen = Seen(call, key);
  EXPECT_EQ(seen.method, "tools/call");
  ASSERT_EQ(seen.path.size(), 1);
  EXPECT_EQ(seen.path[0].word, "create_order");
  EXPECT_EQ(seen.status, 200);
  EXPECT_NE(seen.agent_key, 0);
  ASSERT_NE(At(seen.body, "body#/item"), nullptr);
  EXPECT_NE(At(seen.body, "body#/n/m"), nullptr);
  EXPECT_EQ(At(seen.body, "body#/item")->hash, At(seen.answer, "answer.body#/id")->hash);
  SeenCall streamed = call;
  streamed.answer = "event: message\ndata: " + call.answer + "\n\n";
  streamed.answer_type = "text/event-stream; charset=utf-8";
  EXPECT_EQ(Seen(streamed, key).answer.size(), seen.answer.size());
}

TEST(TrafficTest, HowACallOfAnMcpToolEndedIsToldAsAStatus) {
  const std::vector<std::pair<std::string, int>> cases{
      {R"("result":{"content":[{"type":"text","text":"done"}]})", 200},
      {R"("result":{"content":[],"isError":true})", 400},
      {R"("error":{"code":-32602,"message":"no such tool"})", 400},
      {R"("error":{"code":-32603,"message":"?"})", 500},
  };
  for (const auto& [result, status] : cases) {
    EXPECT_EQ(Seen(ToolCall(kOrderCall, result), HmacKey("k")).status, status) << result;
  }
  SeenCall cut = ToolCall(kOrderCall, R"("result":{})");
  cut.answer = "data: {\"jsonrpc";
  cut.answer_type = "text/event-stream";
  EXPECT_EQ(Seen(cut, HmacKey("k")).status, 0) << "nobody knows";
  cut.status = 503;
  EXPECT_EQ(Seen(cut, HmacKey("k")).status, 503);
  const SeenCall asked =
      ToolCall(kOrderCall, R"("result":{"resultType":"input_required","requestState":"1"})");
  EXPECT_FALSE(SightingOf(asked, HmacKey("k"))) << "it has not been executed";
  EXPECT_FALSE(SightingOf(ToolCall(R"({"name":"*"})", R"("result":{})"), HmacKey("k")));
}

TEST(TrafficTest, AnMcpServersListTellsWhatOnlyReads) {
  SeenCall call = Order(R"({"jsonrpc":"2.0","id":7,"method":"tools/list"})");
  call.is_message = true;
  call.answer_type = "application/json";
  call.answer = R"({"jsonrpc":"2.0","id":7,"result":{"tools":[)"
                R"({"name":"get","annotations":{"readOnlyHint":true}},{"name":"put"}]}})";
  const Sighting seen = Seen(call, HmacKey("k"));
  ASSERT_EQ(seen.hints.size(), 2);
  EXPECT_TRUE(seen.hints[0].is_read_only && seen.hints[0].tool == "get");
  EXPECT_FALSE(seen.hints[1].is_read_only);
  Sighting back;
  ASSERT_TRUE(ReadSighting(TextOf(seen), back));
  ASSERT_EQ(back.hints.size(), 2);
  EXPECT_TRUE(back.hints[0].is_read_only && !back.hints[1].is_read_only);
}

class TrafficFileTest : public testing::Test {
 protected:
  const TempDirectory own_;
  const std::string& directory_ = own_.path();
  SystemRandom random_;
};

TEST_F(TrafficFileTest, WhatIsRecordedIsReadBackAndSaysNothingInClear) {
  {
    TrafficRecorder recorder(directory_, "secret", random_);
    for (int i = 0; i < 3; ++i) {
      SeenCall call = Order(R"({"card": "zanzibar"})");
      call.wall_ms += i;
      call.tool = "orders.create";
      call.is_delivered = true;
      recorder.Add(std::move(call));
    }
  }
  std::ifstream file(TrafficFile(directory_));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  for (const auto* plain : {"zanzibar", "orders", "card", "shop"}) {
    EXPECT_THAT(text, Not(HasSubstr(plain)));
  }
  const auto kept = ReadTraffic(directory_, TrafficKeys("secret"), kNow + 1);
  ASSERT_TRUE(kept) << kept.error();
  ASSERT_EQ(kept->seen.size(), 2);
  EXPECT_EQ(kept->unreadable, 0);
  const Sighting whole = Seen(Order(R"({"card": "zanzibar"})"), TrafficKeys("secret").hashing);
  const Sighting& back = kept->seen[0];
  EXPECT_EQ(back.wall_ms, kNow + 1);
  EXPECT_EQ(back.tool, "orders.create");
  EXPECT_EQ(back.status, 201);
  EXPECT_TRUE(back.is_delivered);
  EXPECT_EQ(back.form, SeenBody::kJson);
  EXPECT_EQ(back.path[1].hash, whole.path[1].hash);
  EXPECT_EQ(back.body[0].place, "body#/card");
  EXPECT_EQ(back.body[0].hash, whole.body[0].hash);
  EXPECT_EQ(back.body[0].kind, ValueKind::kWord);
  EXPECT_EQ(back.answer.size(), whole.answer.size());
}

// `recourse policy suggest` may be asked right after the last call.
TEST_F(TrafficFileTest, EachCallCanBeReadThoughNoMoreComesAndNobodyStops) {
  TrafficRecorder recorder(directory_, "secret", random_);
  for (std::size_t calls = 1; calls <= 3; ++calls) {
    recorder.Add(Order("{}"));
    std::size_t read = 0;
    for (int i = 0; i < 1'000'000 && read < calls; ++i) {
      const auto kept = ReadTraffic(directory_, TrafficKeys("secret"), 0);
      read = kept ? kept->seen.size() : 0;
      std::this_thread::yield();
    }
    ASSERT_EQ(read, calls);
  }
}

TEST_F(TrafficFileTest, LinesOfAnotherSecretAndBrokenOnesAreCountedAndLeftOut) {
  {
    TrafficRecorder recorder(directory_, "other", random_);
    recorder.Add(Order("{}"));
  }
  std::ofstream(TrafficFile(directory_), std::ios::app) << "cut o";
  const auto kept = ReadTraffic(directory_, TrafficKeys("secret"), 0);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(kept->seen.empty());
  EXPECT_EQ(kept->unreadable, 2);
}

TEST_F(TrafficFileTest, WithoutAFileItSaysWhoWritesOne) {
  const auto kept = ReadTraffic(directory_, TrafficKeys("secret"), 0);
  ASSERT_FALSE(kept);
  EXPECT_THAT(kept.error(), HasSubstr("observe mode"));
}

}  // namespace
}  // namespace recourse::traffic_test
