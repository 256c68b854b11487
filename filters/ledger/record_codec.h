// Bytes of one ledger row. The layout is documented in README.md of this folder.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/event.h"

namespace recourse {

// Stored as numbers: never renumber.
enum class RowKind : std::uint8_t {
  kEvent = 1,
  kAnswered = 2,  // operations whose answer reached its client
  kEpoch = 3,     // a start of the process
  kAlias = 4,     // a key that stands for an operation begun under another key
};

struct RowHead {
  RowKind kind = RowKind::kEvent;
  std::uint64_t seq = 0;
  std::uint64_t epoch = 0;
  std::int64_t wall_ms = 0;
  Digest prev_hash{};
};

inline constexpr std::uint16_t kRowFormatVersion = 1;
inline constexpr std::size_t kRowHeadBytes = 72;

// Append one whole row to `out`. The event's id, epoch and wall_ms go into the head.
void AppendEventRow(std::string& out, const Event& event, const Digest& prev_hash);
void AppendAnsweredRow(std::string& out, const RowHead& head,
                       std::span<const std::uint64_t> operations);
void AppendEpochRow(std::string& out, const RowHead& head);
void AppendAliasRow(std::string& out, const RowHead& head, const Digest& key,
                    std::uint64_t operation);

// A checked row; `payload` points into the bytes it was parsed from.
struct RowView {
  RowHead head;
  std::string_view payload;
};
// Fails with a static reason unless magic, version, kind, length and CRC-32 are right.
std::expected<RowView, std::string_view> ParseRow(std::string_view row);

// The link of the hash chain: SHA-256 over the whole row.
Digest RowHash(std::string_view row);

enum class AnswerPart : std::uint8_t { kLoad, kSkipBody };

// False when the payload is not what its kind says.
bool DecodeEvent(const RowView& row, AnswerPart answer, Event& event);
bool DecodeAnswered(const RowView& row, std::vector<std::uint64_t>& operations);
bool DecodeAlias(const RowView& row, Digest& key, std::uint64_t& operation);

// The fixed front of an event, enough for the key index.
struct EventFront {
  std::uint64_t operation = 0;
  std::uint32_t generation = 0;
  std::uint16_t attempt = 0;
  Phase phase = Phase::kNone;
  Cause cause = Cause::kNone;
  Digest key{}, base_key{}, intent{}, args_hash{};
};
bool DecodeEventFront(const RowView& row, EventFront& front);

}  // namespace recourse
