// What ends the answer of a write: marks and members.
#include "filters/ledger/model/standing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "filters/ledger/model/standing_notes.h"
#include "filters/ledger/rules/standing_rules.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::standing_test {
namespace {

const Digest kDocument = DigestOf("document");

Standing Of(WriteKind kind) {
  Standing stands;
  stands.kind = kind;
  return stands;
}

bool Ends(const Standing& later, const Standing& earlier) {
  const std::vector<Mark> left = LeftBy(later, kDocument);
  return std::ranges::any_of(EndsOf(earlier, kDocument), [&](const Mark& mark) {
    return std::ranges::find(left, mark) != left.end();
  });
}

TEST(StandingTest, WhichMethodsEndWhichAnswers) {
  using enum WriteKind;
  constexpr WriteKind kAll[] = {kPut, kDelete, kPatch, kPost, kOther};
  Standing by_others = Of(kPost);
  by_others.by_others = true;
  for (const WriteKind later : kAll) {
    EXPECT_TRUE(Ends(Of(later), Of(kPut)));
    EXPECT_TRUE(Ends(Of(later), Of(kDelete)));
    EXPECT_TRUE(Ends(Of(later), by_others));
    EXPECT_EQ(Ends(Of(later), Of(kPost)), later == kDelete);
    // A PATCH may end another one, which their members tell.
    EXPECT_EQ(Ends(Of(later), Of(kPatch)), later == kDelete || later == kPut);
  }
}

TEST(StandingTest, WhatAPostMadeIsEndedByItsDelete) {
  Standing made = Of(WriteKind::kPost);
  made.made = {MarkOf(kDocument)};
  const auto ends = EndsOf(made, DigestOf("documents"));
  EXPECT_THAT(ends, testing::Contains(LeftBy(Of(WriteKind::kDelete), kDocument).front()));
  // And what the DELETE says is true until it is made again.
  EXPECT_THAT(EndsOf(Of(WriteKind::kDelete), kDocument),
              testing::Contains(LeftBy(made, DigestOf("documents")).back()));
}

TEST(StandingTest, PatchesContradictWhereTheyGiveOneMemberDifferentValues) {
  const auto patch = [](std::vector<MemberDigest> values) {
    Standing stands = Of(WriteKind::kPatch);
    stands.members = Members::kListed;
    stands.values = std::move(values);
    return stands;
  };
  EXPECT_FALSE(Contradicts(patch({{1, 1}}), patch({{1, 1}, {2, 1}})));
  EXPECT_FALSE(Contradicts(patch({{1, 1}}), patch({{2, 2}})));
  EXPECT_TRUE(Contradicts(patch({{1, 1}}), patch({{2, 2}, {1, 2}})));
  Standing unknown = Of(WriteKind::kPatch);
  unknown.members = Members::kUnknown;
  const Standing none = Of(WriteKind::kPatch);
  EXPECT_TRUE(Contradicts(unknown, patch({{1, 1}})));
  EXPECT_FALSE(Contradicts(none, unknown));
}

// A POST whose undo request is a PATCH of one member.
Standing MadeAndUndoneByPatch() {
  Standing stands = Of(WriteKind::kPost);
  stands.undo = MarkOf(kDocument);
  stands.ended_by = {NoteOf(NoteKind::kContent, 5), MarkOn(stands.undo, WriteKind::kPatch),
                     NoteOf(NoteKind::kUndoContent, 9),
                     NoteOf(NoteKind::kUndoMember, AsNote({1, 2}))};
  return stands;
}

Standing PatchOf(std::vector<MemberDigest> values, std::uint64_t content) {
  Standing stands = Of(WriteKind::kPatch);
  stands.members = Members::kListed;
  stands.values = std::move(values);
  stands.ended_by = {NoteOf(NoteKind::kContent, content)};
  return stands;
}

TEST(StandingTest, OfWritesAtThePlaceOfItsUndoOnlyThatOneUndoesForCertain) {
  const Standing made = MadeAndUndoneByPatch();
  EXPECT_EQ(EndedByUndo(made, PatchOf({{1, 2}}, 9)), Ended::kYes);
  EXPECT_EQ(EndedByUndo(made, PatchOf({{1, 2}, {3, 4}}, 8)), Ended::kPerhaps);
  EXPECT_EQ(EndedByUndo(made, PatchOf({{1, 3}}, 8)), Ended::kPerhaps);
  EXPECT_EQ(EndedByUndo(made, PatchOf({{3, 4}}, 8)), Ended::kNo) << "it sets other members";
  Standing unlisted = PatchOf({}, 8);
  unlisted.members = Members::kUnknown;
  EXPECT_EQ(EndedByUndo(made, unlisted), Ended::kPerhaps);
  EXPECT_EQ(EndedByUndo(made, Of(WriteKind::kPost)), Ended::kPerhaps);
  // An earlier version noted the place alone.
  Standing older = made;
  older.ended_by = {MarkOn(made.undo, WriteKind::kPatch)};
  EXPECT_EQ(EndedByUndo(older, PatchOf({{1, 2}}, 9)), Ended::kPerhaps);
}

TEST(StandingTest, NotesAndThePlaceOfTheUndoAreNoMarksThatEndIt) {
  const Digest documents = DigestOf("documents");
  Standing made = MadeAndUndoneByPatch();
  EXPECT_THAT(EndsOf(made, documents),
              testing::ElementsAre(MarkOn(MarkOf(documents), WriteKind::kDelete)));
  EXPECT_THAT(RemovalsOf(made, documents),
              testing::ElementsAre(MarkOn(MarkOf(documents), WriteKind::kDelete)));
  EXPECT_THAT(UndoPlaces(made), testing::ElementsAre(MarkOn(made.undo, WriteKind::kPatch)));
  EXPECT_THAT(UndoMembers(made), testing::ElementsAre(MemberDigest{1, 2}));
  EXPECT_EQ(NoteIn(made, NoteKind::kUndoContent), 9U);
  EXPECT_EQ(NoteIn(made, NoteKind::kTenants), std::nullopt);

  EXPECT_FALSE(IsInDoubt(made));
  NoteDoubt(made);
  NoteDoubt(made);
  EXPECT_TRUE(IsInDoubt(made));
  DropNotes(NoteKind::kInDoubt, made);
  EXPECT_FALSE(IsInDoubt(made));
}

TEST(StandingTest, WhatThePolicySaysEndsItIsToldFromTheRest) {
  Standing stands = Of(WriteKind::kPost);
  const Mark before = MarkOf(DigestOf("a")), one = MarkOf(DigestOf("b")),
             behind = MarkOf(DigestOf("c"));
  stands.ended_by = {before, NoteOf(NoteKind::kDeclared, 1), one, behind};
  EXPECT_FALSE(IsDeclared(stands, kDocument, before));
  EXPECT_TRUE(IsDeclared(stands, kDocument, one));
  EXPECT_FALSE(IsDeclared(stands, kDocument, behind));
  const Mark written = MarkOn(MarkOf(kDocument), WriteKind::kPost);
  EXPECT_FALSE(IsDeclared(stands, kDocument, written));
  stands.by_others = true;
  EXPECT_TRUE(IsDeclared(stands, kDocument, written));
}

TEST(StandingTest, WhatExactlyUndoesItIsToldFromWhatMayHave) {
  const Mark one = MarkOf(DigestOf("a")), other = MarkOf(DigestOf("b")),
             whole = MarkOf(DigestOf("c"));
  Standing made = Of(WriteKind::kCall);
  made.ended_by = {NoteOf(NoteKind::kOwnUndo, 1),
                   one,
                   NoteOf(NoteKind::kMayUndo, 7),
                   NoteOf(NoteKind::kWhole, 1),
                   whole,
                   NoteOf(NoteKind::kOwnUndo, 1),
                   other};
  EXPECT_THAT(OwnUndosOf(made), testing::ElementsAre(one, other));
  EXPECT_THAT(RemovalsOf(made, Digest{}), testing::ElementsAre(one, other));
  EXPECT_THAT(DoubtsOf(made), testing::ElementsAre(DoubtMark(7)));
  EXPECT_THAT(EndsOf(made, Digest{}), testing::ElementsAre(one, whole, other));
  EXPECT_TRUE(IsOfWhole(made, whole));
  EXPECT_FALSE(IsOfWhole(made, one) || IsOfWhole(made, other));
  EXPECT_FALSE(IsNote(DoubtMark(7)));
  // What a door made is removed where that door leads.
  made.made = {MarkOf(kDocument)};
  EXPECT_THAT(RemovalsOf(made, Digest{}),
              testing::Contains(MarkOn(MarkOf(kDocument), WriteKind::kDelete)));
}

TEST(StandingTest, EveryFieldComesBackFromItsBytes) {
  Standing written = Of(WriteKind::kPatch);
  written.is_named = written.is_over = written.is_gone = written.by_others = true;
  written.dispatched = 7;
  written.previous = 5;
  written.undo = MarkOf(DigestOf("undo"));
  written.made = {MarkOf(DigestOf("a")), MarkOf(DigestOf("b"))};
  written.leaves = {MarkOf(DigestOf("c"))};
  written.ended_by = {MarkOf(DigestOf("d"))};
  written.members = Members::kListed;
  written.values = {{1, 2}, {3, 4}};
  std::string bytes;
  ByteWriter writer(bytes);
  WriteStanding(writer, written);
  ByteReader reader(bytes);
  Standing read;
  ASSERT_TRUE(ReadStanding(reader, read));
  EXPECT_TRUE(reader.at_end());
  std::string again;
  ByteWriter anew(again);
  WriteStanding(anew, read);
  EXPECT_EQ(again, bytes);
  EXPECT_TRUE(read.is_named && read.is_over && read.is_gone && read.by_others);
  EXPECT_EQ(read.made, written.made);
  EXPECT_EQ(read.undo, written.undo);
  EXPECT_EQ(read.values, written.values);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ByteReader cut(std::string_view(bytes).substr(0, size));
    EXPECT_FALSE(ReadStanding(cut, read)) << size;
  }
}

}  // namespace
}  // namespace recourse::standing_test
