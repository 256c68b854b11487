#include "filters/ledger/model/standing_notes.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace recourse {
namespace {

// Marks are digests: none begins so.
constexpr std::string_view kMagic("\xffrcnote", 7);
constexpr std::string_view kDoubtEnd("rcdoubt\xff", 8);
constexpr std::size_t kNoteKindAt = 7, kNoteValueAt = 8;
constexpr int kKinds = 8;  // of writes, and room for one more

bool IsNoteOf(NoteKind kind, const Mark& mark) {
  return IsNote(mark) && mark[kNoteKindAt] == static_cast<unsigned char>(kind);
}

std::uint64_t ValueOf(const Mark& note) {
  std::uint64_t value = 0;
  std::memcpy(&value, note.data() + kNoteValueAt, sizeof value);
  return value;
}

// Whether the mark is one of those that a note of this kind counts behind itself.
bool IsBehind(NoteKind kind, const Standing& stands, const Mark& mark) {
  std::uint64_t left = 0;
  for (const Mark& each : stands.ended_by) {
    if (left > 0 && each == mark) return true;
    if (left > 0) --left;
    if (IsNoteOf(kind, each)) left = ValueOf(each);
  }
  return false;
}

}  // namespace

Mark NoteOf(NoteKind kind, std::uint64_t value) {
  Mark mark{};
  std::memcpy(mark.data(), kMagic.data(), kMagic.size());
  mark[kNoteKindAt] = static_cast<unsigned char>(kind);
  std::memcpy(mark.data() + kNoteValueAt, &value, sizeof value);
  return mark;
}

bool IsNote(const Mark& mark) {
  return std::memcmp(mark.data(), kMagic.data(), kMagic.size()) == 0;
}

std::optional<std::uint64_t> NoteIn(const Standing& stands, NoteKind kind) {
  std::optional<std::uint64_t> value;
  for (const Mark& mark : stands.ended_by) {
    if (IsNoteOf(kind, mark)) value = ValueOf(mark);
  }
  return value;
}

// Before all others: what does not fit into the row is cut off.
bool HasOtherPreconditions(const Standing& call, const Standing& earlier) {
  const auto is = NoteIn(call, NoteKind::kPrecondition);
  const auto was = NoteIn(earlier, NoteKind::kPrecondition);
  return is && was && *is != *was;
}

void NoteDoubt(Standing& stands) {
  if (IsInDoubt(stands)) return;
  stands.ended_by.insert(stands.ended_by.begin(), NoteOf(NoteKind::kInDoubt, 0));
}

void DropNotes(NoteKind kind, Standing& stands) {
  std::erase_if(stands.ended_by, [kind](const Mark& mark) { return IsNoteOf(kind, mark); });
}

std::uint64_t AsNote(const MemberDigest& member) {
  return std::uint64_t{member.name} << 32 | member.value;
}

std::vector<MemberDigest> UndoMembers(const Standing& stands) {
  std::vector<MemberDigest> members;
  for (const Mark& mark : stands.ended_by) {
    if (!IsNoteOf(NoteKind::kUndoMember, mark)) continue;
    const std::uint64_t value = ValueOf(mark);
    members.push_back({static_cast<std::uint32_t>(value >> 32), static_cast<std::uint32_t>(value)});
  }
  return members;
}

bool AreOfOnePlace(const Mark& one, const Mark& other) {
  return std::equal(one.begin(), one.end() - 1, other.begin()) &&
         (one.back() ^ other.back()) < kKinds;
}

bool IsUndoPlace(const Standing& stands, const Mark& mark) {
  return stands.undo != Mark{} && AreOfOnePlace(stands.undo, mark) && mark != stands.undo;
}

std::vector<Mark> UndoPlaces(const Standing& stands) {
  std::vector<Mark> places;
  for (const Mark& mark : stands.ended_by) {
    const bool is_new = std::ranges::find(places, mark) == places.end();
    if (is_new && IsUndoPlace(stands, mark)) places.push_back(mark);
  }
  return places;
}

std::vector<Mark> OwnUndosOf(const Standing& stands) {
  std::vector<Mark> own;
  const auto& marks = stands.ended_by;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    if (IsNoteOf(NoteKind::kOwnUndo, marks[i - 1])) own.push_back(marks[i]);
  }
  return own;
}

Mark DoubtMark(std::uint64_t value) {
  Mark mark{};
  std::memcpy(mark.data(), &value, sizeof value);
  std::memcpy(mark.data() + sizeof value, kDoubtEnd.data(), kDoubtEnd.size());
  return mark;
}

std::vector<Mark> DoubtsOf(const Standing& stands) {
  std::vector<Mark> marks;
  for (const Mark& mark : stands.ended_by) {
    if (IsNoteOf(NoteKind::kMayUndo, mark)) marks.push_back(DoubtMark(ValueOf(mark)));
  }
  return marks;
}

bool IsOfWhole(const Standing& stands, const Mark& mark) {
  return IsBehind(NoteKind::kWhole, stands, mark);
}

bool IsDeclared(const Standing& stands, const Digest& resource, const Mark& mark) {
  if (stands.by_others && resource != Digest{} && AreOfOnePlace(MarkOf(resource), mark)) {
    return true;
  }
  return IsBehind(NoteKind::kDeclared, stands, mark);
}

}  // namespace recourse
