// The canonical form of a request path, and what has no canonical form. Pure.
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/error.h"

namespace recourse {

// A path in the form in which paths are compared.
struct PathForm {
  // The path itself when it has that form already, else a view of the scratch: escaped unreserved
  // characters are decoded, other escapes have upper-case digits.
  std::string_view path;
  // Why another server may read it in another way (PathReadings), static; empty: none does. Dot
  // segments, empty segments (one trailing slash is none), parameters (';'), and slashes,
  // backslashes, percent signs, ';', '?' or '#' behind an escape.
  std::string_view doubt;
};

// `path` is the target without query. Fails with kMalformedRequest, kAmbiguousPath or
// kTargetTooLong and a static reason on what nobody needs: escaped controls, malformed escapes,
// invalid UTF-8, look-alikes of separators, invisible characters.
Result<PathForm> FormOf(std::string_view path, std::string& scratch);

// The same for paths of the policy, which must have one reading: a doubt is kAmbiguousPath.
Result<std::string_view> CanonicalPath(std::string_view path, std::string& scratch);

// Dots, and spaces between or behind them: Windows servers leave both away at the end of a segment,
// so ".. " is ".." to them. True for the empty segment.
bool IsDots(std::string_view segment);

// What a backend could take for the whole collection, or for more of it than one thing: "all", or
// with a '*' in it.
bool IsWildcard(std::string_view value);

// True when `value` may stand in a path segment: not empty, one reading, printable ASCII, and not a
// wildcard ("*", "all") that a backend could take for the whole collection.
bool IsPathValue(std::string_view value);
// The same of every piece between the slashes of `value`.
bool IsPathOfValues(std::string_view value);

// To a server that takes %2F for a part of its segment: `path`, in the form in which paths are
// compared, with a character in place of each that no server decodes. Empty: it has none, or one
// beside which something is missing or is a dot segment, so that whoever decodes it comes to
// another place.
std::string WithHiddenSlashes(std::string_view path);

// The form in which readings of a canonical path are compared: the skeleton of its text (twins.h),
// and no escape of a character that may stand unescaped (%3A and ':' are one to most backends).
std::string FoldPath(std::string_view path);

}  // namespace recourse
