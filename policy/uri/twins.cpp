#include "policy/uri/twins.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "policy/uri/letters.h"

namespace recourse {
namespace {

// What a reader makes of a character.
enum class Turn : std::uint8_t {
  kSame,
  kLower,  // compared in any case
  kEnd,    // what follows is not read
  kLine,   // read as '_'
  kJoint,  // between words: read as '_', as another joint, or left out; '_' at the beginning
  kBlank,  // left out
};

using Places = unsigned;
constexpr Places In(NameIn where) { return 1u << static_cast<unsigned>(where); }
constexpr Places kAll = ~0u;

struct ReaderRule {
  Places where;
  std::string_view characters;
  Turn turn;
};
constexpr std::string_view kNul("\0", 1);
constexpr std::string_view kSigns = "!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~ ";

// One row for each way of reading; a later row wins.
constexpr std::array<ReaderRule, 9> kReaders{{
    // Go's encoding/json, .NET, ASP.NET, Jackson and cJSON when told so, Windows, MySQL.
    {kAll, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Turn::kLower},
    // PHP, cJSON, and whoever hands a name to C.
    {In(NameIn::kJson) | In(NameIn::kForm) | In(NameIn::kHeader) | In(NameIn::kMcp), kNul,
     Turn::kEnd},
    // The JSON of protobuf, of a body and by grpc-gateway of a query: dry_run is dryRun.
    {In(NameIn::kJson) | In(NameIn::kForm), "_", Turn::kJoint},
    // PHP: a.b, a b and a[b are a_b. ASP.NET and qs: a.b is a[b].
    {In(NameIn::kForm), ".[] ", Turn::kJoint},
    // Spring: !a is the default of a. It and PHP's blanks count at the beginning alone.
    {In(NameIn::kForm), "!", Turn::kBlank},
    // CGI, WSGI, Rack, PHP: X-Run, X_Run and X.Run are HTTP_X_RUN.
    {In(NameIn::kHeader), kSigns, Turn::kLine},
    // MCP clients and gateways put in what the API of their model allows in a name.
    {In(NameIn::kMcp), "_-./:+ ", Turn::kJoint},
    // Blanks are trimmed.
    {kAll, "\t\r\n\v\f", Turn::kBlank},
    {In(NameIn::kMcp), "\x7f", Turn::kBlank},
}};

using Turns = std::array<Turn, 128>;
constexpr Turns TurnsIn(NameIn where) {
  Turns turns{};
  for (const ReaderRule& rule : kReaders) {
    if ((rule.where & In(where)) == 0) continue;
    for (const char c : rule.characters) turns[static_cast<unsigned char>(c)] = rule.turn;
  }
  return turns;
}
constexpr std::array<Turns, 5> kTurns{TurnsIn(NameIn::kJson), TurnsIn(NameIn::kForm),
                                      TurnsIn(NameIn::kHeader), TurnsIn(NameIn::kPath),
                                      TurnsIn(NameIn::kMcp)};

// Yields a skeleton character by character, without a copy of it.
class SkeletonReader {
 public:
  SkeletonReader(NameIn where, std::string_view name)
      : turns_(kTurns[static_cast<std::size_t>(where)]), rest_(name) {}

  // nullopt: the name has ended.
  std::optional<char32_t> Next() {
    while (!ascii_.empty() || !rest_.empty()) {
      const auto point = Turned(Take());
      if (!point) continue;
      is_first_ = false;
      return point;
    }
    return std::nullopt;
  }

 private:
  char32_t Take() {
    if (!ascii_.empty()) {
      const char c = ascii_.front();
      ascii_.remove_prefix(1);
      return static_cast<unsigned char>(c);
    }
    const char32_t point = TakePoint(rest_);
    if (point >= 0x80 && point != kNoPoint) ascii_ = AsciiOf(point);
    return ascii_.empty() ? point : Take();
  }

  std::optional<char32_t> Turned(char32_t point) {
    if (point >= 0x80) {
      // Some leave out what is no text, and what cannot be seen.
      if (point == kNoPoint || IsInvisible(point)) return std::nullopt;
      return LowerPoint(point);
    }
    switch (turns_[point]) {
      case Turn::kSame:
        return point;
      case Turn::kLower:
        return point | 0x20;
      case Turn::kLine:
        return U'_';
      case Turn::kJoint:
        return is_first_ && point != ' ' ? std::optional(U'_') : std::nullopt;
      case Turn::kEnd:
        ascii_ = rest_ = {};
        return std::nullopt;
      case Turn::kBlank:
        return std::nullopt;
    }
    return point;
  }

  const Turns& turns_;
  std::string_view rest_;
  std::string_view ascii_;  // of a point that was taken, what is not yielded yet
  bool is_first_ = true;
};

// Every reader takes letters and digits for themselves, but for their case.
bool ReadsAsItself(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
bool DifferAtOnce(std::string_view a, std::string_view b) {
  return !a.empty() && !b.empty() && ReadsAsItself(a.front()) && ReadsAsItself(b.front()) &&
         (a.front() | 0x20) != (b.front() | 0x20);
}

bool HaveOneSkeleton(NameIn where, std::string_view a, std::string_view b) {
  if (DifferAtOnce(a, b)) return false;
  SkeletonReader left(where, a), right(where, b);
  for (;;) {
    const auto one = left.Next(), other = right.Next();
    if (one != other) return false;
    if (!one) return true;
  }
}

// Whether `outer` is the name of what `inner` is nested in. Bounded, as each level reads the name
// anew.
bool Holds(std::string_view outer, std::string_view inner) {
  constexpr int kLevelsMax = 16;
  auto at = inner.find('[', 1);
  for (int level = 0; level < kLevelsMax && at != std::string_view::npos; ++level) {
    if (HaveOneSkeleton(NameIn::kForm, outer, inner.substr(0, at))) return true;
    at = inner.find('[', at + 1);
  }
  return false;
}

}  // namespace

std::string SkeletonOf(NameIn where, std::string_view name) {
  std::string skeleton;
  SkeletonReader reader(where, name);
  while (const auto point = reader.Next()) AppendPoint(skeleton, *point);
  return skeleton;
}

bool AreTwins(NameIn where, std::string_view a, std::string_view b) {
  if (HaveOneSkeleton(where, a, b)) return true;
  return where == NameIn::kForm && (Holds(a, b) || Holds(b, a));
}

std::string_view RootOf(std::string_view name) {
  return name.empty() ? name : name.substr(0, name.find('[', 1));
}

std::string ShownName(std::string_view name) {
  constexpr std::size_t kShownMax = 96;
  std::string shown;
  while (!name.empty() && shown.size() < kShownMax) {
    const char first = name.front();
    const char32_t point = TakePoint(name);
    if (point >= 0x20 && point < 0x7f) {
      shown.push_back(first);
    } else if (point == kNoPoint) {
      shown += fmt::format("<{:02X}>", static_cast<unsigned char>(first));
    } else {
      shown += fmt::format("<U+{:04X}>", static_cast<std::uint32_t>(point));
    }
  }
  return name.empty() ? shown : shown + "...";
}

}  // namespace recourse
