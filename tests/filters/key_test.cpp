#include "filters/key/key.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "filters/call/client_key.h"
#include "filters/ledger/model/standing_notes.h"
#include "policy/language/loader.h"
#include "tests/filters/key_builder.h"

namespace recourse::key_test {
namespace {

KeyCase WithKey(std::string value) {
  KeyCase call;
  call.headers.emplace_back("Idempotency-Key", std::move(value));
  return call;
}

KeyCase Scoped(ScopeRule::Kind kind, std::string name = {}) {
  KeyCase call;
  call.tool.scope = {kind, std::move(name)};
  return call;
}

TEST(ClientKeyTest, ReadsBareAndQuotedKeysAsTheSameValue) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"abc", "abc"},
      {"\"abc\"", "abc"},
      {"stripe-node-retry-7c9e6679-7425-40de-944b-e07fc1f90ae7",
       "stripe-node-retry-7c9e6679-7425-40de-944b-e07fc1f90ae7"},
      {"order:42/a=b", "order:42/a=b"},
      {R"("a \"quoted\" \\ key")", R"(a "quoted" \ key)"},
  };
  for (const auto& [field, value] : cases) {
    const auto key = ParseClientKey(field);
    ASSERT_TRUE(key.has_value()) << field;
    EXPECT_EQ(*key, value);
  }
}

TEST(ClientKeyTest, RefusesWhatCannotBeReadOneWay) {
  const std::vector<std::string> fields = {"",
                                           "\"\"",
                                           "a b",
                                           "a\"b",
                                           "\"abc",
                                           "\"abc\"x",
                                           "\"a\\nb\"",
                                           "\"a\\",
                                           "a,b",
                                           "a;b=1",
                                           "a\\b",
                                           "../../etc/passwd",
                                           "k\xc3\xa9y",
                                           "\"\xc3\xa9\"",
                                           std::string("a\0b", 3),
                                           "a\r\nb",
                                           std::string(256, 'k'),
                                           '"' + std::string(256, 'k') + '"'};
  for (const std::string& field : fields) {
    const auto key = ParseClientKey(field);
    ASSERT_FALSE(key.has_value()) << field;
    EXPECT_EQ(key.error().code(), ErrorCode::kInvalidKey) << field;
  }
  EXPECT_TRUE(ParseClientKey(std::string(255, 'k')).has_value());
}

TEST(ClientKeyTest, WhatStandsInTheBackendsOwnFieldIsTheAgentsKey) {
  const auto read = [](const std::string& key_header, Headers headers) {
    KeyRule rule;
    if (!key_header.empty()) rule.at = {RequestPlace::Where::kHeader, key_header};
    AdoptKeyField(rule, headers);
    return ReadClientIntent(headers);
  };
  EXPECT_EQ(read("X-Request-Key", {{"x-request-key", "k1"}})->key, "k1");
  EXPECT_EQ(read("X-Request-Key", {{"Idempotency-Key", "k1"}})->key, "k1");
  EXPECT_EQ(read("X-Request-Key", {{"Idempotency-Key", "k1"}, {"X-Request-Key", "k1"}})->key, "k1");
  EXPECT_FALSE(read("X-Request-Key", {{"Idempotency-Key", "k1"}, {"X-Request-Key", "k2"}}));
  EXPECT_FALSE(read("X-Request-Key", {{"X-Request-Key", "k1"}, {"X-Request-Key", "k1"}}));
  EXPECT_EQ(read("", {{"X-Request-Key", "k1"}})->key, std::nullopt);
  EXPECT_FALSE(read("Idempotency-Key", {{"Idempotency-Key", "a"}, {"Idempotency-Key", "a"}}));
}

TEST(KeyTest, RepeatsOfOneCallHaveOneKeyAndEveryPartMatters) {
  const Digest key = Derive(KeyCase()).key;
  EXPECT_EQ(key, Derive(KeyCase()).key);
  KeyCase call;
  call.caller = "agent-2";
  EXPECT_NE(key, Derive(call).key);
  call = KeyCase();
  call.tool_name = "orders.update";
  EXPECT_NE(key, Derive(call).key);
  call = KeyCase();
  call.trace_id = "11111111111111111111111111111111";
  EXPECT_NE(key, Derive(call).key);
  EXPECT_EQ(Derive(KeyCase()).intent, Derive(call).intent);
  call = KeyCase();
  call.secret = "another install";
  EXPECT_NE(key, Derive(call).key);
}

// A ledger outlives every version of us: other bytes here would run its calls once more.
TEST(KeyTest, KeysOfLedgersThatAreThereStayWhatTheyAre) {
  const auto is = [](const KeyCase& call, const char* args, const char* key, const char* intent) {
    const DerivedKey derived = Derive(call);
    EXPECT_EQ(ToHex(derived.args_hash), args);
    EXPECT_EQ(ToHex(derived.key), key);
    EXPECT_EQ(ToHex(derived.intent), intent);
  };
  const char* const args = "19e737eb10d545affb152e9ce25d10a740b589cd7926732b7343b02d3cf67894";
  is(KeyCase(), args, "f7b58f3e50cd53feb3c00463ac3601e75decd18be74e29406b3b1732708a9db2",
     "068c20c9024a0c6ff80da78dca0ff8a0579aaf980a8b7eaa4543445d94bf0cce");
  is(WithKey("order-42"), args, "fc322be640dcfa711ef8f8ca7504f2c28315b459005b3801393dea8d754468db",
     "bc08452d2d409b2d75118a6eb996e767375983c697d00f89841c5a57c322de0f");
  KeyCase call;
  call.tool.identity = {At("body#/item")};
  is(call, args, "a01a54d1e2c34dfe3a37f9a12cf004ff4a2ff965ae9a308aa305139362cd7029",
     "f4bdaaec91aa971167b30c583f3281f54496c093060eaeb1d436d9b066c24fbe");
  call = KeyCase();
  call.secret = std::string(65, 's');
  is(call, "59b94d819e8f74606a8862ed8f8ad3ddd5bf8ab7a0164df42b8b88f82485482e",
     "d0f14962f107bf9698a9b121d1059b5698dbb349259caaa91ec8bfcd8211ff34",
     "da8934c59b093e87d7e06d129ad4049effe5f80e44082d02c4764c8de8db3b5a");
}

TEST(KeyTest, PartsCannotBeMovedFromOneToTheNext) {
  KeyCase first, second;
  first.caller = "a";
  first.tool_name = "bc";
  second.caller = "ab";
  second.tool_name = "c";
  EXPECT_NE(Derive(first).key, Derive(second).key);
}

TEST(KeyTest, WithoutATraceOfTheClientTheScopeIsTheCallerAndTheWindowApplies) {
  KeyCase call;
  call.has_client_trace = false;
  const DerivedKey key = Derive(call);
  EXPECT_TRUE(key.is_windowed);
  EXPECT_FALSE(key.spans_traces);
  call.trace_id = "22222222222222222222222222222222";  // made here, new with every call
  EXPECT_EQ(key.key, Derive(call).key);
}

TEST(KeyTest, WithATraceTheSameIntentIsLookedForUnderOthers) {
  const DerivedKey key = Derive(KeyCase());
  EXPECT_FALSE(key.is_windowed);
  EXPECT_TRUE(key.spans_traces);
}

TEST(KeyTest, ARepeatIsSpelledAsTheFirstAttemptWas) {
  const std::string intent = "a \"b\" \\ c";
  const std::string quoted = R"("a \"b\" \\ c")";
  for (const std::string& field : {std::string(), quoted}) {
    for (const Headers& repeat : {Headers{{"idempotency-key", quoted}},
                                  Headers{{"Recourse-Intent", quoted}}, Headers{{"X", "y"}}}) {
      Headers spelled = repeat;
      SpellKey(field, intent, spelled);
      const std::string* const key = FindHeader(spelled, "Idempotency-Key");
      EXPECT_EQ(key == nullptr ? "" : *key, field);
      EXPECT_EQ(ReadClientIntent(spelled)->intent, intent);
    }
  }
}

TEST(KeyTest, AnIntentThatTheAgentNamesHoldsOverTracesAndLeavesTheArgumentsOut) {
  KeyCase call = WithKey("order-42");
  const DerivedKey key = Derive(call);
  EXPECT_FALSE(key.is_windowed);
  EXPECT_FALSE(key.spans_traces);
  EXPECT_EQ(key.client_key, "order-42");

  call.trace_id = "11111111111111111111111111111111";
  call.body = R"({"item":"chair"})";
  EXPECT_EQ(key.key, Derive(call).key);
  EXPECT_NE(key.args_hash, Derive(call).args_hash) << "the fingerprint tells 422 from a repeat";
  EXPECT_EQ(key.key, Derive(WithKey("\"order-42\"")).key);
  EXPECT_NE(key.key, Derive(WithKey("order-43")).key);

  KeyCase other = WithKey("order-42");
  other.caller = "agent-2";
  EXPECT_NE(key.key, Derive(other).key) << "another agent's key is another record";
  KeyCase intent;
  intent.headers.emplace_back("Recourse-Intent", "order-42");
  EXPECT_EQ(key.key, Derive(intent).key);
  EXPECT_EQ(Derive(intent).client_key, std::nullopt);
}

TEST(KeyTest, ANamedIntentIsKeptApartFromAnIdentityWithTheSameText) {
  KeyCase call = JsonCall(R"({"id":"order-42"})");
  call.tool.identity = {At("body#/id")};
  EXPECT_NE(Derive(call).key, Derive(WithKey("order-42")).key);
}

TEST(KeyTest, TwoNamesForOneCallMustAgree) {
  KeyCase call = WithKey("a");
  call.headers.emplace_back("Recourse-Intent", "\"a\"");
  EXPECT_TRUE(TryDerive(call).has_value());
  call.headers.back().second = "b";
  EXPECT_EQ(TryDerive(call).error().code(), ErrorCode::kInvalidKey);
  call = WithKey("a");
  call.headers.emplace_back("idempotency-key", "a");
  EXPECT_EQ(TryDerive(call).error().code(), ErrorCode::kInvalidKey);
}

TEST(KeyTest, WithIdentityOnlyItsValuesEnter) {
  KeyCase call = JsonCall(R"({"customer":"c1","cart":7,"note":"please hurry"})");
  call.tool.identity = {At("body#/customer"), At("body#/cart")};
  const DerivedKey key = Derive(call);
  call.body = R"({"cart": 7.0, "customer": "c1", "note": "as soon as possible"})";
  EXPECT_EQ(key.key, Derive(call).key);
  EXPECT_NE(key.args_hash, Derive(call).args_hash);
  call.body = R"({"customer":"c1","cart":8,"note":"please hurry"})";
  EXPECT_NE(key.key, Derive(call).key);
}

TEST(KeyTest, ThatAllArgumentsCountChangesNoKeyWhetherSaidOrNot) {
  const auto load = [](const std::string& words) {
    const LoadedPolicy loaded = LoadPolicyText(
        "p.yaml",
        "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n  t: { match: POST b "
        "/t, effect: write, reason: r, ignore: /meta/at" +
            words + " }\n");
    return loaded.policy->tools[0];
  };
  for (KeyCase call : {JsonCall(R"({"a":1,"meta":{"at":2}})"), FormCall("a=1"), WithKey("k")}) {
    for (const bool has_trace : {true, false}) {
      call.has_client_trace = has_trace;
      call.tool = load("");
      const DerivedKey unsaid = Derive(call);
      call.tool = load(", identity: all");
      const DerivedKey said = Derive(call);
      EXPECT_EQ(said.key, unsaid.key);
      EXPECT_EQ(said.intent, unsaid.intent);
      EXPECT_EQ(said.args_hash, unsaid.args_hash);
      EXPECT_EQ(said.has_identity, unsaid.has_identity);
      EXPECT_EQ(said.is_retry_only, unsaid.is_retry_only);
      EXPECT_EQ(said.is_windowed, unsaid.is_windowed);
    }
  }
}

TEST(KeyTest, AnAbsentIdentityValueIsAValueOfItsOwn) {
  KeyCase call = JsonCall(R"({"customer":"c1"})");
  call.tool.identity = {At("body#/customer"), At("body#/cart")};
  const Digest absent = Derive(call).key;
  for (const char* body : {R"({"customer":"c1","cart":null})", R"({"customer":"c1","cart":""})",
                           R"({"customer":"c1","cart":"absent"})"}) {
    call.body = body;
    EXPECT_NE(absent, Derive(call).key) << body;
  }
}

TEST(KeyTest, WhenAllIdentityValuesAreAbsentTheArgumentsEnter) {
  KeyCase call = JsonCall(R"({"note":"a"})");
  call.tool.identity = {At("body#/customer")};
  const DerivedKey key = Derive(call);
  call.body = R"({"note":"b"})";
  EXPECT_NE(key.key, Derive(call).key);
}

TEST(KeyTest, AScalarBodyIsRefusedWhereThePolicySelectsFromIt) {
  KeyCase call = JsonCall("42");
  EXPECT_TRUE(TryDerive(call).has_value());
  call.tool.identity = {At("body#/customer")};
  EXPECT_EQ(TryDerive(call).error().code(), ErrorCode::kMalformedRequest);
}

TEST(KeyTest, FormFieldsCanBeTheIdentity) {
  KeyCase call = FormCall("customer=c1&note=a");
  call.tool.identity = {At("body#/customer")};
  const Digest key = Derive(call).key;
  call.body = "note=b&customer=c1";
  EXPECT_EQ(key, Derive(call).key);
  call.body = "note=b&customer=c1&customer=c2";  // two readings: not an identity
  EXPECT_NE(key, Derive(call).key);
}

TEST(KeyTest, PartsOfMultipartCanBeTheIdentityAndWereNotInEarlierVersions) {
  const auto call = [](const std::string& boundary, const std::string& cart, const char* note) {
    const auto part = [&](const std::string& name, const std::string& value) {
      return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" +
             value + "\r\n";
    };
    KeyCase made;
    made.type = "multipart/form-data; boundary=" + boundary;
    made.body = part("cart", cart) + part("note", note) + "--" + boundary + "--\r\n";
    made.tool.identity = {At("body#/cart")};
    return made;
  };
  const DerivedKey key = Derive(call("x", "7", "a"));
  EXPECT_TRUE(key.has_identity);
  EXPECT_EQ(key.key, Derive(call("y", "7", "b")).key);
  EXPECT_NE(key.key, Derive(call("x", "8", "a")).key);
  KeyCase unread = call("x", "7", "a");
  unread.tool.identity.clear();
  ASSERT_EQ(key.older.size(), 1U);
  EXPECT_EQ(key.older[0].key, Derive(unread).key);
  EXPECT_TRUE(Derive(unread).older.empty());
}

TEST(KeyTest, ScopesReachAsFarAsThePolicySays) {
  KeyCase caller = Scoped(ScopeRule::Kind::kCaller);
  const DerivedKey key = Derive(caller);
  EXPECT_TRUE(key.is_windowed);
  caller.trace_id = "11111111111111111111111111111111";
  EXPECT_EQ(key.key, Derive(caller).key);

  KeyCase global = Scoped(ScopeRule::Kind::kGlobal);
  const DerivedKey everyone = Derive(global);
  EXPECT_TRUE(everyone.is_windowed);
  global.caller = "agent-2";
  EXPECT_EQ(everyone.key, Derive(global).key);
}

TEST(KeyTest, ScopesOfAValueInTheCallNeedThatValue) {
  struct Row {
    KeyCase call;
    Headers headers;
    const char* name;
    const char* requirement;
  };
  const std::vector<Row> rows = {
      {Scoped(ScopeRule::Kind::kSession),
       {{"Mcp-Session-Id", "s1"}},
       "session",
       "the header Recourse-Session or Mcp-Session-Id"},
      {Scoped(ScopeRule::Kind::kSession),
       {{"Recourse-Session", "s1"}},
       "session",
       "the header Recourse-Session or Mcp-Session-Id"},
      {Scoped(ScopeRule::Kind::kHeader, "X-Run-Id"),
       {{"x-run-id", "r1"}},
       "header.X-Run-Id",
       "the header X-Run-Id"},
      {Scoped(ScopeRule::Kind::kBaggage, "run"),
       {{"baggage", "a=1, run = r%201;p=1"}},
       "baggage.run",
       "the member run of the baggage header"},
  };
  for (const Row& row : rows) {
    KeyCase call = row.call;
    EXPECT_EQ(TryDerive(call).error().code(), ErrorCode::kKeyRequired) << row.name;
    EXPECT_EQ(ScopeRequirement(call.tool.scope), row.requirement);
    call.headers = row.headers;
    const DerivedKey key = Derive(call);
    EXPECT_FALSE(key.is_windowed) << row.name;
    EXPECT_FALSE(key.spans_traces) << row.name;
    call.trace_id = "11111111111111111111111111111111";
    EXPECT_EQ(key.key, Derive(call).key) << row.name;
    call.headers.front().second += "2";
    if (row.call.tool.scope.kind != ScopeRule::Kind::kBaggage) {
      EXPECT_NE(key.key, Derive(call).key) << row.name;
    }
    call.headers = row.headers;
    call.headers.push_back(row.headers.front());
    EXPECT_EQ(TryDerive(call).error().code(), ErrorCode::kKeyRequired) << "two readings";
  }
}

TEST(KeyTest, ARequiredTraceMayOnlyBeReplacedByAKeyOfTheAgentsOwn) {  // K01
  KeyCase call;
  call.tool.trace_required = true;
  EXPECT_TRUE(TryDerive(call));
  call.has_client_trace = false;
  EXPECT_EQ(TryDerive(call).error().code(), ErrorCode::kKeyRequired);
  call.headers.emplace_back("Idempotency-Key", "k1");
  EXPECT_TRUE(Derive(call).is_named);
}

TEST(KeyTest, TheBodyCanCarryTheScope) {
  KeyCase call = Scoped(ScopeRule::Kind::kBody, "/run");
  EXPECT_EQ(TryDerive(call).error().code(), ErrorCode::kKeyRequired);
  call.body = R"({"run":{"id":1}})";
  EXPECT_EQ(TryDerive(call).error().code(), ErrorCode::kKeyRequired);
  call.body = R"({"run":1})";
  const Digest number = Derive(call).key;
  call.body = R"({"run":"1"})";
  EXPECT_NE(number, Derive(call).key);
}

// A repeat's content is known from its first call, by the digest of the arguments: where that
// leaves some of the body out, two calls that share it say different things.
TEST(KeyTest, TheContentOfACallIsThatOfItsOwnBody) {
  const auto content_of = [](const KeyCase& call) {
    return NoteIn(Derive(call).stands, NoteKind::kContent);
  };
  KeyCase one = JsonCall(R"({"item":"desk","at":1})"),
          other = JsonCall(R"({"item":"desk","at":2})");
  const auto content = content_of(one);
  ASSERT_TRUE(content);
  EXPECT_EQ(content_of(JsonCall(R"({"at":1, "item":"desk"})")), content);
  EXPECT_NE(content_of(other), content);
  KeyCase put = one, elsewhere = one;
  put.method = "PUT";
  elsewhere.secret = "another";
  EXPECT_NE(content_of(put), content);
  EXPECT_NE(content_of(elsewhere), content);
  for (KeyCase* call : {&one, &other}) call->tool.ignore = {"/at"};
  EXPECT_EQ(Derive(one).args_hash, Derive(other).args_hash);
  EXPECT_EQ(content_of(one), content);
  EXPECT_NE(content_of(other), content);
}

TEST(KeyTest, CallsThatAreOnlyLoggedNeverShareAKey) {
  const KeyCase call;
  HttpRequest request{"POST", "/orders", {}, "x"};
  const TraceContext trace;
  const CallBody body = RawCallBody(request);
  const std::vector<std::pair<std::string, std::string>> none;
  const HmacKey secret(call.secret);
  const KeyInputs inputs{secret,
                         UnlistedTool(),
                         call.tool_name,
                         call.caller,
                         call.verified_field,
                         call.earlier_callers,
                         call.backend,
                         call.principal,
                         trace,
                         request,
                         call.path,
                         none,
                         none,
                         body};
  EXPECT_NE(UniqueKey(inputs, "1").key, UniqueKey(inputs, "2").key);
  EXPECT_EQ(UniqueKey(inputs, "1").args_hash, UniqueKey(inputs, "2").args_hash);
  EXPECT_EQ(UniqueKey(inputs, "1").intent, Digest{});
}

}  // namespace
}  // namespace recourse::key_test
