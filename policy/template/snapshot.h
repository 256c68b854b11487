// The state of a resource that a write changes, as far as the policy's `before` keeps it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/json/json.h"

namespace recourse {

struct Snapshot {
  bool is_gone = false;   // the backend says that it is not there
  std::string version{};  // what `version` names; empty: not known
  // A JSON pointer into its body, and the value there as JSON text; as `keep` names them.
  std::vector<std::pair<std::string, std::string>> places{};
};

// The value at `pointer`, which is a kept place or lies in one; nullopt: there is none.
std::optional<Json> KeptAt(const Snapshot& state, std::string_view pointer);
// The same as its JSON text, in which numbers are written as the backend wrote them.
std::optional<std::string> KeptTextAt(const Snapshot& state, std::string_view pointer);

// Whether all kept places have the same values, whatever order their members stand in.
bool HaveSamePlaces(const Snapshot& a, const Snapshot& b);

// Where `now` stands between the state before a write and what that write left.
enum class Drift {
  kUnchanged,  // it is what our write left
  kRestored,   // it is what was there before the write
  kChanged,    // somebody else has changed it
};
Drift DriftOf(const Snapshot& before, const Snapshot& ours, const Snapshot& now);

// Whether If-Match can ask for that version: a strong entity tag.
bool IsStrongTag(std::string_view version);

// The version that an entity tag of an answer in that content coding tells of. Each coding has a
// tag of its own (RFC 9110, section 8.8.3.3), so it goes with the tag unless it is none.
std::string VersionByTag(std::string_view tag, std::string_view coding);
// The tag as it came.
std::string_view TagOf(std::string_view version);

// What two versions say of the states that they are of.
enum class VersionMatch {
  kSame,
  kOther,
  kUnknown,  // one is not known, or they are tags of two codings
};
// Tags by weak comparison (section 8.8.3.2), as a server that codes an answer may weaken its tag,
// and without the name of the coding, which some servers put behind it.
VersionMatch MatchVersions(std::string_view a, std::string_view b);

// Whether `later` is counted one up from `earlier`: one write alone lies between. Of texts that
// look like a count, "v7": no times, no digests.
bool IsNextVersion(std::string_view earlier, std::string_view later);

}  // namespace recourse
