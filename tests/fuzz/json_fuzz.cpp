// JSON that is accepted has one canonical text, which reads the same again.
#include <string>
#include <vector>

#include "proxy/base/json/json.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {

void FuzzOne(std::string_view bytes) {
  const auto value = ParseJson(bytes);
  if (!value) {
    RC_CHECK(!value.error().detail().empty());
    return;
  }
  const std::string canonical = CanonicalJson(*value);
  const auto again = ParseJson(canonical);
  RC_CHECK(again.has_value());
  RC_CHECK(CanonicalJson(*again) == canonical);
  // Leaving out what is not there changes nothing; leaving out a member leaves valid JSON.
  RC_CHECK(CanonicalJson(*value, {"/no/such/~0pointer"}) == canonical);
  if (!value->members.empty()) {
    std::string quoted;
    for (const char c : value->members.front().first) {
      quoted += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    }
    const auto less = ParseJson(CanonicalJson(*value, {"/" + quoted}));
    RC_CHECK(less && less->members.size() + 1 == value->members.size());
  }
}

}  // namespace recourse
