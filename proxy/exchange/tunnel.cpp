#include "proxy/exchange/tunnel.h"

#include <algorithm>

#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

// The value of the only field of that id; "" when there is none or more than one.
std::string_view OnlyValue(const Head& head, FieldId id) {
  std::string_view value;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (head.fields[i].id != id) continue;
    if (!value.empty()) return {};
    value = head.fields[i].value;
  }
  return value;
}

bool ConnectionNamesUpgrade(const Head& head) {
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (head.fields[i].id != FieldId::kConnection) continue;
    std::string_view list = head.fields[i].value;
    while (!list.empty()) {
      const std::size_t comma = std::min(list.find(','), list.size());
      std::string_view token = list.substr(0, comma);
      list.remove_prefix(std::min(comma + 1, list.size()));
      while (token.starts_with(' ') || token.starts_with('\t')) token.remove_prefix(1);
      while (token.ends_with(' ') || token.ends_with('\t')) token.remove_suffix(1);
      if (EqualsIgnoreCase(token, "upgrade")) return true;
    }
  }
  return false;
}

bool HasOneKey(const Head& head) {
  static constexpr std::size_t kKeyBytes = 24;  // 16 bytes in base64
  int keys = 0;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (!EqualsIgnoreCase(field.name, "sec-websocket-key")) continue;
    if (field.hop || field.value.size() != kKeyBytes) return false;
    ++keys;
  }
  return keys == 1;
}

}  // namespace

std::string_view AskedUpgrade(const Head& request, const std::vector<std::string>& accepted) {
  if (accepted.empty() || request.method != "GET" || request.minor != 1 ||
      request.body != BodyKind::kNone) {
    return {};
  }
  const std::string_view asked = OnlyValue(request, FieldId::kUpgrade);
  for (const std::string& protocol : accepted) {
    if (!EqualsIgnoreCase(asked, protocol)) continue;
    return ConnectionNamesUpgrade(request) && HasOneKey(request) ? protocol : std::string_view();
  }
  return {};
}

bool SwitchedTo(const Head& response, std::string_view protocol) {
  return !protocol.empty() && EqualsIgnoreCase(OnlyValue(response, FieldId::kUpgrade), protocol) &&
         ConnectionNamesUpgrade(response);
}

Task<void> Tunnel::Run() {
  Touch();
  Spawn(PumpToBackend(), [] {});
  co_await Pump(backend_, client_.connection, bytes_to_client_);
  co_await pumped_.Wait();
}

void Tunnel::Drain() {
  if (draining_) return;
  draining_ = true;
  idle_ = std::min(idle_, limits::kDrainQuiet);
  Touch();
}

Task<void> Tunnel::PumpToBackend() {
  if (co_await Admit()) {
    co_await Pump(client_, backend_.connection, bytes_to_backend_);
  } else {
    broken_ = true;
    client_.connection.deadline.Arm(thread_.clock().Now());
    backend_.connection.deadline.Arm(thread_.clock().Now());
  }
  pumped_.Set(true);
}

// Also true when the client ends without a word: Pump tells the other side.
Task<bool> Tunnel::Admit() {
  if (!gate_.judge) co_return true;
  ReadBuffer& buffer = client_.buffer;
  if (!co_await Fill(client_)) co_return true;
  for (;;) {
    const Verdict verdict = gate_.judge(buffer.unread());
    if (verdict != Verdict::kNeedMore) {
      admit_by_.reset();
      co_return verdict == Verdict::kPass;
    }
    if (!admit_by_) admit_by_ = thread_.clock().Now() + gate_.wait;
    Touch();
    if (buffer.free_size() == 0) co_return false;
    const std::size_t size =
        co_await ReadSome(client_.connection, buffer.free_space(), buffer.free_size());
    if (size == 0) co_return false;
    buffer.end += size;
  }
}

Task<void> Tunnel::Pump(End& from, Connection& to, std::uint64_t& count) {
  while (!broken_ && co_await Fill(from)) {
    Touch();
    const std::string_view bytes = from.buffer.unread();
    const bool is_looked_at = frames_ && &from == &backend_;
    const auto passing = is_looked_at ? frames_->Take(bytes) : bytes;
    is_opaque_ = is_opaque_ || !passing;
    if (!passing || !co_await WriteAll(to, {*passing})) {
      broken_ = true;
      break;
    }
    count += bytes.size();
    from.buffer.Consume(bytes.size());
    Touch();
  }
  if (!broken_ && from.connection.error == boost::asio::error::eof) {
    // One side has said all; what the other still has to say is not waited for long.
    to.EndSending();
    idle_ = std::min(idle_, limits::kHalfClosedIdleTimeout);
    Touch();
    co_return;
  }
  // A deadline also ends a read that would find something, which Cancel() does not.
  broken_ = true;
  from.connection.deadline.Arm(thread_.clock().Now());
  to.deadline.Arm(thread_.clock().Now());
}

// Waits without a buffer, so that thousands of silent tunnels cost little.
Task<bool> Tunnel::Fill(End& from) {
  ReadBuffer& buffer = from.buffer;
  if (buffer.begin != buffer.end) co_return true;
  buffer.pool = &thread_.buffers();
  const std::size_t size = co_await ReadInto(from.connection, buffer);
  buffer.end += size;
  co_return size > 0;
}

void Tunnel::Touch() {
  if (broken_) return;
  const MonoTime until = thread_.clock().Now() + idle_;
  client_.connection.deadline.Arm(admit_by_ ? std::min(until, *admit_by_) : until);
  backend_.connection.deadline.Arm(until);
}

}  // namespace recourse
