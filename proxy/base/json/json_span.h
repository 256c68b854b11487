// Where a value stands in a JSON text, for changing it without touching the rest.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace recourse {

struct JsonSpan {
  std::size_t at = 0;
  std::size_t size = 0;
};

// The text of the value at `pointer` (RFC 6901), nullopt when nothing is there. ParseJson must have
// taken `text`.
std::optional<JsonSpan> FindJsonSpan(std::string_view text, std::string_view pointer);

// The same of the whole member, with its name; of an object's only.
std::optional<JsonSpan> FindJsonMember(std::string_view text, std::string_view pointer);

// The name of a member as a part of a pointer (RFC 6901 section 3).
std::string PointerToken(std::string_view name);
// The other way round: of one token.
std::string MemberName(std::string_view token);

// The same JSON text without blanks and with texts escaped as AppendJsonString does; numbers stay
// as they were written. ParseJson must have taken `text`.
std::string PlainJsonText(std::string_view text);

}  // namespace recourse
