// The canonical form of a request path, and what has no canonical form. Pure.
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/error.h"

namespace recourse {

// `path` is the target without query. Yields `path` itself when it is canonical already, else a
// view of `scratch`: escaped unreserved characters are decoded, other escapes get upper-case
// digits. Fails with kMalformedRequest, kAmbiguousPath or kTargetTooLong and a static reason on
// whatever another server may read in another way: dot segments, empty segments (one trailing slash
// is kept), slashes, backslashes, percent signs, ';', '?', '#' or controls behind an escape,
// malformed escapes, invalid UTF-8, look-alikes of separators, invisible characters.
Result<std::string_view> CanonicalPath(std::string_view path, std::string& scratch);

// True when `value` may stand in a path segment: not empty, one reading, printable ASCII, and not a
// wildcard ("*", "all") that a backend could take for the whole collection.
bool IsPathValue(std::string_view value);

// The form in which readings of a canonical path are compared: lower-case outside of escapes, and
// no escape of a character that may stand unescaped (%3A and ':' are one to most backends).
std::string FoldPath(std::string_view path);

}  // namespace recourse
