#include "filters/ledger/rows/event_sections.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Stored as numbers: never renumber.
enum class ExtensionKind : std::uint8_t {
  kRequest = 1,
  kApproval = 2,
  kTask = 3,
  kState = 4,
  kFound = 5,
};
// In the first byte of a request record.
constexpr std::uint8_t kRequestFollows = 0;
constexpr std::uint8_t kRequestLeftOut = 1;

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
  headers.reserve(std::min<std::size_t>(count, limits::kFieldsMax));
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    const std::string_view name = reader.Text();
    headers.emplace_back(name, reader.Text());
  }
  return headers;
}

void WriteRequest(ByteWriter& writer, const RenderedRequest& request) {
  writer.Text(request.method);
  writer.Text(request.target);
  WriteHeaders(writer, request.headers);
  writer.Text(request.body);
}

// As many bytes as WriteRequest writes.
std::size_t BytesOf(const RenderedRequest& request) {
  static constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
  std::size_t bytes =
      4 * kLengthBytes + request.method.size() + request.target.size() + request.body.size();
  for (const auto& [name, value] : request.headers) {
    bytes += 2 * kLengthBytes + name.size() + value.size();
  }
  return bytes;
}

RenderedRequest ReadRequest(ByteReader& reader) {
  RenderedRequest request;
  request.method = reader.Text();
  request.target = reader.Text();
  request.headers = ReadHeaders(reader);
  request.body = reader.Text();
  return request;
}

void WriteSnapshot(ByteWriter& writer, const Snapshot& state) {
  writer.Int(static_cast<std::uint8_t>(state.is_gone ? 1 : 0));
  writer.Text(state.version);
  WriteHeaders(writer, state.places);
}

Snapshot ReadSnapshot(ByteReader& reader) {
  Snapshot state;
  state.is_gone = reader.Int<std::uint8_t>() != 0;
  state.version = reader.Text();
  state.places = ReadHeaders(reader);
  return state;
}

StateKept ReadState(ByteReader& reader) {
  StateKept state;
  state.request = ReadRequest(reader);
  state.before = ReadSnapshot(reader);
  state.ours = ReadSnapshot(reader);
  return state;
}

bool HasRequestRecord(const Event& event) { return event.request || event.request_left_out; }

bool ReadRequestRecord(ByteReader& record, Event& event) {
  const auto state = record.Int<std::uint8_t>();
  if (state > kRequestLeftOut) return false;
  event.request_left_out = state == kRequestLeftOut;
  if (!event.request_left_out) event.request = ReadRequest(record);
  return record.at_end();
}

}  // namespace

void WriteDetails(ByteWriter& writer, const Event& event) {
  writer.Text(event.path);
  writer.Text(event.detail);
  writer.Text(event.external_ref);
  if (event.settle) WriteRequest(writer, *event.settle);
  if (event.undo) WriteRequest(writer, *event.undo);
  if (event.dedupe_domain != 0) writer.Int(event.dedupe_domain);
  if (event.key_field) writer.Text(*event.key_field);
}

void ReadDetails(ByteReader& reader, std::uint8_t flags, bool has_key_field, Event& event) {
  event.path = reader.Text();
  event.detail = reader.Text();
  event.external_ref = reader.Text();
  if ((flags & kEventHasSettle) != 0) event.settle = ReadRequest(reader);
  if ((flags & kEventHasUndo) != 0) event.undo = ReadRequest(reader);
  if ((flags & kEventHasDedupeDomain) != 0) event.dedupe_domain = reader.Int<std::uint64_t>();
  if (has_key_field) event.key_field = reader.Text();
}

void WriteAnswer(ByteWriter& writer, const HttpResponse& answer) {
  writer.Int(static_cast<std::int32_t>(answer.status));
  writer.Text(answer.reason);
  WriteHeaders(writer, answer.headers);
  writer.Text(answer.body);
}

void ReadAnswer(ByteReader& reader, AnswerBody body, HttpResponse& answer) {
  answer.status = reader.Int<std::int32_t>();
  answer.reason = reader.Text();
  answer.headers = ReadHeaders(reader);
  const std::string_view bytes = reader.Text();
  if (body == AnswerBody::kRead) answer.body = bytes;
}

bool HasExtension(const Event& event) {
  return HasRequestRecord(event) || event.approval || event.task || event.state || event.found;
}

void WriteExtension(ByteWriter& writer, const Event& event) {
  writer.Int(static_cast<std::uint8_t>(HasRequestRecord(event) + event.approval.has_value() +
                                       event.task.has_value() + event.state.has_value() +
                                       event.found.has_value()));
  if (HasRequestRecord(event)) {
    const std::size_t bytes = event.request ? BytesOf(*event.request) : 0;
    writer.Int(ExtensionKind::kRequest);
    writer.Int(static_cast<std::uint32_t>(sizeof(kRequestFollows) + bytes));
    writer.Int(event.request ? kRequestFollows : kRequestLeftOut);
    if (event.request) WriteRequest(writer, *event.request);
  }
  std::string record;
  ByteWriter inner(record);
  if (event.approval) {
    record.clear();
    WriteApproval(inner, *event.approval);
    writer.Int(ExtensionKind::kApproval);
    writer.Text(record);
  }
  if (event.task) {
    record.clear();
    WriteRequest(inner, *event.task);
    writer.Int(ExtensionKind::kTask);
    writer.Text(record);
  }
  if (event.state) {
    record.clear();
    WriteRequest(inner, event.state->request);
    WriteSnapshot(inner, event.state->before);
    WriteSnapshot(inner, event.state->ours);
    writer.Int(ExtensionKind::kState);
    writer.Text(record);
  }
  if (event.found) {
    record.clear();
    WriteSnapshot(inner, *event.found);
    writer.Int(ExtensionKind::kFound);
    writer.Text(record);
  }
}

bool ReadExtension(ByteReader& reader, Event& event) {
  const auto count = reader.Int<std::uint8_t>();
  std::uint8_t last = 0;
  for (int i = 0; i < count && reader.ok(); ++i) {
    const auto kind = reader.Int<std::uint8_t>();
    ByteReader record(reader.Text());
    if (kind <= std::exchange(last, kind)) return false;
    switch (static_cast<ExtensionKind>(kind)) {
      case ExtensionKind::kRequest:
        if (!ReadRequestRecord(record, event)) return false;
        break;
      case ExtensionKind::kApproval:
        if (!ReadApproval(record, event.approval.emplace())) return false;
        break;
      case ExtensionKind::kTask:
        event.task = ReadRequest(record);
        if (!record.at_end()) return false;
        break;
      case ExtensionKind::kState:
        event.state = ReadState(record);
        if (!record.at_end()) return false;
        break;
      case ExtensionKind::kFound:
        event.found = ReadSnapshot(record);
        if (!record.at_end()) return false;
        break;
      default:
        return false;
    }
  }
  return reader.ok() && count > 0;
}

}  // namespace recourse
