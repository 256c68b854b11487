// The key of a mutation in a directive of its field.
#include <gtest/gtest.h>

#include <string>

#include "policy/graphql/decision/document_key.h"
#include "policy/graphql/key_argument.h"

namespace recourse::graphql_key_test {
namespace {

const RequestPlace& Place() {
  static const RequestPlace place = ParseRequestPlace("document@idempotent(key)").value();
  return place;
}

std::string Put(std::string body) {
  const Insertion put = InsertionInDocument(Place(), body, "k\"1");
  return body.insert(put.at, put.text);
}

std::string Read(std::string_view body) {
  const auto text = recourse::TextIn(Place(), {}, body);
  return !text ? "!" + std::string(text.error()) : text->value_or("-");
}

std::string Message(const std::string& document, const std::string& more = "") {
  return R"({"query":")" + document + "\"" + more + "}";
}

TEST(GraphqlKeyTest, IsWrittenBehindTheFieldAndNothingElseChanges) {
  EXPECT_EQ(Put("mutation { a { id } }"), R"(mutation { a @idempotent(key: "k\"1") { id } })");
  EXPECT_EQ(Put("mutation{x:a(b:1)@c{id}}"),
            R"(mutation{x:a(b:1) @idempotent(key: "k\"1")@c{id}})");
  EXPECT_EQ(Put("mutation { ...F } fragment F on M { a # no\n }"),
            "mutation { ...F } fragment F on M { a @idempotent(key: \"k\\\"1\") # no\n }");
  EXPECT_EQ(Put("mutation { a @idempotent }"), R"(mutation { a @idempotent(key: "k\"1") })");
  EXPECT_EQ(Put(Message(R"(# \u00e9\ud83d\ude00 \"\nmutation { a(b: \"\u0041\") { id } })")),
            Message(R"(# \u00e9\ud83d\ude00 \"\nmutation { a(b: \"\u0041\"))"
                    R"( @idempotent(key: \"k\\\"1\") { id } })"));
  EXPECT_EQ(Put(Message("query Q { q } mutation M { a }", R"(,"operationName":"M")")),
            Message(R"(query Q { q } mutation M { a @idempotent(key: \"k\\\"1\") })",
                    R"(,"operationName":"M")"));
}

TEST(GraphqlKeyTest, WhatTheAgentWroteIsRead) {
  EXPECT_EQ(Read("mutation { a }"), "-");
  EXPECT_EQ(Read(R"(mutation { a @idempotent(key: "x\u0041") })"), "xA");
  EXPECT_EQ(Read(R"(mutation { a @other(key: "x") })"), "-");
  EXPECT_EQ(Read(Message("mutation($k: String!) { a @idempotent(key: $k) }",
                         R"(,"variables":{"k":"mine"})")),
            "mine");
  EXPECT_EQ(Read(Message("mutation($k: String!) { a @idempotent(key: $k) }")), "-");
}

TEST(GraphqlKeyTest, WhatHasNoRoomForOneIsRefused) {
  EXPECT_EQ(Read("mutation { a @idempotent(key: 1) }").front(), '!');
  EXPECT_EQ(Read(R"(mutation { a @idempotent(key: "x", of: 1) })").front(), '!');
  EXPECT_EQ(Read(R"(mutation { a @idempotent(key: "x") @idempotent(key: "y") })").front(), '!');
  EXPECT_EQ(Read(R"(mutation($k: String = "x") { a @idempotent(key: $k) })").front(), '!');
  EXPECT_EQ(Read(R"({"id":"stored"})").front(), '!');
  EXPECT_EQ(Read("mutation { a b }").front(), '!');
  const std::string hash = R"(,"extensions":{"persistedQuery":{"sha256Hash":"00"}})";
  EXPECT_EQ(Read(Message("mutation { a }", hash)).front(), '!');
  EXPECT_EQ(Read(Message(R"(mutation { a @idempotent(key: \"x\") })", hash)), "x");
}

TEST(GraphqlKeyTest, GoesIntoTheVariableThatTheDocumentLeavesItTo) {
  const std::string body = Message("mutation($k: String!) { a @idempotent(key: $k) }");
  EXPECT_EQ(PlaceIn(Place(), body).value(),
            (RequestPlace{RequestPlace::Where::kBody, "/variables/k"}));
  EXPECT_EQ(PlaceIn(Place(), "mutation { a }").value(), Place());
}

TEST(GraphqlKeyTest, IsTakenOutAlone) {
  std::string body =
      Message(R"(mutation { a(b: \"é\") @idempotent(key: \"x\") { id } })", R"(,"x":1)");
  TakeFromDocument(Place(), body);
  EXPECT_EQ(body, Message(R"(mutation { a(b: \"é\")  { id } })", R"(,"x":1)"));
  std::string selection = R"(a@b({"key":"x"})@idempotent({"key":"x"}){id })";
  LeaveOutKey(Place(), "x", selection);
  EXPECT_EQ(selection, R"(a@b({"key":"x"}){id })");
}

}  // namespace
}  // namespace recourse::graphql_key_test
