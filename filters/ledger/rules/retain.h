// What becomes of one row that is older than the rule says: from what is known of it to a plan.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/rules/retention.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

// Where the index has a key; nullopt: it has none.
struct KeyPlace {
  std::uint64_t last_row = 0;
  std::uint32_t newest_generation = 0;
};
using PlaceOfKey = std::optional<KeyPlace>;

// What a plan leaves of the row beside what moves on. When a tombstone was written, and how old it
// is, is the store's to say.
struct RetainPlan {
  bool carries = false;     // what it says moves on to the end of the log
  bool keeps_flow = false;  // from now on a row of its own tells of its flow; before it moves on
  bool is_moved = false;    // from now on its key tells where its operation is
  bool ends = false;        // nothing but a tombstone is left of its operation
  std::vector<Digest> forgotten{};  // keys
  std::vector<Tombstone> tombstones{};
};

// Of an event. What is asked for is asked once, as some of it costs the store more than a look.
enum class EventNeed : std::uint8_t { kOwn, kBase, kHeld, kKept, kEnded };
struct OldEvent {
  std::uint64_t row = 0;
  EventFront front;

  std::optional<PlaceOfKey> own{};   // kOwn: of its key
  std::optional<PlaceOfKey> base{};  // kBase: of the key that generation 0 has
  std::optional<bool> is_held{};     // kHeld: its flow needs the step's last event
  std::optional<bool> is_kept{};     // kKept: its key means its operation
  std::optional<bool> is_ended{};    // kEnded: its effect stands no more, so its repeat is new
};
std::variant<EventNeed, RetainPlan> Retain(const OldEvent& event);

// Of a key that stands for an operation begun under another one. `has_target`: that is kept.
RetainPlan RetainAlias(const Alias& alias, std::uint64_t row, const PlaceOfKey& own,
                       const PlaceOfKey& base, bool has_target);

// Whether the tombstone in that row is needed yet. `own` is of its key.
enum class TombstoneFate : std::uint8_t { kMovesOn, kIsOver, kIsReplaced };
TombstoneFate RetainTombstone(const Tombstone& tombstone, std::uint64_t row, const PlaceOfKey& own,
                              Later later, std::int64_t lived_ms, std::int64_t tombstones_ms);

}  // namespace recourse
