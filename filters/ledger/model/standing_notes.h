// What a row says of its write beside marks. Notes stand among the marks that end the write, where
// earlier versions look for them in the index and find nothing. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "filters/ledger/model/standing.h"

namespace recourse {

// Stored as numbers: never renumber.
enum class NoteKind : std::uint8_t {
  kTenants = 1,        // digest of the tenant fields of the call
  kInDoubt = 2,        // what may have ended it came before this row
  kUnproven = 3,       // that it had its effect does not prove that it removed what it names
  kContent = 4,        // digest of its method and body
  kUndoContent = 5,    // likewise, of its undo request
  kUndoMember = 6,     // name and value of a member that its undo request sets
  kDeclared = 7,       // so many marks behind this one are those of `superseded_by`
  kOwnUndo = 8,        // the mark behind this one is that of exactly its undo request
  kMayUndo = 9,        // digest of what a call that may have undone it says: see DoubtMark
  kWhole = 10,         // so many marks behind this one are of its path, whatever the query
  kExact = 11,         // what it leaves at other places than its own is certain
  kPrecondition = 12,  // digest of the fields that say what must hold before the call; 0: none
};

Mark NoteOf(NoteKind kind, std::uint64_t value);
bool IsNote(const Mark& mark);
// The value of the last such note.
std::optional<std::uint64_t> NoteIn(const Standing& stands, NoteKind kind);
inline bool IsInDoubt(const Standing& stands) {
  return NoteIn(stands, NoteKind::kInDoubt).has_value();
}
// Whether a call asks for another state to be there before than that one did. Not known, and no, of
// a call by name, which may be another door, and of what earlier versions wrote.
bool HasOtherPreconditions(const Standing& call, const Standing& earlier);
void NoteDoubt(Standing& stands);
void DropNotes(NoteKind kind, Standing& stands);

std::uint64_t AsNote(const MemberDigest& member);
std::vector<MemberDigest> UndoMembers(const Standing& stands);

// Whether they are marks of one resource, by whatever methods.
bool AreOfOnePlace(const Mark& one, const Mark& other);
// Among the marks that end a write: where its undo request writes. What is written there later may
// be that request, or another one.
bool IsUndoPlace(const Standing& stands, const Mark& mark);
std::vector<Mark> UndoPlaces(const Standing& stands);
// What exactly its undo request leaves behind, whoever makes it, where that names the effect; and
// that of each other door to what the write did.
std::vector<Mark> OwnUndosOf(const Standing& stands);
// What a call leaves behind that says this, and may be the undo request of another one. It is no
// mark that earlier versions would take for the end of that one.
Mark DoubtMark(std::uint64_t value);
// Those that leave a doubt whether it still stands.
std::vector<Mark> DoubtsOf(const Standing& stands);
// Whether the mark is of its path, whatever the query: what leaves it may have ended the write.
bool IsOfWhole(const Standing& stands, const Mark& mark);
// Whether the policy says that what leaves this mark ends it, whoever makes it.
bool IsDeclared(const Standing& stands, const Digest& resource, const Mark& mark);

}  // namespace recourse
