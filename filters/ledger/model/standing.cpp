#include "filters/ledger/model/standing.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "filters/ledger/model/standing_notes.h"

namespace recourse {
namespace {

constexpr WriteKind kOnResources[] = {WriteKind::kPut, WriteKind::kDelete, WriteKind::kPatch,
                                      WriteKind::kPost, WriteKind::kOther};
constexpr std::uint8_t kKindBits = 7;
constexpr std::uint8_t kGone = 8;
constexpr std::uint8_t kNamed = 16;
constexpr std::uint8_t kOver = 32;
constexpr std::uint8_t kByOthers = 64;
constexpr std::uint8_t kHasUndo = 128;

void WriteMark(ByteWriter& writer, const Mark& mark) {
  writer.Raw({reinterpret_cast<const char*>(mark.data()), mark.size()});
}

void WriteMarks(ByteWriter& writer, const std::vector<Mark>& marks) {
  const std::size_t count = std::min(marks.size(), kMarksMax);
  writer.Int(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) WriteMark(writer, marks[i]);
}

Mark ReadMark(ByteReader& reader) {
  Mark mark{};
  const std::string_view raw = reader.Raw(mark.size());
  if (raw.size() == mark.size()) std::memcpy(mark.data(), raw.data(), mark.size());
  return mark;
}

bool ReadMarks(ByteReader& reader, std::vector<Mark>& marks) {
  const auto count = reader.Int<std::uint8_t>();
  marks.clear();
  if (count > kMarksMax) return false;
  marks.reserve(count);
  for (std::uint8_t i = 0; i < count && reader.ok(); ++i) marks.push_back(ReadMark(reader));
  return true;
}

// By one of that kind on its resource.
bool IsEndedBy(const Standing& write, WriteKind kind) {
  const bool by_all = IsIdempotent(write.kind) || write.by_others;
  const bool by_put = kind == WriteKind::kPut && write.kind == WriteKind::kPatch;
  return by_all || by_put || kind == WriteKind::kDelete;
}

}  // namespace

Mark MarkOf(const Digest& digest) {
  Mark mark{};
  std::memcpy(mark.data(), digest.data(), mark.size());
  return mark;
}

Digest AsDigest(const Mark& mark) {
  Digest digest{};
  std::memcpy(digest.data(), mark.data(), mark.size());
  return digest;
}

WriteKind KindOfMethod(std::string_view method) {
  if (method == "PUT") return WriteKind::kPut;
  if (method == "DELETE") return WriteKind::kDelete;
  if (method == "PATCH") return WriteKind::kPatch;
  if (method == "POST") return WriteKind::kPost;
  return WriteKind::kOther;
}

// Marks are digests, so those of one resource may differ in a few bits alone.
Mark MarkOn(const Mark& resource, WriteKind kind) {
  Mark mark = resource;
  mark.back() ^= static_cast<unsigned char>(kind);
  return mark;
}

std::vector<Mark> LeftBy(const Standing& write, const Digest& resource) {
  std::vector<Mark> marks;
  if (write.kind == WriteKind::kNone) return marks;
  marks.reserve(1 + write.made.size() + write.leaves.size());
  if (resource != Digest{}) marks.push_back(MarkOn(MarkOf(resource), write.kind));
  for (const Mark& made : write.made) marks.push_back(MarkOn(made, WriteKind::kPost));
  marks.insert(marks.end(), write.leaves.begin(), write.leaves.end());
  return marks;
}

std::vector<WriteKind> EndingKinds(const Standing& write) {
  std::vector<WriteKind> kinds;
  std::ranges::copy_if(kOnResources, std::back_inserter(kinds),
                       [&](WriteKind kind) { return IsEndedBy(write, kind); });
  return kinds;
}

std::vector<Mark> EndsOf(const Standing& write, const Digest& resource) {
  std::vector<Mark> marks;
  if (write.kind == WriteKind::kNone) return marks;
  marks.reserve(std::size(kOnResources) + write.made.size() + write.ended_by.size());
  if (resource != Digest{}) {
    const Mark mark = MarkOf(resource);
    for (const WriteKind kind : kOnResources) {
      if (IsEndedBy(write, kind)) marks.push_back(MarkOn(mark, kind));
    }
  }
  for (const Mark& made : write.made) marks.push_back(MarkOn(made, WriteKind::kDelete));
  for (const Mark& mark : write.ended_by) {
    if (!IsNote(mark) && !IsUndoPlace(write, mark)) marks.push_back(mark);
  }
  return marks;
}

std::vector<Mark> RemovalsOf(const Standing& write, const Digest& resource) {
  std::vector<Mark> marks = OwnUndosOf(write);
  using enum WriteKind;
  if (write.kind != kPost && write.kind != kOther && write.kind != kCall) return marks;
  if (resource != Digest{}) marks.push_back(MarkOn(MarkOf(resource), WriteKind::kDelete));
  for (const Mark& made : write.made) marks.push_back(MarkOn(made, WriteKind::kDelete));
  return marks;
}

bool Contradicts(const Standing& one, const Standing& other) {
  if (one.members == Members::kNone || other.members == Members::kNone) return false;
  if (one.members == Members::kUnknown || other.members == Members::kUnknown) return true;
  return std::ranges::any_of(one.values, [&](const MemberDigest& mine) {
    return std::ranges::any_of(other.values, [&](const MemberDigest& theirs) {
      return mine.name == theirs.name && mine.value != theirs.value;
    });
  });
}

void WriteStanding(ByteWriter& writer, const Standing& stands) {
  const bool has_undo = stands.undo != Mark{};
  writer.Int(static_cast<std::uint8_t>(
      static_cast<std::uint8_t>(stands.kind) | (stands.is_named ? kNamed : 0) |
      (stands.is_over ? kOver : 0) | (stands.is_gone ? kGone : 0) |
      (stands.by_others ? kByOthers : 0) | (has_undo ? kHasUndo : 0)));
  writer.Int(stands.dispatched);
  WriteMarks(writer, stands.made);
  WriteMarks(writer, stands.leaves);
  WriteMarks(writer, stands.ended_by);
  if (has_undo) WriteMark(writer, stands.undo);
  if (stands.kind != WriteKind::kPatch) return;
  writer.Int(stands.previous);
  writer.Int(stands.members);
  const std::size_t count = std::min(stands.values.size(), kMembersMax);
  writer.Int(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    writer.Int(stands.values[i].name);
    writer.Int(stands.values[i].value);
  }
}

bool ReadStanding(ByteReader& reader, Standing& stands) {
  stands = Standing();
  const auto flags = reader.Int<std::uint8_t>();
  stands.kind = static_cast<WriteKind>(flags & kKindBits);
  if (stands.kind == WriteKind::kNone || stands.kind > WriteKind::kCall) return false;
  stands.is_named = (flags & kNamed) != 0;
  stands.is_over = (flags & kOver) != 0;
  stands.is_gone = (flags & kGone) != 0;
  stands.by_others = (flags & kByOthers) != 0;
  stands.dispatched = reader.Int<std::uint64_t>();
  if (!ReadMarks(reader, stands.made) || !ReadMarks(reader, stands.leaves) ||
      !ReadMarks(reader, stands.ended_by)) {
    return false;
  }
  if ((flags & kHasUndo) != 0) stands.undo = ReadMark(reader);
  if (stands.kind != WriteKind::kPatch) return reader.ok();
  stands.previous = reader.Int<std::uint64_t>();
  stands.members = reader.Int<Members>();
  const auto count = reader.Int<std::uint8_t>();
  if (stands.members > Members::kUnknown || count > kMembersMax) return false;
  for (std::uint8_t i = 0; i < count && reader.ok(); ++i) {
    MemberDigest member;
    member.name = reader.Int<std::uint32_t>();
    member.value = reader.Int<std::uint32_t>();
    stands.values.push_back(member);
  }
  return reader.ok();
}

}  // namespace recourse
