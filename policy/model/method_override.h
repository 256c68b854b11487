// Requests that ask the backend to take another method than the one that the policy judged.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

// True when the query (with or without its '?') has such a parameter: _method,
// X-HTTP-Method-Override and their relatives, in any spelling.
bool HasMethodOverride(std::string_view query);
bool IsOverrideName(std::string_view name);
// A header field, in lower case, by which frameworks take another method, or servers another path
// for their routing.
bool IsOverrideField(std::string_view name);

// The names that some reader takes from a part's Content-Disposition, or from another line of that
// form: in any quotes or none, of every `name`, extended and in pieces (RFC 2231). nullopt: there
// are more than kPartNamesMax, each of which may be as long as the line.
std::optional<std::vector<std::string>> PartNames(std::string_view line);

// Whether the type of a form says that its plain letters are ASCII ones: some readers decode UTF-7,
// UTF-16 and EBCDIC.
bool IsAsciiForm(std::string_view content_type);
// Whether it says that all of its text is UTF-8, or nothing.
bool IsUtf8Form(std::string_view content_type);

}  // namespace recourse
