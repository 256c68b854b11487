// Files and directories that hold no usable ledger (corpus 4-S): refused with a line that says why,
// never replaced by a new one, and never the source of a wrong answer.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/file_system.h"
#include "filters/ledger/lmdb/lmdb_ledger.h"
#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/rows/row_codec.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/support/quiet_log.h"

namespace recourse::bad_storage_test {
namespace {

using Kind = Begun::Kind;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kOperations = 40;
constexpr int kForgotten = 8;  // of which tombstones are left

std::string BodyOf(int i) { return std::to_string(i) + std::string(300, 'b'); }
std::string NameOf(int i) { return "k" + std::to_string(i); }

LmdbLedgerOptions OptionsFor(const std::string& directory) {
  return {.directory = directory, .map_bytes = 1U << 24, .unsafe_fs = true};
}

struct Opened {
  std::unique_ptr<Engine> engine;
  std::string error;
};

Opened OpenWith(const LmdbLedgerOptions& options, const Clock& clock) {
  auto parts = OpenLmdbParts(options);
  if (!parts) return {nullptr, parts.error()};
  // A table as small as its keys: it is made ten thousand times.
  parts->hot_entries_max = 2 * (kOperations + kForgotten);
  auto engine = StartEngine(std::move(*parts), clock);
  if (!engine) return {nullptr, engine.error()};
  return {std::move(*engine), ""};
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Over what is there: ten thousand times the kernel need not give pages back and find them again.
void WriteAll(const std::string& path, const std::string& bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const auto size = static_cast<off_t>(bytes.size());
  struct stat status = {};
  const bool is_written = pwrite(file, bytes.data(), bytes.size(), 0) == size &&
                          fstat(file, &status) == 0 &&
                          (status.st_size == size || ftruncate(file, size) == 0);
  close(file);
  if (!is_written) std::abort();  // most of this runs in a child
}

// A directory with a closed ledger of kOperations finished operations.
class BadStorageTest : public testing::Test {
 protected:
  BadStorageTest() {
    Fill(directory_.data());
    good_ = ReadAll(data());
  }

  void Fill(const std::string& directory) {
    const LedgerRule rule{.retention = Millis(1'000), .tombstones = Millis(1'000'000)};
    auto opened = OpenWith(OptionsFor(directory), clock_);
    ASSERT_EQ(opened.error, "");
    for (int i = -kForgotten; i < kOperations; ++i) {
      NewOperation call = Call(NameOf(i));
      auto begun = opened.engine->Begin(call);
      ASSERT_TRUE(begun && opened.engine->Commit());
      Transition done = Success(begun->begun.event, BodyOf(i));
      ASSERT_TRUE(opened.engine->Record(done));
      ASSERT_TRUE(opened.engine->Commit());
      if (i != -1) continue;
      for (const Millis time : {Millis(100), Millis(2'000)}) {
        clock_.Advance(time);
        ASSERT_TRUE(opened.engine->Retire(rule));
      }
      ASSERT_EQ(opened.engine->Stats().tombstones, static_cast<std::uint64_t>(kForgotten));
    }
  }
  std::string data() const { return directory_.data() + "/data.mdb"; }
  std::string Open() { return OpenWith(OptionsFor(directory_.data()), clock_).error; }
  // Why the ledger is refused with these bytes as its file, which must stay as they are.
  std::string Refusal(const std::string& bytes) {
    WriteAll(data(), bytes);
    const std::string error = Open();
    EXPECT_EQ(ReadAll(data()), bytes) << "a refused file was changed";
    return error;
  }
  // An earlier file of this ledger, which was closed: without the journal of what was done since,
  // which would tell that it is not the newest.
  void PutBack(const std::string& bytes) const {
    WriteAll(data(), bytes);
    std::filesystem::remove(directory_.data() + "/journal");
  }
  std::string WithBytes(std::size_t at, const std::string& bytes) const {
    return std::string(good_).replace(at, bytes.size(), bytes);
  }

  ManualClock clock_;
  const QuietLog quiet_{LogLevel::kError};
  TempDirectory directory_{MemoryPath()};
  std::string good_;
};

std::string Number(std::uint32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

TEST_F(BadStorageTest, WhatIsNoLedgerIsRefusedByName) {
  std::mt19937 random(7);
  std::string noise(65'536, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  const std::string one = "1234567890abcdef1234567890abcdef";
  EXPECT_THAT(Refusal(""), HasSubstr("cut off"));                                    // S01
  EXPECT_THAT(Refusal(std::string(4096, '\0')), HasSubstr("not the head of"));       // S02
  EXPECT_THAT(Refusal(noise), HasSubstr("page 0 is not the head of an LMDB file"));  // S03
  EXPECT_THAT(Refusal(WithBytes(16, Number(0xdeadbeef))), HasSubstr("page 0 is not the head of"));
  EXPECT_THAT(Refusal(WithBytes(20, Number(2))), HasSubstr("file format 2"));
  EXPECT_THAT(Refusal(WithBytes(40, Number(65'536))), HasSubstr("65536 bytes"));   // S06
  EXPECT_THAT(Refusal(WithBytes(24, Number(0xbeefc0de))), HasSubstr("LMDB 1.0"));  // S07
  WriteAll(data(), good_);
  EXPECT_EQ(Open(), "");
}

TEST_F(BadStorageTest, AFileCutAtAnyPageIsRefused) {
  for (std::size_t size = 0; size < good_.size(); size += 4096) {
    EXPECT_THAT(Refusal(good_.substr(0, size)), HasSubstr("cut off")) << size;
  }
}

TEST_F(BadStorageTest, AZeroedOrSwappedPageIsRefusedOrFoundByItsReader) {
  int refused = 0;
  const std::size_t pages = good_.size() / 4096;
  for (std::size_t page = 0; page < pages; ++page) {
    for (const bool is_zeroed : {true, false}) {
      const std::string other =
          is_zeroed ? std::string(4096, '\0') : good_.substr((page + 1) % pages * 4096, 4096);
      WriteAll(data(), WithBytes(page * 4096, other));
      if (!Open().empty()) ++refused;
    }
  }
  // The others are free pages: what is on them means nothing.
  EXPECT_GT(refused, static_cast<int>(pages));
}

// Opens the file as it is and asks for every operation: each must have its own answer or an error.
// Gives what went wrong.
std::string WrongAnswer(const LmdbLedgerOptions& options, const Clock& clock) {
  auto opened = OpenWith(options, clock);
  if (!opened.engine) return opened.error.empty() ? "refused without a word" : "";
  for (int i = -kForgotten; i < kOperations; ++i) {
    NewOperation call = Call(NameOf(i));
    const auto begun = opened.engine->Begin(call);
    if (!begun) continue;
    const Kind kind = i < 0 ? Kind::kExpired : Kind::kReplay;
    // A lost commit is noticed, and then nothing is sent before somebody has looked.
    if (opened.engine->is_restored() && begun->begun.kind == Kind::kUnknown) continue;
    if (begun->begun.kind != kind) return NameOf(i) + " is not remembered";
    if (i >= 0 && begun->begun.event.answer.body != BodyOf(i)) {
      return NameOf(i) + " has another answer";
    }
  }
  const LogHead& head = opened.engine->head();
  const VerifyReport report = VerifyLog(opened.engine->log(), nullptr, head.seq, head.hash);
  return report.ok == report.problem.empty() ? "" : "verify says nothing";
}

// In a child process, so that a crash is a finding too. Gives its exit status.
int InChild(const std::function<bool()>& use) {
  const pid_t child = fork();
  if (child == 0) {
    const QuietLog quiet;
    mallopt(M_MMAP_THRESHOLD, 1 << 20);  // LMDB's lists of pages: else they are cleared by hand
    _exit(use() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// In parts, so that no core waits for another.
constexpr std::size_t kParts = 8;
class FlippedBitTest : public BadStorageTest, public testing::WithParamInterface<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Part, FlippedBitTest, testing::Range(std::size_t{0}, kParts));

TEST_P(FlippedBitTest, OneFlippedBitAnywhereInTheFileNeverChangesAnAnswer) {
  const int given = GTEST_FLAG_GET(random_seed);  // --gtest_random_seed tries other bits
  const auto seed = static_cast<std::uint32_t>(given != 0 ? given : 9'736);
  std::mt19937 random(seed);
  const auto flip_and_look = [&](std::size_t bit) {
    std::string bytes = good_;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    PutBack(bytes);
    std::filesystem::remove_all(directory_.data() + "/index");
    std::filesystem::remove(directory_.data() + "/recourse.restored");
    return WrongAnswer(OptionsFor(directory_.data()), clock_);
  };
  // Every bit of what is used of the two meta pages, which decides the most; the others spread over
  // all pages alike, and over the bits of each by chance.
  constexpr std::size_t kFlips = 10'000;
  constexpr std::size_t kMetaBytes = 168;
  constexpr std::size_t kPageBits = 4096 * 8;
  std::vector<std::size_t> all;
  for (std::size_t bit = 0; bit < kMetaBytes * 8; ++bit) {
    all.push_back(bit);
    all.push_back(kPageBits + bit);
  }
  const std::size_t pages = good_.size() / 4096;
  for (std::size_t page = 0; all.size() < kFlips; ++page) {
    all.push_back(page % pages * kPageBits + random() % kPageBits);
  }
  std::vector<std::size_t> own;
  for (std::size_t i = GetParam(); i < all.size(); i += kParts) own.push_back(all[i]);
  constexpr std::size_t kBatch = 500;
  for (std::size_t first = 0; first < own.size(); first += kBatch) {
    const std::span bits(own.data() + first, std::min(kBatch, own.size() - first));
    const int status = InChild([&] {
      return std::all_of(bits.begin(), bits.end(), [&](std::size_t bit) {
        std::ofstream(directory_.path() + "/bit") << bit;
        const std::string wrong = flip_and_look(bit);
        std::ofstream(directory_.path() + "/wrong") << wrong;
        return wrong.empty();
      });
    });
    ASSERT_EQ(status, 0) << "seed " << seed << ", bit " << ReadAll(directory_.path() + "/bit")
                         << ": " << ReadAll(directory_.path() + "/wrong");
  }
}

// Which of two numbers that follow each other is the larger one depends on their last two bits, so
// this goes on over four commits and more. The loss of the newest commit is always noticed.
TEST_F(BadStorageTest, AFlippedBitInTheNumberOfACommitIsNoticed) {
  constexpr std::size_t kNumberAt = 144;
  const QuietLog quiet;
  for (int commit = 0; commit < 6; ++commit) {
    for (const std::size_t page : {0U, 1U}) {
      for (std::size_t bit = 0; bit < 64; ++bit) {
        const std::size_t at = page * 4096 + kNumberAt + bit / 8;
        PutBack(WithBytes(at, std::string(1, static_cast<char>(good_[at] ^ (1 << bit % 8)))));
        std::filesystem::remove_all(directory_.data() + "/index");
        auto opened = OpenWith(OptionsFor(directory_.data()), clock_);
        if (!opened.engine) continue;
        EXPECT_TRUE(opened.engine->is_restored()) << page << ", " << bit << ", " << commit;
        opened.engine.reset();
        std::filesystem::remove(directory_.data() + "/recourse.restored");
      }
    }
    PutBack(good_);
    auto opened = OpenWith(OptionsFor(directory_.data()), clock_);
    ASSERT_EQ(opened.error, "");
    EXPECT_FALSE(opened.engine->is_restored());
    NewOperation call = Call("more" + std::to_string(commit));
    for (int i = 0; i < commit; ++i) ASSERT_TRUE(opened.engine->Commit());
    ASSERT_TRUE(opened.engine->Begin(call) && opened.engine->Commit());
    opened.engine.reset();
    good_ = ReadAll(data());
  }
}

TEST_F(BadStorageTest, ADatabaseThatLostItsNameIsMissedAndNeverMadeAnew) {
  for (const std::string name : {"events", "meta"}) {
    std::string bytes = good_;
    for (auto at = bytes.find(name); at != std::string::npos; at = bytes.find(name, at)) {
      ++bytes[at + name.size() - 1];  // the order of the names stays right
    }
    ASSERT_NE(bytes, good_);
    WriteAll(data(), bytes);
    EXPECT_THAT(Open(), HasSubstr("its database '" + name + "' is missing")) << name;
  }
  // The index is derived: it is built anew, and nothing is forgotten.
  WriteAll(data(), good_);
  ASSERT_EQ(Open(), "");
  const std::string index = directory_.data() + "/index/data.mdb";
  std::string bytes = ReadAll(index);
  for (auto at = bytes.find("keys"); at != std::string::npos; at = bytes.find("keys", at)) {
    bytes[at] = 'l';
  }
  WriteAll(index, bytes);
  EXPECT_EQ(WrongAnswer(OptionsFor(directory_.data()), clock_), "");
}

TEST_F(BadStorageTest, ABitThatFlipsWhileItRunsIsFoundByWhoeverReadsTheRow) {
  auto opened = OpenWith(OptionsFor(directory_.data()), clock_);
  ASSERT_EQ(opened.error, "");
  const int file = open(data().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  int damaged = 0;
  const int rows_before = 2 * kForgotten + 2;  // the start, and what retention left
  for (int i = 0; i < kOperations; ++i) {
    const std::string all = ReadAll(data());  // pages move while it runs
    for (auto at = all.find(BodyOf(i)); at != std::string::npos; at = all.find(BodyOf(i), at + 1)) {
      ASSERT_EQ(pwrite(file, "X", 1, static_cast<off_t>(at + 250)), 1);
    }
    NewOperation call = Call(NameOf(i));
    testing::internal::CaptureStderr();
    const auto begun = opened.engine->Begin(call);
    const std::string line = testing::internal::GetCapturedStderr();
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().code(), ErrorCode::kLedgerUnavailable);
    EXPECT_THAT(line, HasSubstr("\"row\":\"" + std::to_string(rows_before + 2 * i + 2) + "\""));
    ++damaged;
  }
  close(file);
  EXPECT_EQ(damaged, kOperations);
  const VerifyReport report = VerifyChain(opened.engine->log());
  EXPECT_THAT(report.problem, HasSubstr("row " + std::to_string(rows_before + 2) + ": checksum"));
}

TEST(RowFlipTest, EveryFlippedBitOfARowIsFound) {
  std::string row;
  Event event = Call("k").event;
  event.answer_kept = true;
  event.answer.body = std::string(1'000, 'b');
  AppendEventRow(row, event, Digest{}, nullptr);
  ASSERT_TRUE(ParseRow(row));
  ASSERT_GT(row.size() * 8, 10'000U);
  for (std::size_t bit = 0; bit < row.size() * 8; ++bit) {
    row[bit / 8] = static_cast<char>(row[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(ParseRow(row)) << bit;
    row[bit / 8] = static_cast<char>(row[bit / 8] ^ (1 << bit % 8));
  }
}

TEST_F(BadStorageTest, TheFileOfAnotherInstallIsRefused) {  // S08
  Fill(directory_.path() + "/other");
  EXPECT_THAT(Refusal(ReadAll(directory_.path() + "/other/data.mdb")),
              HasSubstr("that of another ledger"));
}

TEST_F(BadStorageTest, ASealThatIsCutOffOrNoiseIsToldAsThat) {
  const std::string seal = directory_.data() + "/recourse.sealed";
  const std::string whole = ReadAll(seal);
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), "\x9b\xff" + whole}) {
    WriteAll(seal, damaged);
    EXPECT_THAT(Refusal(good_), HasSubstr("recourse.sealed is damaged"));
  }
}

TEST_F(BadStorageTest, ADirectoryThatOthersControlIsRefused) {  // S10
  const std::string directory = directory_.data();
  std::filesystem::permissions(directory, std::filesystem::perms(0777));
  EXPECT_THAT(Open(), HasSubstr("mode 0777, so others may replace the ledger"));
  std::filesystem::permissions(directory, std::filesystem::perms(0700));
  std::filesystem::permissions(data(), std::filesystem::perms(0666));
  EXPECT_THAT(Open(), HasSubstr("chmod it to 0600"));
  std::filesystem::permissions(data(), std::filesystem::perms(0600));
  EXPECT_EQ(Open(), "");

  std::filesystem::create_directory_symlink(directory, directory_.path() + "/link");
  for (const char* name : {"/link", "/link/"}) {
    EXPECT_THAT(OpenWith(OptionsFor(directory_.path() + name), clock_).error,
                HasSubstr("is a symbolic link"));
  }
  std::filesystem::rename(data(), directory_.path() + "/elsewhere");
  std::filesystem::create_symlink(directory_.path() + "/elsewhere", data());
  EXPECT_THAT(Open(), HasSubstr("data.mdb is a symbolic link"));
  std::filesystem::remove(data());
  std::filesystem::create_directory(data());
  EXPECT_THAT(Open(), HasSubstr("data.mdb"));
  if (geteuid() != 0) return;
  std::filesystem::remove(data());
  ASSERT_EQ(chown(directory.c_str(), 12'345, 12'345), 0);
  EXPECT_THAT(Open(), HasSubstr("name a directory inside it"));
}

TEST(FileSystemTest, OnlyFileSystemsThatKeepWhatWasSyncedHoldALedger) {  // S11
  struct Row {
    std::uint64_t magic;
    FileSystemFit fit;
    const char* name;
  };
  const Row rows[] = {
      {0xef53, FileSystemFit::kKeeps, "ext4"},
      {0x58465342, FileSystemFit::kKeeps, "xfs"},
      {0x9123683e, FileSystemFit::kKeeps, "btrfs"},
      {0x01021994, FileSystemFit::kForgets, "tmpfs"},
      {0x6969, FileSystemFit::kRefused, "nfs"},
      {0x794c7630, FileSystemFit::kRefused, "overlay"},
      {0x01021997, FileSystemFit::kRefused, "9p"},
      {0x65735546, FileSystemFit::kRefused, "fuse"},
      {0xff534d42, FileSystemFit::kRefused, "cifs"},
      {0x00c36400, FileSystemFit::kRefused, "ceph"},
      {0x12345678, FileSystemFit::kRefused, ""},
      {0, FileSystemFit::kRefused, ""},
  };
  for (const Row& row : rows) {
    const FileSystemFacts facts = JudgeFileSystem(row.magic);
    EXPECT_EQ(facts.fit, row.fit) << std::hex << row.magic;
    EXPECT_EQ(facts.name, row.name);
    EXPECT_EQ(facts.reason.empty(), row.fit == FileSystemFit::kKeeps);
  }
}

TEST_F(BadStorageTest, AFileSystemThatForgetsIsRefusedUnlessAllowed) {
  LmdbLedgerOptions options = OptionsFor("/proc/" + std::to_string(getpid()));
  options.unsafe_fs = false;
  const std::string error = OpenWith(options, clock_).error;
  EXPECT_THAT(error, HasSubstr("cannot hold a ledger"));
  EXPECT_THAT(error, HasSubstr("Mount a volume there"));
}

TEST_F(BadStorageTest, LockFilesOfAnotherMachineDoNotMatter) {  // S13
  WriteAll(directory_.data() + "/lock.mdb", std::string(8192, 'x'));
  WriteAll(directory_.data() + "/recourse.lock", "1\n");
  EXPECT_EQ(Open(), "");
}

TEST_F(BadStorageTest, TheFileItselfIsLockedToo) {
  auto first = OpenWith(OptionsFor(directory_.data()), clock_);
  ASSERT_EQ(first.error, "");
  std::filesystem::remove(directory_.data() + "/recourse.lock");
  EXPECT_THAT(Open(), HasSubstr("data.mdb is in use by another process"));
}

TEST_F(BadStorageTest, AnOlderCopyOrALostVolumeIsRefusedWhenMoreWasExpected) {  // S14, s12
  std::string head;
  std::uint64_t rows = 0;
  {
    auto opened = OpenWith(OptionsFor(directory_.data()), clock_);
    rows = opened.engine->head().seq;
    head = ToHex(opened.engine->head().hash);
  }
  LmdbLedgerOptions options = OptionsFor(directory_.data());
  options.expected = {.rows = rows, .head = DigestFromHex(head)};
  EXPECT_EQ(OpenWith(options, clock_).error, "");
  options.expected.head = DigestOf("another");
  EXPECT_THAT(OpenWith(options, clock_).error, HasSubstr("is not the one that --expect-ledger"));
  WriteAll(data(), good_);  // yesterday's
  EXPECT_THAT(OpenWith(options, clock_).error, HasSubstr("this is an older copy"));

  options = OptionsFor(directory_.path() + "/lost");
  options.expected.rows = 1;
  EXPECT_NE(OpenWith(options, clock_).error, "");
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/lost")) << "it was created";
  std::filesystem::create_directory(directory_.path() + "/lost");
  EXPECT_THAT(OpenWith(options, clock_).error, HasSubstr("is the right volume mounted?"));
  options.expected.rows = 0;
  EXPECT_EQ(OpenWith(options, clock_).error, "");
}

TEST_F(BadStorageTest, NothingIsWrittenIntoAFileThatWasRemovedOrReplaced) {  // s06
  for (const bool is_replaced : {false, true}) {
    auto opened = OpenWith(OptionsFor(directory_.data()), clock_);
    ASSERT_EQ(opened.error, "");
    const std::string copy = ReadAll(data());
    std::filesystem::remove(data());
    if (is_replaced) WriteAll(data(), copy);
    NewOperation call = Call("new");
    ASSERT_TRUE(opened.engine->Begin(call));
    EXPECT_FALSE(opened.engine->Commit());
    EXPECT_TRUE(opened.engine->is_latched());
    EXPECT_TRUE(opened.engine->Retire(LedgerRule()));  // nothing leaves, and nothing breaks
    NewOperation old = Call(NameOf(3));
    EXPECT_EQ(opened.engine->Begin(old)->begun.event.answer.body, BodyOf(3));  // reads go on
    opened.engine.reset();
    if (!is_replaced) {
      EXPECT_THAT(Open(), HasSubstr("data.mdb is missing"));
    }
    WriteAll(data(), copy);
  }
  EXPECT_THAT(Open(), IsEmpty());
}

}  // namespace
}  // namespace recourse::bad_storage_test
