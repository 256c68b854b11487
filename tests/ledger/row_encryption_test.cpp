// Rows whose details and answers are sealed: what opens, and what must not.
#include "filters/ledger/rows/row_encryption.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <set>
#include <string>

#include "filters/ledger/rows/row_codec.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/support/seeded_random.h"

namespace recourse::row_seal_test {
namespace {

constexpr std::string_view kSecrets[] = {
    "/customers/ada", "because of ada", "ref-ada",     "/probe?ada=1", "undo of ada",
    "header of ada",  "answer to ada",  "/call?ada=1", "token of ada", "call of ada"};

std::shared_ptr<LedgerKeys> Keys(Random& random, std::string_view id = "k1") {
  return std::make_shared<LedgerKeys>(*KeyRing::Parse(NewKeyLine(id, random)), random);
}

Event SecretEvent(std::uint64_t id = 12) {
  Event event = Call("key").event;
  event.id = id;
  event.operation = 11;
  event.phase = Phase::kSucceeded;
  event.attempt = 1;
  event.path = "/customers/ada";
  event.detail = "because of ada";
  event.external_ref = "ref-ada";
  event.settle = RenderedRequest{"GET", "/probe?ada=1", {}, ""};
  event.undo = RenderedRequest{"POST", "/undo", {}, "undo of ada"};
  event.request =
      RenderedRequest{"POST", "/call?ada=1", {{"Authorization", "token of ada"}}, "call of ada"};
  event.answer_kept = true;
  event.answer = {201, "Created", {{"X", "header of ada"}}, "answer to ada"};
  return event;
}

class RowSealTest : public testing::Test {
 protected:
  std::string Row(const Event& event) {
    std::string row;
    AppendEventRow(row, event, DigestOf("previous"), &sealer);
    return row;
  }

  SeededRandom random{1};
  std::shared_ptr<LedgerKeys> keys = Keys(random);
  RowEncryptor sealer{keys};
  RowDecryptor opener{keys};
};

// Makes the checksum right again, as one who changes the file would.
void Mend(std::string& row) {
  constexpr std::size_t kCrcAt = 36;
  const auto* bytes = reinterpret_cast<const Bytef*>(row.data());
  uLong crc = crc32(0, bytes, kCrcAt);
  crc = crc32(crc, bytes + kCrcAt + 4, static_cast<uInt>(row.size() - kCrcAt - 4));
  const auto value = static_cast<std::uint32_t>(crc);
  std::memcpy(row.data() + kCrcAt, &value, sizeof value);
}

TEST_F(RowSealTest, WhatCameFromACallIsNotInTheRowAndReadsBack) {
  const std::string bytes = Row(SecretEvent());
  for (const std::string_view secret : kSecrets) {
    EXPECT_EQ(bytes.find(secret), std::string::npos) << secret;
  }
  // What people search for stays.
  for (const std::string_view clear : {"orders.create", "agent-1", "trace-1", "POST"}) {
    EXPECT_NE(bytes.find(clear), std::string::npos) << clear;
  }
  Event read;
  ASSERT_TRUE(DecodeEvent(*ParseRow(bytes), AnswerPart::kLoad, opener, read));
  EXPECT_FALSE(read.is_locked);
  std::string in_clear, expected;
  AppendEventRow(in_clear, read, DigestOf("previous"), nullptr);
  AppendEventRow(expected, SecretEvent(), DigestOf("previous"), nullptr);
  EXPECT_EQ(in_clear, expected);  // every field
}

TEST_F(RowSealTest, AListOpensTheDetailsAndLeavesTheAnswer) {
  Event read;
  ASSERT_TRUE(DecodeEvent(*ParseRow(Row(SecretEvent())), AnswerPart::kSkipBody, opener, read));
  EXPECT_EQ(read.external_ref, "ref-ada");
  EXPECT_TRUE(read.answer_kept);
  EXPECT_EQ(read.answer.body, "");
  EXPECT_FALSE(read.request);
}

TEST_F(RowSealTest, TheRequestIsOpenedWithoutTheAnswer) {
  Event read;
  ASSERT_TRUE(DecodeEvent(*ParseRow(Row(SecretEvent())), AnswerPart::kOnlyRequest, opener, read));
  ASSERT_TRUE(read.request);
  EXPECT_EQ(read.request->body, "call of ada");
  EXPECT_EQ(read.answer.body, "");
}

TEST_F(RowSealTest, RowsInClearOfOlderVersionsAreRead) {
  std::string bytes;
  AppendEventRow(bytes, SecretEvent(), DigestOf("previous"), nullptr);
  Event read;
  ASSERT_TRUE(DecodeEvent(*ParseRow(bytes), AnswerPart::kLoad, opener, read));
  EXPECT_EQ(read.answer.body, "answer to ada");
  EXPECT_EQ(SealedWith(*ParseRow(bytes)), std::nullopt);
}

TEST_F(RowSealTest, WithoutItsKeyARowTellsItsPhaseAndWhichKeyIsMissing) {
  const std::string bytes = Row(SecretEvent());
  RowDecryptor stranger(Keys(random, "k1"));
  RowDecryptor nobody(nullptr);
  for (RowDecryptor* other : {&stranger, &nobody}) {
    Event read;
    ASSERT_TRUE(DecodeEvent(*ParseRow(bytes), AnswerPart::kLoad, *other, read));
    EXPECT_TRUE(read.is_locked);
    EXPECT_EQ(read.phase, Phase::kSucceeded);
    EXPECT_EQ(read.tool, "orders.create");
    EXPECT_FALSE(read.answer_kept || read.settle || read.undo || read.request);
    EXPECT_NE(read.detail.find(ToText(keys->ring()->sealing().name)), std::string::npos);
  }
  EXPECT_EQ(SealedWith(*ParseRow(bytes))->id, "k1");
}

TEST_F(RowSealTest, OldKeysOpenAfterARotationAndTheNewOneSeals) {
  const std::string old_row = Row(SecretEvent());
  const std::string old_line = NewKeyLine("k1", random);
  const std::string new_line = NewKeyLine("k2", random);
  keys = std::make_shared<LedgerKeys>(*KeyRing::Parse(old_line), random);
  RowEncryptor rotating(keys);
  RowDecryptor reader(keys);
  std::string first, second;
  AppendEventRow(first, SecretEvent(), {}, &rotating);
  ASSERT_TRUE(keys->Replace(*KeyRing::Parse(new_line + old_line)));
  AppendEventRow(second, SecretEvent(), {}, &rotating);
  EXPECT_EQ(SealedWith(*ParseRow(first))->id, "k1");
  EXPECT_EQ(SealedWith(*ParseRow(second))->id, "k2");
  for (const std::string& bytes : {first, second}) {
    Event read;
    ASSERT_TRUE(DecodeEvent(*ParseRow(bytes), AnswerPart::kLoad, reader, read));
    EXPECT_EQ(read.answer.body, "answer to ada");
  }
}

// Every bit behind the row's head: clear fields are bound to what is sealed.
TEST_F(RowSealTest, NoChangedBitIsBelieved) {
  const std::string good = Row(SecretEvent());
  for (std::size_t bit = kRowHeadBytes * 8; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    Mend(bytes);
    const auto row = ParseRow(bytes);
    ASSERT_TRUE(row);
    Event read;
    const auto decoded = DecodeEvent(*row, AnswerPart::kLoad, opener, read);
    // A changed name of the key leads to no key or to the same one, never to another text.
    EXPECT_TRUE(!decoded || read.is_locked) << "bit " << bit;
  }
}

TEST_F(RowSealTest, ARowThatMovedDoesNotOpen) {
  struct {
    std::size_t at;
    std::string_view what;
  } const fields[] = {{8, "number"}, {16, "epoch"}, {24, "clock"}};
  for (const auto& field : fields) {
    std::string bytes = Row(SecretEvent());
    bytes[field.at] = static_cast<char>(bytes[field.at] ^ 1);
    Mend(bytes);
    Event read;
    const auto decoded = DecodeEvent(*ParseRow(bytes), AnswerPart::kLoad, opener, read);
    ASSERT_FALSE(decoded) << field.what;
    EXPECT_EQ(decoded.error(), PayloadFault::kSeal) << field.what;
  }
}

// Two events of the same operation: the parts of one do not open in the other.
TEST_F(RowSealTest, PartsOfAnotherRowDoNotOpen) {
  const std::string first = Row(SecretEvent(12));
  std::string second = Row(SecretEvent(13));
  ASSERT_EQ(first.size(), second.size());
  const auto payload_end = first.size();
  const std::size_t tail = 120;  // inside the sealed parts, with the last one's tag
  second.replace(payload_end - tail, tail, first, payload_end - tail, tail);
  Mend(second);
  Event read;
  const auto decoded = DecodeEvent(*ParseRow(second), AnswerPart::kLoad, opener, read);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error(), PayloadFault::kSeal);
}

TEST_F(RowSealTest, ACutPayloadIsRefused) {
  const std::string bytes = Row(SecretEvent());
  const auto row = ParseRow(bytes);
  for (std::size_t size = 0; size < row->payload.size(); ++size) {
    Event read;
    const RowView cut{row->head, row->payload.substr(0, size),
                      row->bytes.substr(0, kRowHeadBytes + size)};
    EXPECT_FALSE(DecodeEvent(cut, AnswerPart::kLoad, opener, read)) << size;
  }
}

// The salt and the nonce of the first part stand right behind the key's name.
std::string SaltAndNonce(const std::string& bytes) {
  const std::string id = "k1";
  const auto at = bytes.find(std::string("\2\0\0\0k1", 6)) + 6 + 8;
  return bytes.substr(at, 16 + 12);
}

TEST_F(RowSealTest, NoNonceServesTwiceAlsoNotAfterARestart) {
  std::set<std::string> seen;
  const Event event = SecretEvent();
  for (int start = 0; start < 20; ++start) {
    RowEncryptor restarted(keys);
    for (int row = 0; row < 500; ++row) {
      std::string bytes;
      AppendEventRow(bytes, event, {}, &restarted);
      EXPECT_TRUE(seen.insert(SaltAndNonce(bytes)).second);
    }
  }
}

}  // namespace
}  // namespace recourse::row_seal_test
