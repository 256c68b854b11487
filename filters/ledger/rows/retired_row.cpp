// Rows of kind 6: what retention left of the rows it removed.
#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/rows/row_frame.h"
#include "proxy/base/bytes.h"

namespace recourse {
namespace {

void WriteTombstone(ByteWriter& writer, const Tombstone& tombstone) {
  writer.Raw(AsView(tombstone.key));
  writer.Int(tombstone.operation);
  writer.Int(tombstone.generation);
  writer.Int(tombstone.newest_generation);
  writer.Int(tombstone.phase);
  writer.Int(tombstone.last_wall_ms);
  writer.Int(tombstone.since_ms);
}

Tombstone ReadTombstone(ByteReader& reader) {
  Tombstone tombstone;
  tombstone.key = ReadDigest(reader);
  tombstone.operation = reader.Int<std::uint64_t>();
  tombstone.generation = reader.Int<std::uint32_t>();
  tombstone.newest_generation = reader.Int<std::uint32_t>();
  tombstone.phase = reader.Int<Phase>();
  tombstone.last_wall_ms = reader.Int<std::int64_t>();
  tombstone.since_ms = reader.Int<std::int64_t>();
  return tombstone;
}

}  // namespace

void AppendRetiredRow(std::string& out, const RowHead& head, const RetiredRow& retired) {
  const std::size_t start = OpenRow(out, head);
  ByteWriter writer(out);
  writer.Int(retired.operations);
  writer.Int(retired.tombstones_total);
  writer.Int(static_cast<std::uint32_t>(retired.tombstones.size()));
  for (const Tombstone& tombstone : retired.tombstones) WriteTombstone(writer, tombstone);
  writer.Int(static_cast<std::uint32_t>(retired.moved.size()));
  for (const MovedOperation& moved : retired.moved) {
    writer.Int(moved.operation);
    writer.Raw(AsView(moved.key));
  }
  writer.Int(static_cast<std::uint32_t>(retired.ended.size()));
  for (const std::uint64_t operation : retired.ended) writer.Int(operation);
  CloseRow(out, start);
}

bool DecodeRetired(const RowView& row, RetiredRow& retired) {
  if (row.head.kind != RowKind::kRetired) return false;
  ByteReader reader(row.payload);
  retired = RetiredRow();
  retired.operations = reader.Int<std::uint64_t>();
  retired.tombstones_total = reader.Int<std::uint64_t>();
  const auto tombstones = reader.Int<std::uint32_t>();
  for (std::uint32_t i = 0; i < tombstones && reader.ok(); ++i) {
    retired.tombstones.push_back(ReadTombstone(reader));
    if (static_cast<int>(retired.tombstones.back().phase) >= kPhaseCount) return false;
  }
  const auto moved = reader.Int<std::uint32_t>();
  for (std::uint32_t i = 0; i < moved && reader.ok(); ++i) {
    const auto operation = reader.Int<std::uint64_t>();
    retired.moved.push_back({operation, ReadDigest(reader)});
  }
  const auto ended = reader.Int<std::uint32_t>();
  for (std::uint32_t i = 0; i < ended && reader.ok(); ++i) {
    retired.ended.push_back(reader.Int<std::uint64_t>());
  }
  return reader.at_end();
}

std::optional<Tombstone> FindTombstone(const RowView& row, const Digest& key) {
  if (row.head.kind != RowKind::kRetired) return std::nullopt;
  ByteReader reader(row.payload);
  reader.Int<std::uint64_t>();
  reader.Int<std::uint64_t>();
  const auto count = reader.Int<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    const std::string_view bytes = reader.Raw(kTombstoneBytes);
    if (!bytes.starts_with(AsView(key))) continue;
    ByteReader found(bytes);
    return ReadTombstone(found);
  }
  return std::nullopt;
}

}  // namespace recourse
