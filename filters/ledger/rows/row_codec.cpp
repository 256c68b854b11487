#include "filters/ledger/rows/row_codec.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "filters/ledger/rows/event_sections.h"
#include "filters/ledger/rows/row_frame.h"
#include "proxy/base/bytes.h"
#include "proxy/base/check.h"
#include "proxy/base/crypto/crc32.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::uint32_t kRowMagic = 0x4c524352;  // "RCRL"
constexpr std::size_t kLengthAt = 32;
constexpr std::size_t kCrcAt = 36;
static_assert(kCrcAt + sizeof(std::uint32_t) + sizeof(Digest) == kRowHeadBytes);

constexpr std::uint8_t kAnswerKept = 1;
constexpr std::uint8_t kHasBaseKey = 8;
constexpr std::uint8_t kIsObserved = 16;
constexpr std::uint8_t kSealed = 64;
constexpr std::uint8_t kCarriedSeal = 128;  // what the seal is bound to stands behind the salt
constexpr std::size_t kFlagsAt = 16;        // in an event's payload
constexpr int kClearTexts = 7;
// In the phase: a byte of further flags, the operation undone and the flow's name follow the front.
constexpr std::uint8_t kHasFlow = 128;
// In the phase: an extension stands between details and answer.
constexpr std::uint8_t kExtended = 64;
// In the phase: the details end with the agent's key field.
constexpr std::uint8_t kHasKeyField = 32;
// In the phase: whose call it is and what it writes to follow the flow.
constexpr std::uint8_t kHasOwner = 16;
// In the cause: what its effect stands for follows the owner.
constexpr std::uint8_t kHasStanding = 128;
// In the cause: how far its effect can be taken back.
constexpr int kClassAt = 5;
constexpr std::uint8_t kClassBits = 3 << kClassAt;
static_assert(static_cast<int>(kLastCause) < 1 << kClassAt);
static_assert(static_cast<int>(UndoClass::kIrreversible) << kClassAt <= kClassBits);
constexpr std::uint8_t kPhaseBits = kHasFlow | kExtended | kHasKeyField | kHasOwner;
static_assert(kPhaseCount <= kHasOwner);
constexpr std::uint8_t kIsStep = 1;
constexpr std::uint8_t kFlowHasDeadline = 2;
constexpr std::uint8_t kIsUndo = 4;

template <class Value>
void Patch(std::string& out, std::size_t at, Value value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

std::uint32_t CrcWithoutItself(std::string_view row) {
  return Crc32(Crc32(0, row.substr(0, kCrcAt)), row.substr(kCrcAt + sizeof(std::uint32_t)));
}

std::string LockedDetail(const KeyName& key) {
  return fmt::format("its details are sealed with key {}, which is not among the ledger's keys",
                     ToText(key));
}

std::uint8_t FlagsOf(const Event& event, bool is_sealed) {
  std::uint8_t flags = is_sealed ? kSealed : 0;
  if (event.answer_kept) flags |= kAnswerKept;
  if (event.settle) flags |= kEventHasSettle;
  if (event.undo) flags |= kEventHasUndo;
  if (event.generation > 0) flags |= kHasBaseKey;
  if (event.verdict != ObserveVerdict::kNone) flags |= kIsObserved;
  if (event.dedupe_domain != 0) flags |= kEventHasDedupeDomain;
  return flags;
}

bool HasOwner(const Event& event) {
  return event.principal != kNoPrincipal || event.resource != Digest{};
}

bool HasStanding(const Event& event) { return event.stands.kind != WriteKind::kNone; }

bool HasFlow(const Event& event) { return event.is_step || event.undoes != 0; }

void WriteFlow(ByteWriter& writer, const Event& event) {
  writer.Int(static_cast<std::uint8_t>((event.is_step ? kIsStep : 0) |
                                       (event.flow_has_deadline ? kFlowHasDeadline : 0) |
                                       (event.undoes != 0 ? kIsUndo : 0)));
  writer.Int(event.undoes);
  writer.Text(event.flow_name);
}

void ReadFlow(ByteReader& reader, EventFront& front) {
  const auto flags = reader.Int<std::uint8_t>();
  front.is_step = (flags & kIsStep) != 0;
  front.flow_has_deadline = (flags & kFlowHasDeadline) != 0;
  front.undoes = reader.Int<std::uint64_t>();
  front.flow_name = reader.Text();
}

void WriteFront(ByteWriter& writer, const Event& event, bool is_sealed) {
  writer.Int(event.operation);
  writer.Int(event.generation);
  writer.Int(event.attempt);
  writer.Int(static_cast<std::uint8_t>(
      static_cast<std::uint8_t>(event.phase) | (HasFlow(event) ? kHasFlow : 0) |
      (HasExtension(event) ? kExtended : 0) | (event.key_field ? kHasKeyField : 0) |
      (HasOwner(event) ? kHasOwner : 0)));
  writer.Int(static_cast<std::uint8_t>(static_cast<std::uint8_t>(event.cause) |
                                       static_cast<int>(event.undo_class) << kClassAt |
                                       (HasStanding(event) ? kHasStanding : 0)));
  writer.Int(FlagsOf(event, is_sealed));
  writer.Raw(AsView(event.key));
  writer.Raw(AsView(event.intent));
  writer.Raw(AsView(event.args_hash));
  if (event.generation > 0) writer.Raw(AsView(event.base_key));
  if (event.verdict != ObserveVerdict::kNone) {
    writer.Int(event.verdict);
    writer.Int(event.related);
  }
  if (HasFlow(event)) WriteFlow(writer, event);
  if (HasOwner(event)) {
    writer.Int(event.principal);
    writer.Raw(AsView(event.resource));
  }
  if (HasStanding(event)) WriteStanding(writer, event.stands);
}

std::uint8_t ReadFront(ByteReader& reader, EventFront& front) {
  front.stands = Standing();
  front.operation = reader.Int<std::uint64_t>();
  front.generation = reader.Int<std::uint32_t>();
  front.attempt = reader.Int<std::uint16_t>();
  const auto phase = reader.Int<std::uint8_t>();
  front.phase = static_cast<Phase>(phase & ~kPhaseBits);
  front.is_extended = (phase & kExtended) != 0;
  front.has_key_field = (phase & kHasKeyField) != 0;
  const auto cause = reader.Int<std::uint8_t>();
  front.cause = static_cast<Cause>(cause & ~(kHasStanding | kClassBits));
  front.undo_class = static_cast<UndoClass>((cause & kClassBits) >> kClassAt);
  const auto flags = reader.Int<std::uint8_t>();
  front.flags = flags;
  front.key = ReadDigest(reader);
  front.intent = ReadDigest(reader);
  front.args_hash = ReadDigest(reader);
  front.base_key = (flags & kHasBaseKey) != 0 ? ReadDigest(reader) : front.key;
  if ((flags & kIsObserved) != 0) {
    front.verdict = reader.Int<ObserveVerdict>();
    front.related = reader.Int<std::uint64_t>();
  }
  front.has_undo = (flags & kEventHasUndo) != 0;
  if ((phase & kHasFlow) != 0) ReadFlow(reader, front);
  if ((phase & kHasOwner) != 0) {
    front.principal = reader.Int<Principal>();
    front.resource = ReadDigest(reader);
  }
  // One that cannot be read makes the front unsound.
  if ((cause & kHasStanding) != 0 && !ReadStanding(reader, front.stands)) {
    front.phase = static_cast<Phase>(kPhaseCount);
  }
  return flags;
}

// An earlier version wrote down nothing but the method. Whether the agent had named the call is not
// known, so that it may have.
void GuessStanding(std::string_view method, const Digest& resource, Standing& stands) {
  if (stands.kind != WriteKind::kNone || resource == Digest{}) return;
  stands.kind = KindOfMethod(method);
  stands.is_named = true;
  if (stands.kind == WriteKind::kPatch) stands.members = Members::kUnknown;
}

// From behind the front: the last one of the clear texts.
std::string_view ReadMethod(ByteReader& reader) {
  (void)reader.Int<std::int64_t>();
  (void)reader.Int<std::int32_t>();
  for (int text = 1; text < kClearTexts; ++text) (void)reader.Text();
  return reader.Text();
}

bool FrontIsSound(const EventFront& front, std::uint8_t flags) {
  return static_cast<int>(front.phase) < kPhaseCount && front.cause <= kLastCause &&
         ((flags & kHasBaseKey) != 0) == (front.generation > 0) &&
         static_cast<int>(front.verdict) < kObserveVerdictCount &&
         ((flags & kIsObserved) != 0) == (front.verdict != ObserveVerdict::kNone);
}

using Decoded = std::expected<void, PayloadFault>;

// Only the clear part of it can be read.
void Lock(const KeyName& key, Event& event) {
  event.is_locked = true;
  event.answer_kept = false;
  event.detail = LockedDetail(key);
}

// `reader` stands behind the clear part.
Decoded ReadSealed(const RowView& row, ByteReader& reader, const EventFront& front, AnswerPart part,
                   RowDecryptor& opener, Event& event) {
  if (!opener.ReadKeyName(reader)) return std::unexpected(PayloadFault::kFormat);
  SealContext context = SealContextOf(row.bytes, row.payload.size() - reader.left());
  std::string clear;
  if ((front.flags & kCarriedSeal) != 0) {
    // As it stood in the row that it was sealed in.
    clear = context.clear;
    clear[kFlagsAt] = static_cast<char>(front.flags & ~kCarriedSeal);
    context = {reader.Raw(context.head.size()), clear};
  }
  const Opening details = opener.ReadPart(reader, context, SealedPart::kDetails);
  if (details == Opening::kBroken) return std::unexpected(PayloadFault::kSeal);
  if (details == Opening::kNoKey) {
    Lock(opener.key_name(), event);
    return {};
  }
  ByteReader text(opener.text());
  ReadDetails(text, front.flags, front.has_key_field, event);
  if (!text.at_end()) return std::unexpected(PayloadFault::kFormat);
  if (part == AnswerPart::kSkipBody) return {};
  if (front.is_extended) {
    if (opener.ReadPart(reader, context, SealedPart::kExtension) != Opening::kOpened) {
      return std::unexpected(PayloadFault::kSeal);
    }
    ByteReader extension(opener.text());
    if (!ReadExtension(extension, event) || !extension.at_end()) {
      return std::unexpected(PayloadFault::kFormat);
    }
  }
  if (part == AnswerPart::kOnlyRequest) return {};
  if (event.answer_kept) {
    if (opener.ReadPart(reader, context, SealedPart::kAnswer) != Opening::kOpened) {
      return std::unexpected(PayloadFault::kSeal);
    }
    ByteReader answer(opener.text());
    ReadAnswer(answer, AnswerBody::kRead, event.answer);
    if (!answer.at_end()) return std::unexpected(PayloadFault::kFormat);
  }
  if (!reader.at_end()) return std::unexpected(PayloadFault::kFormat);
  return {};
}

// As ReadSealed.
Decoded ReadInClear(ByteReader& reader, const EventFront& front, AnswerPart part, Event& event) {
  ReadDetails(reader, front.flags, front.has_key_field, event);
  if (front.is_extended && !ReadExtension(reader, event)) {
    return std::unexpected(PayloadFault::kFormat);
  }
  if (part == AnswerPart::kSkipBody) {
    event.request.reset();
    event.request_left_out = false;
  }
  const AnswerBody body = part == AnswerPart::kLoad ? AnswerBody::kRead : AnswerBody::kSkip;
  if (event.answer_kept) ReadAnswer(reader, body, event.answer);
  if (!reader.at_end()) return std::unexpected(PayloadFault::kFormat);
  return {};
}

bool IsKnownKind(RowKind kind) { return kind >= RowKind::kEvent && kind <= RowKind::kVoid; }

}  // namespace

std::size_t OpenRow(std::string& out, const RowHead& head) {
  const std::size_t start = out.size();
  ByteWriter writer(out);
  writer.Int(kRowMagic);
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

Digest ReadDigest(ByteReader& reader) {
  Digest digest{};
  const std::string_view raw = reader.Raw(digest.size());
  if (raw.size() == digest.size()) std::memcpy(digest.data(), raw.data(), digest.size());
  return digest;
}

void AppendEventRow(std::string& out, const Event& event, const Digest& prev_hash,
                    RowEncryptor* sealer) {
  const std::size_t start =
      OpenRow(out, {RowKind::kEvent, event.id, event.epoch, event.wall_ms, prev_hash});
  ByteWriter writer(out);
  WriteFront(writer, event, sealer != nullptr);
  writer.Int(event.window_ms);
  writer.Int(static_cast<std::int32_t>(event.http_status));
  for (const std::string* text : {&event.tool, &event.backend, &event.caller, &event.trace_id,
                                  &event.flow, &event.policy_version, &event.method}) {
    writer.Text(*text);
  }
  if (sealer == nullptr) {
    WriteDetails(writer, event);
    if (HasExtension(event)) WriteExtension(writer, event);
    if (event.answer_kept) WriteAnswer(writer, event.answer);
  } else {
    sealer->AppendKeyName(out);
    const std::size_t clear_bytes = out.size() - start - kRowHeadBytes;
    std::size_t part = RowEncryptor::OpenPart(out);
    WriteDetails(writer, event);
    sealer->ClosePart(out, part, start, clear_bytes, SealedPart::kDetails);
    if (HasExtension(event)) {
      part = RowEncryptor::OpenPart(out);
      WriteExtension(writer, event);
      sealer->ClosePart(out, part, start, clear_bytes, SealedPart::kExtension);
    }
    if (event.answer_kept) {
      part = RowEncryptor::OpenPart(out);
      WriteAnswer(writer, event.answer);
      sealer->ClosePart(out, part, start, clear_bytes, SealedPart::kAnswer);
    }
  }
  CloseRow(out, start);
}

std::expected<RowView, std::string_view> ParseRow(std::string_view row) {
  if (row.size() < kRowHeadBytes) return std::unexpected("shorter than a row head");
  if (row.size() > kRowHeadBytes + limits::kEventBytesMax) return std::unexpected("too long");
  ByteReader reader(row);
  RowView view;
  if (reader.Int<std::uint32_t>() != kRowMagic) return std::unexpected("not a ledger row");
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
  view.bytes = row;
  return view;
}

bool HasItsSize(std::string_view row) {
  std::uint32_t payload_bytes = 0;
  if (row.size() < kRowHeadBytes) return false;
  std::memcpy(&payload_bytes, row.data() + kLengthAt, sizeof payload_bytes);
  return row.size() == kRowHeadBytes + payload_bytes;
}

Digest RowHash(std::string_view row) { return Sha256(row); }

bool DecodeEventFront(const RowView& row, EventFront& front) {
  if (row.head.kind != RowKind::kEvent) return false;
  ByteReader reader(row.payload);
  const std::uint8_t flags = ReadFront(reader, front);
  if (!reader.ok() || !FrontIsSound(front, flags)) return false;
  if (front.stands.kind == WriteKind::kNone && front.resource != Digest{}) {
    GuessStanding(ReadMethod(reader), front.resource, front.stands);
  }
  return reader.ok();
}

ToolAndCaller MadeBy(const RowView& row) {
  EventFront front;
  ByteReader reader(row.payload);
  (void)ReadFront(reader, front);
  (void)reader.Int<std::int64_t>();
  (void)reader.Int<std::int32_t>();
  ToolAndCaller made;
  made.tool = reader.Text();
  (void)reader.Text();  // backend
  made.caller = reader.Text();
  return made;
}

std::optional<StepUpdate> NewsOf(const RowView& row) {
  EventFront front;
  ByteReader reader(row.payload);
  if (row.head.kind != RowKind::kEvent) return std::nullopt;
  (void)ReadFront(reader, front);
  if (!front.is_step && front.undoes == 0) return std::nullopt;
  // Nothing that observe mode saw is ever undone.
  if (front.verdict != ObserveVerdict::kNone) return std::nullopt;
  (void)reader.Int<std::int64_t>();
  (void)reader.Int<std::int32_t>();
  (void)reader.Text();  // tool
  (void)reader.Text();  // backend
  StepUpdate news;
  news.row = row.head.seq;
  news.wall_ms = row.head.wall_ms;
  news.operation = front.operation;
  news.phase = front.phase;
  news.attempt = front.attempt;
  news.has_undo = front.has_undo;
  news.undoes = front.undoes;
  news.has_deadline = front.flow_has_deadline;
  news.is_resend = front.cause == Cause::kResend || front.cause == Cause::kTooLate;
  news.flow_name = front.flow_name;
  news.caller = reader.Text();
  news.trace_id = reader.Text();
  news.flow = reader.Text();
  news.policy_version = reader.Text();
  return reader.ok() ? std::optional(news) : std::nullopt;
}

Decoded DecodeEvent(const RowView& row, AnswerPart part, RowDecryptor& opener, Event& event) {
  if (row.head.kind != RowKind::kEvent) return std::unexpected(PayloadFault::kFormat);
  ByteReader reader(row.payload);
  EventFront front;
  const std::uint8_t flags = ReadFront(reader, front);
  if (!reader.ok() || !FrontIsSound(front, flags)) return std::unexpected(PayloadFault::kFormat);
  event = Event{};
  event.id = row.head.seq;
  event.epoch = row.head.epoch;
  event.wall_ms = row.head.wall_ms;
  event.operation = front.operation;
  event.generation = front.generation;
  event.attempt = front.attempt;
  event.phase = front.phase;
  event.cause = front.cause;
  event.undo_class = front.undo_class;
  event.key = front.key;
  event.base_key = front.base_key;
  event.intent = front.intent;
  event.args_hash = front.args_hash;
  event.verdict = front.verdict;
  event.related = front.related;
  event.is_step = front.is_step;
  event.flow_has_deadline = front.flow_has_deadline;
  event.undoes = front.undoes;
  event.principal = front.principal;
  event.resource = front.resource;
  event.stands = std::move(front.stands);
  event.flow_name = front.flow_name;
  event.window_ms = reader.Int<std::int64_t>();
  event.http_status = reader.Int<std::int32_t>();
  for (std::string* text : {&event.tool, &event.backend, &event.caller, &event.trace_id,
                            &event.flow, &event.policy_version, &event.method}) {
    *text = reader.Text();
  }
  GuessStanding(event.method, event.resource, event.stands);
  event.answer_kept = (flags & kAnswerKept) != 0;
  if ((flags & kSealed) != 0) return ReadSealed(row, reader, front, part, opener, event);
  if ((flags & kCarriedSeal) != 0) return std::unexpected(PayloadFault::kFormat);
  return ReadInClear(reader, front, part, event);
}

std::optional<KeyName> SealedWith(const RowView& row) {
  EventFront front;
  ByteReader reader(row.payload);
  if (row.head.kind != RowKind::kEvent || (ReadFront(reader, front) & kSealed) == 0) {
    return std::nullopt;
  }
  (void)ReadMethod(reader);
  KeyName name;
  name.id = reader.Text();
  name.check = reader.Int<std::uint64_t>();
  if (!reader.ok()) return std::nullopt;
  return name;
}

bool AppendLockedRow(std::string& out, const RowHead& head, const RowView& row) {
  if (!SealedWith(row)) return false;
  EventFront front;
  ByteReader reader(row.payload);
  const std::uint8_t flags = ReadFront(reader, front);
  (void)ReadMethod(reader);
  (void)reader.Text();
  (void)reader.Raw(sizeof(KeyName::check) + sizeof(Salt));
  if (!reader.ok()) return false;
  const std::size_t clear_bytes = row.payload.size() - reader.left();
  const std::size_t start = OpenRow(out, head);
  out.append(row.payload.substr(0, clear_bytes));
  Patch(out, start + kRowHeadBytes + kFlagsAt, static_cast<std::uint8_t>(flags | kCarriedSeal));
  if ((flags & kCarriedSeal) == 0) out.append(SealContextOf(row.bytes, clear_bytes).head);
  out.append(row.payload.substr(clear_bytes));
  CloseRow(out, start);
  return true;
}

void AppendRelinkedRow(std::string& out, std::string_view row, const Digest& prev_hash) {
  const std::size_t start = out.size();
  out.append(row);
  std::memcpy(out.data() + start + kCrcAt + sizeof(std::uint32_t), prev_hash.data(),
              prev_hash.size());
  CloseRow(out, start);
}

}  // namespace recourse
