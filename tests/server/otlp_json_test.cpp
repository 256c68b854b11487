#include "proxy/telemetry/otlp_json.h"

#include <gtest/gtest.h>

#include "proxy/base/json/json.h"

namespace recourse::otlp_test {
namespace {

using std::chrono::seconds;

Span SpanOf(Span::Of of) {
  Span span;
  span.of = of;
  span.trace.Set("0af7651916cd43dd8448eb211c80319c");
  span.id.Set("b7ad6b7169203331");
  span.began = MonoTime(seconds(100));
  span.ended = MonoTime(seconds(101));
  span.method.Set("GET");
  span.effect = "read";
  return span;
}

Json Told(const Span& span, const ResourceAttributes& resource = {}) {
  const auto body = OtlpBody(std::span(&span, 1), resource, WallTime(seconds(1'000'000'100)),
                             MonoTime(seconds(100)));
  auto json = ParseJson(body);
  EXPECT_TRUE(json.has_value()) << body;
  return json ? std::move(*json) : Json();
}

std::string At(const Json& json, std::string_view pointer) {
  const Json* const found = AtPointer(json, pointer);
  return found == nullptr ? "(nothing)" : ScalarText(*found);
}

std::string Attribute(const Json& json, std::string_view name) {
  const Json* const list = AtPointer(json, "/resourceSpans/0/scopeSpans/0/spans/0/attributes");
  for (const Json& one : list->items) {
    if (At(one, "/key") == name) return ScalarText(one.Find("value")->members.front().second);
  }
  return "(nothing)";
}

TEST(Otlp, TimesAreNanosecondsOfTheWallClockAsText) {
  const Json json = Told(SpanOf(Span::Of::kCall));
  const std::string span = "/resourceSpans/0/scopeSpans/0/spans/0";
  EXPECT_EQ(At(json, span + "/startTimeUnixNano"), "1000000100000000000");
  EXPECT_EQ(At(json, span + "/endTimeUnixNano"), "1000000101000000000");
  EXPECT_EQ(AtPointer(json, span + "/startTimeUnixNano")->kind, Json::Kind::kString);
  EXPECT_EQ(At(json, span + "/parentSpanId"), "(nothing)");
  EXPECT_EQ(AtPointer(json, span + "/links"), nullptr);
}

TEST(Otlp, AnMcpMethodThatIsNotKnownGivesNoName) {
  Span span = SpanOf(Span::Of::kAttempt);
  span.rpc = "other";
  Json json = Told(span);
  EXPECT_EQ(At(json, "/resourceSpans/0/scopeSpans/0/spans/0/name"), "GET");
  EXPECT_EQ(Attribute(json, "mcp.method.name"), "(nothing)");
  EXPECT_EQ(Attribute(json, "gen_ai.operation.name"), "(nothing)");
  span.rpc = "tools/list";
  json = Told(span);
  EXPECT_EQ(At(json, "/resourceSpans/0/scopeSpans/0/spans/0/name"), "tools/list");
  EXPECT_EQ(Attribute(json, "gen_ai.operation.name"), "(nothing)");
}

TEST(Otlp, AMethodThatIsNotKnownIsToldApart) {
  Span span = SpanOf(Span::Of::kCall);
  span.method.Set("PROPFIND");
  const Json json = Told(span);
  EXPECT_EQ(Attribute(json, "http.request.method"), "_OTHER");
  EXPECT_EQ(Attribute(json, "http.request.method_original"), "PROPFIND");
  EXPECT_EQ(At(json, "/resourceSpans/0/scopeSpans/0/spans/0/name"), "HTTP");
}

TEST(Otlp, A404IsAnErrorOfTheAttemptAndNoneOfTheCall) {
  Span call = SpanOf(Span::Of::kCall);
  call.status = 404;
  EXPECT_EQ(Attribute(Told(call), "error.type"), "(nothing)");
  Span attempt = SpanOf(Span::Of::kAttempt);
  attempt.status = 404;
  EXPECT_EQ(Attribute(Told(attempt), "error.type"), "404");
  attempt.status = 0;
  attempt.error = "backend-timeout";
  EXPECT_EQ(Attribute(Told(attempt), "error.type"), "backend-timeout");
}

TEST(Otlp, TheFirstOfAResourceAttributeWins) {
  const Json json = Told(SpanOf(Span::Of::kCall), {{"service.name", "a"}, {"service.name", "b"}});
  const Json* const list = AtPointer(json, "/resourceSpans/0/resource/attributes");
  ASSERT_EQ(list->items.size(), 1U);
  EXPECT_EQ(At(list->items.front(), "/value/stringValue"), "a");
}

TEST(Otlp, ResourceAttributesAreDecodedAndWhatIsNoPairIsLeftOut) {
  const ResourceAttributes expected{{"team", "shop"}, {"note", "a,b"}, {"empty", ""}};
  EXPECT_EQ(ParseResourceAttributes("team=shop, note = a%2Cb ,broken,=x,bad=%zz,empty="), expected);
  EXPECT_TRUE(ParseResourceAttributes("").empty());
}

TEST(Otlp, OnlyWhatMayPassIsTriedAgain) {
  for (const int status : {429, 502, 503, 504}) {
    EXPECT_EQ(JudgeExport(status, "").kind, ExportVerdict::Kind::kAgain) << status;
  }
  for (const int status : {301, 400, 401, 404, 413, 500, 501}) {
    EXPECT_EQ(JudgeExport(status, "").kind, ExportVerdict::Kind::kRefused) << status;
  }
  EXPECT_EQ(JudgeExport(200, "").rejected, 0U);
  EXPECT_EQ(JudgeExport(200, R"({"partialSuccess":{"rejectedSpans":"7"}})").rejected, 7U);
  EXPECT_EQ(JudgeExport(200, R"({"partialSuccess":{"rejectedSpans":7}})").rejected, 7U);
}

TEST(Otlp, HeaderLinesAreReadAndAMistakeNamesItsLineOnly) {
  const auto fields = ParseHeaderLines("# token\r\nAuthorization: Bearer a:b\r\n\n X-Tenant:blue ");
  ASSERT_TRUE(fields.has_value());
  const Headers expected{{"Authorization", "Bearer a:b"}, {"X-Tenant", "blue"}};
  EXPECT_EQ(*fields, expected);
  for (const char* text : {"ok: 1\nno colon", "a: 1\nbad name: 2", "a: 1\nb: \x01"}) {
    EXPECT_EQ(ParseHeaderLines(text).error(), "line 2 is not `Name: value`");
  }
}

}  // namespace
}  // namespace recourse::otlp_test
