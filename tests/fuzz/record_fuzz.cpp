// A row of the ledger is read whole or refused. The checksum is set right first, because a fuzzer
// does not find it, and damage with a right checksum is what a wrong reader would act on.
#include <zlib.h>

#include <cstring>
#include <string>
#include <vector>

#include "filters/ledger/rows/row_codec.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {
namespace {

constexpr std::size_t kLengthAt = 32, kCrcAt = 36;

void Mend(std::string& row) {
  const auto length = static_cast<std::uint32_t>(row.size() - kRowHeadBytes);
  std::memcpy(row.data() + kLengthAt, &length, sizeof length);
  const auto* bytes = reinterpret_cast<const Bytef*>(row.data());
  uLong crc = crc32(0, bytes, kCrcAt);
  crc = crc32(crc, bytes + kCrcAt + 4, static_cast<uInt>(row.size() - kCrcAt - 4));
  const auto value = static_cast<std::uint32_t>(crc);
  std::memcpy(row.data() + kCrcAt, &value, sizeof value);
}

void Check(std::string_view bytes) {
  const auto row = ParseRow(bytes);
  if (!row) {
    RC_CHECK(!row.error().empty());
    return;
  }
  EventFront front;
  Event event;
  std::vector<std::uint64_t> operations;
  Alias alias;
  RowDecryptor opener(nullptr);
  (void)SealedWith(*row);
  const bool has_front = DecodeEventFront(*row, front);
  if (DecodeEvent(*row, AnswerPart::kLoad, opener, event)) {
    RC_CHECK(has_front && front.operation == event.operation && front.phase == event.phase);
    (void)NameOf(event.phase);
    (void)NameOf(event.cause);
  }
  (void)DecodeEvent(*row, AnswerPart::kSkipBody, opener, event);
  (void)DecodeAnswered(*row, operations);
  (void)DecodeAlias(*row, alias);
  FlowState flow;
  OpenFlows book;
  if (DecodeFlow(*row, flow)) {
    (void)NameOf(flow.phase);
    (void)NameOf(flow.cause);
    if (!IsFinal(flow.phase)) book.Apply(flow, MonoTime());
  }
  if (const auto news = NewsOf(*row)) book.Apply(*news, MonoTime());
  OpenFlows copy;
  RC_CHECK(copy.Decode(book.Encode(), MonoTime()));
}

}  // namespace

void FuzzOne(std::string_view bytes) {
  Check(bytes);
  if (bytes.size() < kRowHeadBytes) return;
  std::string mended(bytes);
  Mend(mended);
  Check(mended);
}

}  // namespace recourse
