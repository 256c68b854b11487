// A path has one canonical form, which has no second reading, or none at all.
#include <algorithm>
#include <string>

#include "policy/model/method_override.h"
#include "policy/model/override_scan.h"
#include "policy/uri/path.h"
#include "policy/uri/path_readings.h"
#include "proxy/base/limits.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {
namespace {

// However a form is cut into pieces, an override in it is seen or not.
void CheckForm(std::string_view type, std::string_view bytes) {
  OverrideScan whole(type);
  OverrideScan pieces(type);
  bool is_seen = false;
  for (std::size_t at = 0; at < bytes.size() && !is_seen; at += 3) {
    is_seen = pieces.Feed(bytes.substr(at, 3));
  }
  RC_CHECK(whole.Feed(bytes) == is_seen);
}

// However a path is read, that is bounded, and gives paths.
void CheckReadings(std::string_view bytes) {
  std::string scratch;
  const auto form = FormOf(bytes, scratch);
  if (!form) return;
  const auto readings = PathReadings(bytes);
  if (!readings) {
    RC_CHECK(!form->doubt.empty() && !readings.error().detail().empty());
    return;
  }
  RC_CHECK(!readings->empty() && readings->size() <= limits::kPathReadingsMax);
  RC_CHECK(std::ranges::find(*readings, form->path, &PathReading::path) != readings->end());
  RC_CHECK(!form->doubt.empty() || readings->size() <= 2);
  for (const PathReading& one : *readings) RC_CHECK(one.path.starts_with('/'));
}

}  // namespace

void FuzzOne(std::string_view bytes) {
  CheckReadings(bytes);
  std::string scratch;
  const auto canonical = CanonicalPath(bytes, scratch);
  (void)HasMethodOverride(bytes);
  CheckForm("application/x-www-form-urlencoded", bytes);
  CheckForm("multipart/form-data; boundary=x", bytes);
  if (IsPathValue(bytes)) {
    RC_CHECK(bytes.find_first_of("/\\?#%;") == std::string_view::npos);
  }
  if (!canonical) {
    RC_CHECK(!canonical.error().detail().empty());
    return;
  }
  const std::string text(*canonical);
  RC_CHECK(!text.empty() && text.front() == '/' && text.size() <= bytes.size());
  for (const std::string_view refused : {"//", "/./", "/../", "%2F", "%2E", "%5C", "%25", "%00"}) {
    RC_CHECK(text.find(refused) == std::string::npos);
  }
  for (const char c : text) RC_CHECK(c > ' ' && c < '\x7f' && c != '\\' && c != '?' && c != '#');
  std::string scratch_again;
  const auto again = CanonicalPath(text, scratch_again);
  RC_CHECK(again && *again == text);
}

}  // namespace recourse
