#include "filters/ledger/lmdb/journal_record.h"

#include <cstring>

#include "proxy/base/bytes.h"
#include "proxy/base/check.h"
#include "proxy/base/crypto/crc32.h"

namespace recourse {
namespace {

constexpr std::uint32_t kFileMagic = 0x464a4352;    // "RCJF"
constexpr std::uint32_t kRecordMagic = 0x524a4352;  // "RCJR"
constexpr std::uint32_t kStampMagic = 0x534a4352;   // "RCJS"
constexpr std::uint32_t kJournalVersion = 1;
constexpr std::size_t kRecordHeadBytes = 56;

std::uint64_t Rounded(std::uint64_t bytes) {
  return (bytes + kJournalBlockBytes - 1) / kJournalBlockBytes * kJournalBlockBytes;
}

std::string_view ViewOf(const JournalId& id) {
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}

}  // namespace

std::string EncodeJournalHead(const JournalHead& head) {
  std::string block;
  ByteWriter writer(block);
  writer.Int(kFileMagic);
  writer.Int(kJournalVersion);
  writer.Raw(AsView(head.ledger));
  writer.Raw(ViewOf(head.id));
  writer.Int(head.ring_bytes);
  writer.Int(Crc32(0, block));
  block.resize(kJournalBlockBytes);
  return block;
}

std::optional<JournalHead> DecodeJournalHead(std::string_view block) {
  JournalHead head;
  ByteReader reader(block);
  const auto magic = reader.Int<std::uint32_t>();
  const auto version = reader.Int<std::uint32_t>();
  const std::string_view ledger = reader.Raw(head.ledger.size());
  const std::string_view id = reader.Raw(head.id.size());
  head.ring_bytes = reader.Int<std::uint64_t>();
  const std::size_t size = block.size() - reader.left();
  const auto crc = reader.Int<std::uint32_t>();
  if (!reader.ok() || magic != kFileMagic || version != kJournalVersion ||
      crc != Crc32(0, block.substr(0, size)) || head.ring_bytes == 0 ||
      head.ring_bytes > kJournalRingBytesMax || head.ring_bytes % kJournalBlockBytes != 0) {
    return std::nullopt;
  }
  std::memcpy(head.ledger.data(), ledger.data(), ledger.size());
  std::memcpy(head.id.data(), id.data(), id.size());
  return head;
}

// The step has a sum of its own, behind what the first files of this kind had.
std::string EncodeJournalStamp(const JournalId& id, const JournalStamp& stamp) {
  std::string block;
  ByteWriter writer(block);
  writer.Int(kStampMagic);
  writer.Raw(ViewOf(id));
  writer.Int(stamp.generation);
  writer.Int(Crc32(0, block));
  writer.Int(static_cast<std::uint8_t>(stamp.step));
  writer.Int(Crc32(0, block));
  block.resize(kJournalBlockBytes);
  return block;
}

JournalStamp DecodeJournalStamp(std::string_view block, const JournalId& id) {
  ByteReader reader(block);
  const auto magic = reader.Int<std::uint32_t>();
  const std::string_view file = reader.Raw(id.size());
  const auto generation = reader.Int<std::uint64_t>();
  const std::size_t size = block.size() - reader.left();
  const auto crc = reader.Int<std::uint32_t>();
  const auto step = reader.Int<std::uint8_t>();
  const std::size_t step_size = block.size() - reader.left();
  const auto step_crc = reader.Int<std::uint32_t>();
  if (!reader.ok() || magic != kStampMagic || file != ViewOf(id) ||
      crc != Crc32(0, block.substr(0, size))) {
    return {};
  }
  const bool has_step = step <= static_cast<std::uint8_t>(JournalStep::kClosed) &&
                        step_crc == Crc32(0, block.substr(0, step_size));
  return {generation, has_step ? static_cast<JournalStep>(step) : JournalStep::kAnnounced};
}

std::uint64_t JournalBytesOf(const RowBatch& batch) {
  return Rounded(kRecordHeadBytes + batch.size() * sizeof(std::uint32_t) + batch.bytes.size());
}

JournalRecord EncodeJournalRecord(const JournalId& id, std::uint64_t generation,
                                  const RowBatch& batch) {
  RC_CHECK(batch.size() > 0 && !batch.base && batch.ages.empty());
  JournalRecord record;
  record.first_seq = batch.first_seq;
  record.rows_begin = kRecordHeadBytes + batch.size() * sizeof(std::uint32_t);
  record.bytes = BlockBytes(JournalBytesOf(batch));
  char* const begin = record.bytes.data();
  char* next = begin + kRecordHeadBytes;
  record.ends.reserve(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto size = static_cast<std::uint32_t>(batch.row(i).size());
    std::memcpy(next, &size, sizeof size);
    next += sizeof size;
    record.ends.push_back(record.rows_begin + batch.ends[i]);
  }
  next += batch.bytes.copy(next, batch.bytes.size());
  const std::string_view payload(begin + kRecordHeadBytes, next);
  std::memset(next, 0, record.bytes.size() - kRecordHeadBytes - payload.size());
  std::string head;
  ByteWriter writer(head);
  writer.Int(kRecordMagic);
  writer.Int(kJournalVersion);
  writer.Raw(ViewOf(id));
  writer.Int(generation);
  writer.Int(batch.first_seq);
  writer.Int(static_cast<std::uint32_t>(batch.size()));
  writer.Int(static_cast<std::uint32_t>(payload.size()));
  writer.Int(Crc32(0, payload));
  writer.Int(Crc32(0, head));
  RC_CHECK(head.size() == kRecordHeadBytes);
  head.copy(begin, head.size());
  return record;
}

JournalBlock DecodeJournalRecord(std::string_view ring, const JournalId& id, FoundRecord& found) {
  ByteReader reader(ring);
  const auto magic = reader.Int<std::uint32_t>();
  const auto version = reader.Int<std::uint32_t>();
  const std::string_view file = reader.Raw(id.size());
  found.generation = reader.Int<std::uint64_t>();
  found.first_seq = reader.Int<std::uint64_t>();
  const auto rows = reader.Int<std::uint32_t>();
  const auto size = reader.Int<std::uint32_t>();
  const auto payload_crc = reader.Int<std::uint32_t>();
  const auto head_crc = reader.Int<std::uint32_t>();
  if (!reader.ok() || magic != kRecordMagic || version != kJournalVersion || file != ViewOf(id) ||
      head_crc != Crc32(0, ring.substr(0, kRecordHeadBytes - sizeof head_crc))) {
    return JournalBlock::kOther;
  }
  found.bytes = Rounded(kRecordHeadBytes + std::uint64_t{size});
  found.rows.clear();
  const std::string_view payload = reader.Raw(size);
  if (!reader.ok() || rows == 0 || found.first_seq == 0 || payload_crc != Crc32(0, payload)) {
    return JournalBlock::kTorn;
  }
  ByteReader lengths(payload), bytes(payload);
  (void)bytes.Raw(rows * sizeof(std::uint32_t));
  for (std::uint32_t i = 0; i < rows && bytes.ok(); ++i) {
    found.rows.push_back(bytes.Raw(lengths.Int<std::uint32_t>()));
  }
  return bytes.at_end() ? JournalBlock::kRecord : JournalBlock::kTorn;
}

}  // namespace recourse
