// Bytes of one ledger row. The layout is documented in README.md of this folder.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/open_flows.h"
#include "filters/ledger/model/operator_action.h"
#include "filters/ledger/rows/row_encryption.h"

namespace recourse {

// Stored as numbers: never renumber.
enum class RowKind : std::uint8_t {
  kEvent = 1,
  kAnswered = 2,  // operations whose answer reached its client, or did not after all
  kEpoch = 3,     // a start of the process
  kAlias = 4,     // a key that stands for an operation begun under another key
  kPolicy = 5,    // a policy that comes into force
  kRetired = 6,   // what retention left of the rows it removed
  kFlow = 7,      // a flow that moved
  kOrder = 8,     // what an operator ordered, see operator_order.h
  kVoid = 9,      // says nothing: whoever was to write it found that another one had been first
};

// From here on the key stands for an operation that began under another one. It takes a generation
// of the key where the key has had an operation of its own, which stays what it is.
struct Alias {
  Digest key{};
  std::uint64_t operation = 0;
  std::uint32_t generation = 0;
};

// A key whose operation is no longer kept.
struct Tombstone {
  Digest key{};
  std::uint64_t operation = 0;
  std::uint32_t generation = 0;
  std::uint32_t newest_generation = 0;  // as in KeyEntry
  Phase phase = Phase::kNone;           // its last one
  std::int64_t last_wall_ms = 0;        // of its last event
  std::int64_t since_ms = 0;            // when the answer went, in lived time (age_book.h)
};
inline constexpr std::size_t kTombstoneBytes = 65;

// An operation that is kept though its first row, whose number is its name, is not.
struct MovedOperation {
  std::uint64_t operation = 0;
  Digest key{};
};

// One step of retention.
struct RetiredRow {
  std::uint64_t operations = 0;        // ever begun
  std::uint64_t tombstones_total = 0;  // kept after this step
  std::vector<Tombstone> tombstones;   // new, or carried on from a removed row of this kind
  std::vector<MovedOperation> moved;
  std::vector<std::uint64_t> ended;  // moved operations that are kept no longer

  bool empty() const { return tombstones.empty() && moved.empty() && ended.empty(); }
};

struct RowHead {
  RowKind kind = RowKind::kEvent;
  std::uint64_t seq = 0;
  std::uint64_t epoch = 0;
  std::int64_t wall_ms = 0;
  Digest prev_hash{};
};

inline constexpr std::uint16_t kRowFormatVersion = 1;

// Append one whole row to `out`. The event's id, epoch and wall_ms go into the head. Everything
// that came from a request or an answer is sealed; without a sealer it stands there in clear, which
// is for logs that never reach a disk.
void AppendEventRow(std::string& out, const Event& event, const Digest& prev_hash,
                    RowEncryptor* sealer);
// In a row of marks, on an operation whose mark is taken back. To an earlier version such a number
// is an operation that is kept no longer.
inline constexpr std::uint64_t kUnreadMark = std::uint64_t{1} << 63;
void AppendAnsweredRow(std::string& out, const RowHead& head,
                       std::span<const std::uint64_t> operations);
void AppendEpochRow(std::string& out, const RowHead& head);
void AppendVoidRow(std::string& out, const RowHead& head);
void AppendAliasRow(std::string& out, const RowHead& head, const Alias& alias);
void AppendPolicyRow(std::string& out, const RowHead& head, const PolicyChange& change);

void AppendRetiredRow(std::string& out, const RowHead& head, const RetiredRow& retired);
void AppendOrderRow(std::string& out, const RowHead& head, const OperatorOrder& order);
void AppendFlowRow(std::string& out, const RowHead& head, const FlowState& state);

// A checked row; both texts point into the bytes it was parsed from.
struct RowView {
  RowHead head;
  std::string_view payload;
  std::string_view bytes{};  // head and payload
};
// Fails with a static reason unless magic, version, kind, length and CRC-32 are right.
std::expected<RowView, std::string_view> ParseRow(std::string_view row);

// Whether a row has as many bytes as its head says. Reads the head alone, so that a wrong size is
// found before that many bytes are touched.
bool HasItsSize(std::string_view row);

// The link of the hash chain: SHA-256 over the whole row.
Digest RowHash(std::string_view row);

// What is loaded besides the details: all, nothing, or the request alone (Event::request).
enum class AnswerPart : std::uint8_t { kLoad, kSkipBody, kOnlyRequest };

// What is wrong with an event's payload.
enum class PayloadFault : std::uint8_t {
  kFormat,  // not what its kind says
  kSeal,    // a sealed part was changed, cut, or moved here from another row
};
// A row that is sealed with a key that is not at hand gives an event with `is_locked`. Of a sealed
// part that is not loaded nothing is looked at.
std::expected<void, PayloadFault> DecodeEvent(const RowView& row, AnswerPart part,
                                              RowDecryptor& opener, Event& event);
// False when the payload is not what its kind says.
bool DecodeAnswered(const RowView& row, std::vector<std::uint64_t>& operations);
bool DecodeAlias(const RowView& row, Alias& alias);
bool DecodePolicy(const RowView& row, PolicyChange& change);
bool DecodeOrder(const RowView& row, OperatorOrder& order);

// Appends a sealed event whose key is missing as it is, under another head. What it is bound to
// goes with it, so that it opens there too once the key is back. False: it is no such row.
bool AppendLockedRow(std::string& out, const RowHead& head, const RowView& row);

// Appends the row with another predecessor.
void AppendRelinkedRow(std::string& out, std::string_view row, const Digest& prev_hash);

bool DecodeRetired(const RowView& row, RetiredRow& retired);
// `row` of the state is the row's number.
bool DecodeFlow(const RowView& row, FlowState& state);
// The tombstone of `key` in such a row, if it holds one.
std::optional<Tombstone> FindTombstone(const RowView& row, const Digest& key);

// The fixed front of an event, enough for the key index.
struct EventFront {
  std::uint64_t operation = 0;
  std::uint32_t generation = 0;
  std::uint16_t attempt = 0;
  Phase phase = Phase::kNone;
  Cause cause = Cause::kNone;
  UndoClass undo_class = UndoClass::kRead;
  Digest key{}, base_key{}, intent{}, args_hash{};
  ObserveVerdict verdict = ObserveVerdict::kNone;
  std::uint64_t related = 0;
  bool has_undo = false;
  bool is_step = false;
  bool flow_has_deadline = false;
  std::uint64_t undoes = 0;
  std::uint8_t flags = 0;  // as stored
  bool is_extended = false;
  bool has_key_field = false;
  Principal principal = kNoPrincipal;
  Digest resource{};
  Standing stands{};
  std::string_view flow_name{};  // valid as long as the row's bytes
};
bool DecodeEventFront(const RowView& row, EventFront& front);
// The tool and the caller of such an event.
struct ToolAndCaller {
  std::string_view tool, caller;
};
ToolAndCaller MadeBy(const RowView& row);
// What an event says about its flow; nullopt: it is of none, or cannot be read. Valid as long as
// the row's bytes.
std::optional<StepUpdate> NewsOf(const RowView& row);
// The key that an event is sealed with; nullopt for other rows and events in clear.
std::optional<KeyName> SealedWith(const RowView& row);

}  // namespace recourse
