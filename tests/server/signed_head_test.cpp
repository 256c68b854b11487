#include "proxy/startup/signed_head.h"

#include <gtest/gtest.h>

namespace recourse::signed_head_test {
namespace {

// Of RFC 8032 7.1, TEST 1, as openssl writes it.
constexpr char kSigning[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n";
constexpr char kVerifying[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
    "-----END PUBLIC KEY-----\n";

SignedHead Signed() {
  SignedHead head{.ledger = Sha256("ledger"),
                  .row = 42,
                  .hash = Sha256("row 42"),
                  .time = "2026-11-20T10:00:00.123Z",
                  .signature = {}};
  EXPECT_TRUE(Sign(**ReadSigningKey(kSigning), head));
  return head;
}

TEST(SignedHeadTest, TheSignatureOfEd25519IsThatOfItsStandard) {
  EXPECT_EQ(ToHex(SignEd25519(**ReadSigningKey(kSigning), "")),
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc6"
            "1e39701cf9b46bd25bf5f0595bbe24655141438e7a100b");
}

TEST(SignedHeadTest, AHeadIsReadBackAsItWasSigned) {
  const SignedHead head = Signed();
  const auto read = ParseSignedHead(ToJson(head) + "\n");
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(TextOf(*read), TextOf(head));
  EXPECT_TRUE(IsSignedBy(**ReadVerifyingKey(kVerifying), *read));
}

TEST(SignedHeadTest, AnyOtherHeadIsNotSigned) {
  const auto key = ReadVerifyingKey(kVerifying);
  const auto expect_refused = [&](auto change) {
    SignedHead head = Signed();
    change(head);
    EXPECT_FALSE(IsSignedBy(**key, head)) << ToJson(head);
  };
  expect_refused([](SignedHead& head) { head.ledger[0] ^= 1; });
  expect_refused([](SignedHead& head) { head.row = 41; });
  expect_refused([](SignedHead& head) { head.hash[31] ^= 1; });
  expect_refused([](SignedHead& head) { head.time = "2026-11-20T10:00:00.124Z"; });
  expect_refused([](SignedHead& head) { head.signature[0] ^= 1; });
  expect_refused([](SignedHead& head) { head.signature.clear(); });
}

TEST(SignedHeadTest, WhatIsNoHeadAndNoKeyIsSaidSo) {
  for (const char* text : {"", "{}", "[]", R"({"type":"ledger.head","row":0})"}) {
    EXPECT_FALSE(ParseSignedHead(text)) << text;
  }
  for (const char* text : {"", "no key", kVerifying}) EXPECT_FALSE(ReadSigningKey(text)) << text;
  for (const char* text : {"", "no key", kSigning}) EXPECT_FALSE(ReadVerifyingKey(text)) << text;
}

}  // namespace
}  // namespace recourse::signed_head_test
