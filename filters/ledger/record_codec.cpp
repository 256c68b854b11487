#include "filters/ledger/record_codec.h"

#include <zlib.h>

#include <cstring>
#include <utility>

#include "proxy/base/bytes.h"
#include "proxy/base/check.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::uint32_t kMagic = 0x4c524352;  // "RCRL"
constexpr std::size_t kLengthAt = 32;
constexpr std::size_t kCrcAt = 36;
static_assert(kCrcAt + sizeof(std::uint32_t) + sizeof(Digest) == kRowHeadBytes);

constexpr std::uint8_t kAnswerKept = 1;
constexpr std::uint8_t kHasSettle = 2;
constexpr std::uint8_t kHasUndo = 4;
constexpr std::uint8_t kHasBaseKey = 8;

template <class Value>
void Patch(std::string& out, std::size_t at, Value value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

std::uint32_t CrcWithoutItself(std::string_view row) {
  const auto* bytes = reinterpret_cast<const Bytef*>(row.data());
  constexpr std::size_t kAfter = kCrcAt + sizeof(std::uint32_t);
  uLong crc = crc32(0, bytes, kCrcAt);
  crc = crc32(crc, bytes + kAfter, static_cast<uInt>(row.size() - kAfter));
  return static_cast<std::uint32_t>(crc);
}

// Writes the head with length and CRC left open; returns where the row starts.
std::size_t OpenRow(std::string& out, const RowHead& head) {
  const std::size_t start = out.size();
  ByteWriter writer(out);
  writer.Int(kMagic);
  writer.Int(kRowFormatVersion);
  writer.Int(head.kind);
  writer.Int(std::uint8_t{0});
  writer.Int(head.seq);
  writer.Int(head.epoch);
  writer.Int(head.wall_ms);
  writer.Int(std::uint32_t{0});
  writer.Int(std::uint32_t{0});
  writer.Raw(AsView(head.prev_hash));
  return start;
}

void CloseRow(std::string& out, std::size_t start) {
  const std::size_t payload_bytes = out.size() - start - kRowHeadBytes;
  Patch(out, start + kLengthAt, static_cast<std::uint32_t>(payload_bytes));
  Patch(out, start + kCrcAt, CrcWithoutItself(std::string_view(out).substr(start)));
}

void WriteHeaders(ByteWriter& writer, const Headers& headers) {
  writer.Int(static_cast<std::uint32_t>(headers.size()));
  for (const auto& [name, value] : headers) {
    writer.Text(name);
    writer.Text(value);
  }
}

Headers ReadHeaders(ByteReader& reader) {
  Headers headers;
  const auto count = reader.Int<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    std::string name(reader.Text());
    std::string value(reader.Text());
    headers.emplace_back(std::move(name), std::move(value));
  }
  return headers;
}

void WriteRequest(ByteWriter& writer, const RenderedRequest& request) {
  writer.Text(request.method);
  writer.Text(request.target);
  WriteHeaders(writer, request.headers);
  writer.Text(request.body);
}

RenderedRequest ReadRequest(ByteReader& reader) {
  RenderedRequest request;
  request.method = reader.Text();
  request.target = reader.Text();
  request.headers = ReadHeaders(reader);
  request.body = reader.Text();
  return request;
}

Digest ReadDigest(ByteReader& reader) {
  Digest digest{};
  const std::string_view raw = reader.Raw(digest.size());
  if (raw.size() == digest.size()) std::memcpy(digest.data(), raw.data(), digest.size());
  return digest;
}

std::uint8_t FlagsOf(const Event& event) {
  std::uint8_t flags = 0;
  if (event.answer_kept) flags |= kAnswerKept;
  if (event.settle) flags |= kHasSettle;
  if (event.undo) flags |= kHasUndo;
  if (event.generation > 0) flags |= kHasBaseKey;
  return flags;
}

void WriteFront(ByteWriter& writer, const Event& event) {
  writer.Int(event.operation);
  writer.Int(event.generation);
  writer.Int(event.attempt);
  writer.Int(event.phase);
  writer.Int(event.cause);
  writer.Int(FlagsOf(event));
  writer.Raw(AsView(event.key));
  writer.Raw(AsView(event.intent));
  writer.Raw(AsView(event.args_hash));
  if (event.generation > 0) writer.Raw(AsView(event.base_key));
}

std::uint8_t ReadFront(ByteReader& reader, EventFront& front) {
  front.operation = reader.Int<std::uint64_t>();
  front.generation = reader.Int<std::uint32_t>();
  front.attempt = reader.Int<std::uint16_t>();
  front.phase = reader.Int<Phase>();
  front.cause = reader.Int<Cause>();
  const auto flags = reader.Int<std::uint8_t>();
  front.key = ReadDigest(reader);
  front.intent = ReadDigest(reader);
  front.args_hash = ReadDigest(reader);
  front.base_key = (flags & kHasBaseKey) != 0 ? ReadDigest(reader) : front.key;
  return flags;
}

bool FrontIsSound(const EventFront& front, std::uint8_t flags) {
  return static_cast<int>(front.phase) < kPhaseCount && front.cause <= Cause::kResend &&
         ((flags & kHasBaseKey) != 0) == (front.generation > 0);
}

bool IsKnownKind(RowKind kind) { return kind >= RowKind::kEvent && kind <= RowKind::kAlias; }

}  // namespace

void AppendEventRow(std::string& out, const Event& event, const Digest& prev_hash) {
  const std::size_t start =
      OpenRow(out, {RowKind::kEvent, event.id, event.epoch, event.wall_ms, prev_hash});
  ByteWriter writer(out);
  WriteFront(writer, event);
  writer.Int(event.window_ms);
  writer.Int(static_cast<std::int32_t>(event.http_status));
  for (const std::string* text :
       {&event.tool, &event.backend, &event.caller, &event.trace_id, &event.flow,
        &event.policy_version, &event.method, &event.path, &event.detail, &event.external_ref}) {
    writer.Text(*text);
  }
  if (event.settle) WriteRequest(writer, *event.settle);
  if (event.undo) WriteRequest(writer, *event.undo);
  if (event.answer_kept) {
    writer.Int(static_cast<std::int32_t>(event.answer.status));
    writer.Text(event.answer.reason);
    WriteHeaders(writer, event.answer.headers);
    writer.Text(event.answer.body);
  }
  CloseRow(out, start);
}

void AppendAnsweredRow(std::string& out, const RowHead& head,
                       std::span<const std::uint64_t> operations) {
  const std::size_t start = OpenRow(out, head);
  ByteWriter writer(out);
  writer.Int(static_cast<std::uint32_t>(operations.size()));
  for (const std::uint64_t operation : operations) writer.Int(operation);
  CloseRow(out, start);
}

void AppendEpochRow(std::string& out, const RowHead& head) { CloseRow(out, OpenRow(out, head)); }

void AppendAliasRow(std::string& out, const RowHead& head, const Digest& key,
                    std::uint64_t operation) {
  const std::size_t start = OpenRow(out, head);
  ByteWriter writer(out);
  writer.Raw(AsView(key));
  writer.Int(operation);
  CloseRow(out, start);
}

std::expected<RowView, std::string_view> ParseRow(std::string_view row) {
  if (row.size() < kRowHeadBytes) return std::unexpected("shorter than a row head");
  if (row.size() > kRowHeadBytes + limits::kEventBytesMax) return std::unexpected("too long");
  ByteReader reader(row);
  RowView view;
  if (reader.Int<std::uint32_t>() != kMagic) return std::unexpected("not a ledger row");
  const auto version = reader.Int<std::uint16_t>();
  view.head.kind = reader.Int<RowKind>();
  const auto reserved = reader.Int<std::uint8_t>();
  view.head.seq = reader.Int<std::uint64_t>();
  view.head.epoch = reader.Int<std::uint64_t>();
  view.head.wall_ms = reader.Int<std::int64_t>();
  const auto length = reader.Int<std::uint32_t>();
  const auto crc = reader.Int<std::uint32_t>();
  view.head.prev_hash = ReadDigest(reader);
  if (length != row.size() - kRowHeadBytes) return std::unexpected("length does not match");
  if (crc != CrcWithoutItself(row)) return std::unexpected("checksum does not match");
  if (version != kRowFormatVersion) return std::unexpected("format version is not known");
  if (!IsKnownKind(view.head.kind) || reserved != 0) return std::unexpected("kind is not known");
  view.payload = row.substr(kRowHeadBytes);
  return view;
}

Digest RowHash(std::string_view row) { return Sha256(row); }

bool DecodeEventFront(const RowView& row, EventFront& front) {
  if (row.head.kind != RowKind::kEvent) return false;
  ByteReader reader(row.payload);
  const std::uint8_t flags = ReadFront(reader, front);
  return reader.ok() && FrontIsSound(front, flags);
}

bool DecodeEvent(const RowView& row, AnswerPart answer, Event& event) {
  if (row.head.kind != RowKind::kEvent) return false;
  ByteReader reader(row.payload);
  EventFront front;
  const std::uint8_t flags = ReadFront(reader, front);
  if (!reader.ok() || !FrontIsSound(front, flags)) return false;
  event = Event{};
  event.id = row.head.seq;
  event.epoch = row.head.epoch;
  event.wall_ms = row.head.wall_ms;
  event.operation = front.operation;
  event.generation = front.generation;
  event.attempt = front.attempt;
  event.phase = front.phase;
  event.cause = front.cause;
  event.key = front.key;
  event.base_key = front.base_key;
  event.intent = front.intent;
  event.args_hash = front.args_hash;
  event.window_ms = reader.Int<std::int64_t>();
  event.http_status = reader.Int<std::int32_t>();
  for (std::string* text :
       {&event.tool, &event.backend, &event.caller, &event.trace_id, &event.flow,
        &event.policy_version, &event.method, &event.path, &event.detail, &event.external_ref}) {
    *text = reader.Text();
  }
  if ((flags & kHasSettle) != 0) event.settle = ReadRequest(reader);
  if ((flags & kHasUndo) != 0) event.undo = ReadRequest(reader);
  event.answer_kept = (flags & kAnswerKept) != 0;
  if (event.answer_kept) {
    event.answer.status = reader.Int<std::int32_t>();
    event.answer.reason = reader.Text();
    event.answer.headers = ReadHeaders(reader);
    const std::string_view body = reader.Text();
    if (answer == AnswerPart::kLoad) event.answer.body = body;
  }
  return reader.at_end();
}

bool DecodeAnswered(const RowView& row, std::vector<std::uint64_t>& operations) {
  if (row.head.kind != RowKind::kAnswered) return false;
  ByteReader reader(row.payload);
  operations.clear();
  const auto count = reader.Int<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    operations.push_back(reader.Int<std::uint64_t>());
  }
  return reader.at_end();
}

bool DecodeAlias(const RowView& row, Digest& key, std::uint64_t& operation) {
  if (row.head.kind != RowKind::kAlias) return false;
  ByteReader reader(row.payload);
  key = ReadDigest(reader);
  operation = reader.Int<std::uint64_t>();
  return reader.at_end();
}

}  // namespace recourse
