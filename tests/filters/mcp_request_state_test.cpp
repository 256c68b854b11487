#include <gtest/gtest.h>

#include "filters/mcp/request_state.h"

namespace recourse::mcp_request_state_test {
namespace {

const std::string kSecret = "a secret of 32 bytes, more or less";
const WallTime kNow = WallTime(std::chrono::milliseconds(1'000'000));

StateScope Scope(std::string tool = "pay", std::string arguments = R"({"a":1})",
                 std::string_view caller = "local", std::string_view backend = "tools") {
  return ScopeOfState(std::move(tool), *ParseJson(arguments), caller, backend);
}

const RequestState kState{3, 2'000'000, "0af7651916cd43dd8448eb211c80319c"};

TEST(RequestState, ComesBackAsItWasForTheSameCall) {
  const std::string text = WriteRequestState(kSecret, Scope(), kState);
  EXPECT_TRUE(IsOwnRequestState(text));
  const auto state = ReadRequestState(kSecret, Scope("pay", R"({ "a": 1.0 })"), text, kNow);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->round, 3);
  EXPECT_EQ(state->trace_id, kState.trace_id);
  EXPECT_EQ(state->expires_ms, kState.expires_ms);
}

TEST(RequestState, IsOfNoOtherCallCallerBackendSecretOrTime) {
  const std::string text = WriteRequestState(kSecret, Scope(), kState);
  EXPECT_FALSE(ReadRequestState(kSecret, Scope("refund"), text, kNow));
  EXPECT_FALSE(ReadRequestState(kSecret, Scope("pay", R"({"a":2})"), text, kNow));
  EXPECT_FALSE(ReadRequestState(kSecret, Scope("pay", R"({"a":1})", "other"), text, kNow));
  EXPECT_FALSE(ReadRequestState(kSecret, Scope("pay", R"({"a":1})", "local", "b"), text, kNow));
  EXPECT_FALSE(ReadRequestState("another secret", Scope(), text, kNow));
  EXPECT_TRUE(ReadRequestState(kSecret, Scope(), text, WallTime(Millis(1'999'999))));
  EXPECT_FALSE(ReadRequestState(kSecret, Scope(), text, WallTime(Millis(2'000'000))));
}

TEST(RequestState, NoByteOfItCanBeChanged) {
  const std::string text = WriteRequestState(kSecret, Scope(), kState);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string forged = text;
    forged[i] = forged[i] == '7' ? '8' : '7';
    EXPECT_FALSE(ReadRequestState(kSecret, Scope(), forged, kNow)) << i;
    EXPECT_FALSE(ReadRequestState(kSecret, Scope(), text.substr(0, i), kNow)) << i;
  }
}

TEST(RequestState, AnotherOneIsNotOurs) {
  for (const std::string_view text : {"", "eyJ", "recourse", "recourse2.1.2.3.4"}) {
    EXPECT_FALSE(IsOwnRequestState(text)) << text;
  }
}

TEST(RequestState, IsTakenOutOfTheBodyWhereverItStands) {
  for (const auto& [body, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"({"params":{"name":"t","requestState":"s"}})", R"({"params":{"name":"t"}})"},
           {R"({"params":{"requestState":"s","name":"t"}})", R"({"params":{"name":"t"}})"},
           {R"({"params":{"a":1 , "requestState" : "s" , "b":2}})",
            R"({"params":{"a":1 ,  "b":2}})"},
           {R"({"params":{"requestState":"s"}})", R"({"params":{}})"},
           {R"({"params":{"a":1, "request\u0053tate":"\"s" }})", R"({"params":{"a":1}})"},
           {R"({"params":{"name":"requestState"}})", R"({"params":{"name":"requestState"}})"}}) {
    const std::string text = WithoutRequestState(body, "");
    EXPECT_EQ(text, expected);
    EXPECT_TRUE(ParseJson(text)) << text;
  }
}

TEST(RequestState, TheFirstLegsTraceStandsWhereTheClientPutsItsOwn) {
  EXPECT_EQ(WithoutRequestState(R"({"params":{"_meta":{"traceparent":"00-b"},"requestState":"s"}})",
                                "00-a"),
            R"({"params":{"_meta":{"traceparent":"00-a"}}})");
}

}  // namespace
}  // namespace recourse::mcp_request_state_test
