#include "filters/ledger/rows/row_codec.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/ledger/ledger_test_support.h"

namespace recourse::record_codec_test {
namespace {

Event FullEvent() {
  Event event = Call("key").event;
  event.id = 12;
  event.operation = 11;
  event.base_key = DigestOf("base");
  event.intent = DigestOf("intent");
  event.generation = 3;
  event.phase = Phase::kSucceeded;
  event.cause = Cause::kAnswer;
  event.undo_class = UndoClass::kExternallyReversible;
  event.attempt = 2;
  event.epoch = 5;
  event.wall_ms = -1;
  event.window_ms = 600'000;
  event.detail = std::string("a\0b", 3);
  event.verdict = ObserveVerdict::kWouldReplay;
  event.related = 9;
  event.external_ref = "ref";
  event.http_status = 201;
  event.dedupe_domain = 0x0102030405060708;
  event.answer_kept = true;
  event.answer = {201, "Created", {{"A", "1"}, {"B", ""}}, std::string(300, 'x')};
  event.settle = RenderedRequest{"GET", "/orders?ref=7", {{"H", "v"}}, ""};
  event.task = RenderedRequest{"POST", "", {{"Mcp-Session-Id", "s"}}, "{}"};
  event.undo = RenderedRequest{"DELETE", "/orders/7", {}, "{}"};
  event.state = StateKept{{"GET", "/orders/7", {{"Org", "o"}}, ""},
                          {false, "\"v1\"", {{"/title", "\"a\""}, {"", "{}"}}},
                          {true, "", {}}};
  event.found = Snapshot{false, "\"v9\"", {{"/title", "null"}}};
  event.request = RenderedRequest{"POST", "/v1/orders?a=b", {{"Key", "k"}}, std::string("a\0b", 3)};
  return event;
}

RowDecryptor opener(nullptr);

std::string RowOf(const Event& event) {
  std::string row;
  AppendEventRow(row, event, DigestOf("previous"), nullptr);
  return row;
}

bool SameRequest(const RenderedRequest& a, const RenderedRequest& b) {
  return a.method == b.method && a.target == b.target && a.headers == b.headers && a.body == b.body;
}

TEST(RecordCodecTest, AnEventReadsBackWhole) {
  const Event event = FullEvent();
  const std::string bytes = RowOf(event);
  const auto row = ParseRow(bytes);
  ASSERT_TRUE(row) << row.error();
  EXPECT_EQ(row->head.prev_hash, DigestOf("previous"));
  Event read;
  ASSERT_TRUE(DecodeEvent(*row, AnswerPart::kLoad, opener, read));
  EXPECT_EQ(RowOf(read), bytes);  // every stored field, in one comparison
  EXPECT_EQ(read.id, 12U);
  EXPECT_EQ(read.wall_ms, -1);
  EXPECT_EQ(read.cause, Cause::kAnswer);
  EXPECT_EQ(read.undo_class, UndoClass::kExternallyReversible);
  EXPECT_EQ(read.verdict, ObserveVerdict::kWouldReplay);
  EXPECT_EQ(read.related, 9U);
  EXPECT_EQ(read.detail, event.detail);
  EXPECT_EQ(read.answer.body, event.answer.body);
  ASSERT_TRUE(read.settle && read.undo && read.request);
  EXPECT_TRUE(SameRequest(*read.request, *event.request));
  EXPECT_TRUE(SameRequest(*read.settle, *event.settle));
  EXPECT_TRUE(SameRequest(*read.undo, *event.undo));
  ASSERT_TRUE(read.task);
  EXPECT_TRUE(SameRequest(*read.task, *event.task));
  ASSERT_TRUE(read.state && read.found);
  EXPECT_TRUE(SameRequest(read.state->request, event.state->request));
  EXPECT_EQ(read.state->before.places, event.state->before.places);
  EXPECT_EQ(read.state->before.version, "\"v1\"");
  EXPECT_TRUE(read.state->ours.is_gone && !read.state->before.is_gone);
  EXPECT_EQ(read.found->places, event.found->places);
}

TEST(RecordCodecTest, AnAnswerThatIsNotKeptIsNotStored) {
  Event event = FullEvent();
  event.answer_kept = false;
  const std::string bytes = RowOf(event);
  Event read;
  ASSERT_TRUE(DecodeEvent(*ParseRow(bytes), AnswerPart::kLoad, opener, read));
  EXPECT_FALSE(read.answer_kept);
  EXPECT_EQ(read.answer.body, "");
}

TEST(RecordCodecTest, ABodyCanBeLeftOut) {
  const std::string bytes = RowOf(FullEvent());
  Event read;
  ASSERT_TRUE(DecodeEvent(*ParseRow(bytes), AnswerPart::kSkipBody, opener, read));
  EXPECT_EQ(read.answer.status, 201);
  EXPECT_EQ(read.answer.body, "");
}

TEST(RecordCodecTest, ARequestIsLoadedAloneOrNotAtAll) {
  const std::string bytes = RowOf(FullEvent());
  Event read;
  ASSERT_TRUE(DecodeEvent(*ParseRow(bytes), AnswerPart::kOnlyRequest, opener, read));
  ASSERT_TRUE(read.request);
  EXPECT_EQ(read.answer.body, "");
  ASSERT_TRUE(DecodeEvent(*ParseRow(bytes), AnswerPart::kSkipBody, opener, read));
  EXPECT_FALSE(read.request);
}

TEST(RecordCodecTest, ARequestThatWasLeftOutSaysSo) {
  Event event = FullEvent();
  event.request.reset();
  event.request_left_out = true;
  Event read;
  ASSERT_TRUE(DecodeEvent(*ParseRow(RowOf(event)), AnswerPart::kLoad, opener, read));
  EXPECT_TRUE(read.request_left_out);
  EXPECT_FALSE(read.request);
}

// The extension of an event in clear is found by its marks: count 1, kind 1, a length of 4 bytes,
// "a request follows", then the method.
TEST(RecordCodecTest, AnExtensionOfUnknownKindOrFalseLengthIsAnError) {
  Event event = FullEvent();
  event.request = RenderedRequest{"PATCH", "/t", {}, "body"};
  event.task.reset();
  event.state.reset();
  event.found.reset();
  const std::string payload(ParseRow(RowOf(event))->payload);
  const RowHead head = ParseRow(RowOf(event))->head;
  const std::size_t at = payload.find("PATCH") - 4 - 1 - 4 - 1 - 1;
  ASSERT_EQ(payload.substr(at, 2), "\x01\x01");
  const auto reads = [&](std::size_t where, char value) {
    std::string changed = payload;
    changed[at + where] = value;
    Event read;
    return DecodeEvent({head, changed}, AnswerPart::kLoad, opener, read).has_value();
  };
  EXPECT_TRUE(reads(0, 1));
  EXPECT_FALSE(reads(0, 0));  // no record at all
  EXPECT_FALSE(reads(0, 2));  // one more than there is
  EXPECT_FALSE(reads(1, 0));
  EXPECT_FALSE(reads(1, 2));  // a kind that nobody knows yet
  EXPECT_FALSE(reads(2, static_cast<char>(payload[at + 2] + 1)));
  EXPECT_FALSE(reads(2, static_cast<char>(payload[at + 2] - 1)));
  EXPECT_FALSE(reads(6, 1));  // left out, and there all the same
  EXPECT_FALSE(reads(6, 2));
}

TEST(RecordCodecTest, TheFrontIsReadWithoutTheRest) {
  const Event event = FullEvent();
  const std::string bytes = RowOf(event);
  EventFront front;
  ASSERT_TRUE(DecodeEventFront(*ParseRow(bytes), front));
  EXPECT_EQ(front.key, event.key);
  EXPECT_EQ(front.base_key, event.base_key);
  EXPECT_EQ(front.intent, event.intent);
  EXPECT_EQ(front.phase, Phase::kSucceeded);
  EXPECT_EQ(front.attempt, 2);
}

TEST(RecordCodecTest, GenerationZeroIsItsOwnBase) {
  Event event = FullEvent();
  event.generation = 0;
  EventFront front;
  ASSERT_TRUE(DecodeEventFront(*ParseRow(RowOf(event)), front));
  EXPECT_EQ(front.base_key, event.key);
}

TEST(RecordCodecTest, TheOtherKindsReadBack) {
  const RowHead head{RowKind::kAnswered, 4, 2, 99, DigestOf("p")};
  std::string bytes;
  AppendAnsweredRow(bytes, head, std::vector<std::uint64_t>{3, 1, 2 | kUnreadMark});
  std::vector<std::uint64_t> operations;
  ASSERT_TRUE(DecodeAnswered(*ParseRow(bytes), operations));
  EXPECT_EQ(operations, (std::vector<std::uint64_t>{3, 1, 2 | kUnreadMark}));

  bytes.clear();
  for (const std::uint32_t generation : {0U, 7U}) {
    bytes.clear();
    AppendAliasRow(bytes, {RowKind::kAlias, 5, 2, 99, {}}, {DigestOf("k"), 3, generation});
    Alias alias;
    ASSERT_TRUE(DecodeAlias(*ParseRow(bytes), alias));
    EXPECT_EQ(alias.key, DigestOf("k"));
    EXPECT_EQ(alias.operation, 3U);
    EXPECT_EQ(alias.generation, generation);
  }

  bytes.clear();
  AppendPolicyRow(bytes, {RowKind::kPolicy, 6, 2, 99, {}},
                  {PolicyChange::Cause::kReload, "0123456789abcdef", DigestOf("files")});
  PolicyChange change;
  ASSERT_TRUE(DecodePolicy(*ParseRow(bytes), change));
  EXPECT_EQ(change.cause, PolicyChange::Cause::kReload);
  EXPECT_EQ(change.version, "0123456789abcdef");
  EXPECT_EQ(change.digest, DigestOf("files"));

  bytes.clear();
  const OperatorOrder order{"ledger.accept", "ann", "looked", "0123456789abcdef", DigestOf("p")};
  AppendOrderRow(bytes, {RowKind::kOrder, 7, 2, 99, {}}, order);
  OperatorOrder read;
  ASSERT_TRUE(DecodeOrder(*ParseRow(bytes), read));
  EXPECT_EQ(read, order);

  bytes.clear();
  AppendEpochRow(bytes, {RowKind::kEpoch, 1, 2, 99, {}});
  EXPECT_EQ(bytes.size(), kRowHeadBytes);
  ASSERT_TRUE(ParseRow(bytes));
  EXPECT_EQ(ParseRow(bytes)->head.epoch, 2U);
  Event event;
  EXPECT_FALSE(DecodeEvent(*ParseRow(bytes), AnswerPart::kLoad, opener, event));
}

TEST(RecordCodecTest, EveryTruncationIsDetected) {
  const std::string bytes = RowOf(FullEvent());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseRow(std::string_view(bytes).substr(0, size))) << size;
  }
  EXPECT_FALSE(ParseRow(bytes + "x"));
  EXPECT_TRUE(ParseRow(bytes));
}

TEST(RecordCodecTest, EverySingleBitFlipIsDetected) {
  std::string bytes = RowOf(FullEvent());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<char>(1 << (bit % 8));
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    EXPECT_FALSE(ParseRow(bytes)) << "bit " << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
  }
  EXPECT_TRUE(ParseRow(bytes));
}

// A row whose checksum is right and whose payload is not must not be believed either.
TEST(RecordCodecTest, EveryTruncatedPayloadIsRefused) {
  const std::string bytes = RowOf(FullEvent());
  const auto row = ParseRow(bytes);
  ASSERT_TRUE(row);
  for (std::size_t size = 0; size < row->payload.size(); ++size) {
    Event event;
    EXPECT_FALSE(
        DecodeEvent({row->head, row->payload.substr(0, size)}, AnswerPart::kLoad, opener, event))
        << size;
  }
}

TEST(RecordCodecTest, APhaseThatDoesNotExistIsRefused) {
  Event event = FullEvent();
  event.phase = static_cast<Phase>(kPhaseCount);
  EventFront front;
  EXPECT_FALSE(DecodeEventFront(*ParseRow(RowOf(event)), front));
}

}  // namespace
}  // namespace recourse::record_codec_test
