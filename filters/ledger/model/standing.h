// How long the stored answer of a write is true: what a write leaves behind as marks, and the marks
// that make it stand no more. Pure.
//
// A mark is a keyed digest of a resource, or of an action on one. The index knows of each mark the
// row of the last write that had its effect there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "proxy/base/bytes.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

using Mark = std::array<unsigned char, 16>;

Mark MarkOf(const Digest& digest);
// As the index keys it.
Digest AsDigest(const Mark& mark);

// Stored as numbers: never renumber.
enum class WriteKind : std::uint8_t {
  kNone = 0,  // an earlier version wrote it, or it is no write on a resource
  kPut = 1,
  kDelete = 2,
  kPatch = 3,
  kPost = 4,
  kOther = 5,  // another method
  kCall = 6,   // of a tool by its name
};
WriteKind KindOfMethod(std::string_view method);
// Methods that may be made again without harm.
inline bool IsIdempotent(WriteKind kind) {
  return kind == WriteKind::kPut || kind == WriteKind::kDelete;
}

// What a PATCH says of its members, by keyed digests of their names and values.
enum class Members : std::uint8_t {
  kNone = 0,     // it is no JSON object
  kListed = 1,   // all of them
  kUnknown = 2,  // more than kMembersMax, or an earlier version wrote it
};
struct MemberDigest {
  std::uint32_t name = 0, value = 0;
  bool operator==(const MemberDigest&) const = default;
};
inline constexpr std::size_t kMembersMax = 16;
// What one row holds of each kind of mark.
inline constexpr std::size_t kMarksMax = 16;

struct Standing {
  WriteKind kind = WriteKind::kNone;
  bool is_named = false;   // by the agent's own key: it stands as long as it is kept
  bool is_over = false;    // it stood no more when this row was written
  bool is_gone = false;    // what it made was deleted, or its undo request was made by an agent
  bool by_others = false;  // ended by any other write on its resource, whatever its method
  std::uint64_t dispatched = 0;  // row of its last dispatch; 0: it was never sent
  std::uint64_t previous = 0;    // of a PATCH: row of the PATCH that had its effect before it
  Mark undo{};                   // resource that its stored undo request names; zeros: none
  std::vector<Mark> made;        // resources that its answer, its undo or its reference name
  std::vector<Mark> leaves;      // what it did, beside its resource
  std::vector<Mark> ended_by;    // likewise, what ends it
  Members members = Members::kNone;
  std::vector<MemberDigest> values;  // kListed
};

// Of a resource: the mark that a write of this kind leaves there.
Mark MarkOn(const Mark& resource, WriteKind kind);
// All marks that the write leaves. `resource` may be zeros.
std::vector<Mark> LeftBy(const Standing& write, const Digest& resource);
// What of the writes on its resource ends it, but for the PATCHes that may end a PATCH.
std::vector<WriteKind> EndingKinds(const Standing& write);
// All that end it, but for the PATCHes that may end a PATCH: Contradicts tells.
std::vector<Mark> EndsOf(const Standing& write, const Digest& resource);
// Those of exactly its undo request, and of a POST those of a DELETE of what it made. Then there is
// nothing left to undo.
std::vector<Mark> RemovalsOf(const Standing& write, const Digest& resource);
// Whether two PATCHes of one resource give one member different values.
bool Contradicts(const Standing& one, const Standing& other);

void WriteStanding(ByteWriter& writer, const Standing& stands);
// False: it is not what WriteStanding wrote.
bool ReadStanding(ByteReader& reader, Standing& stands);

}  // namespace recourse
