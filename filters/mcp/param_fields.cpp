#include "filters/mcp/param_fields.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "proxy/base/crypto/base64url.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/message_limits.h"

namespace recourse {
namespace {

constexpr std::string_view kDeclaration = "x-mcp-header";
constexpr std::array<std::string_view, 4> kTypes{"string", "integer", "boolean", "number"};

// In whatever place, also where none may be.
std::size_t CountDeclarations(const Json& schema) {
  std::size_t count = 0;
  for (const Json& item : schema.items) count += CountDeclarations(item);
  for (const auto& [name, value] : schema.members) {
    count += (name == kDeclaration ? 1 : 0) + CountDeclarations(value);
  }
  return count;
}

// Of properties, and properties of these.
void Collect(const Json& schema, const std::string& at, std::vector<ParamField>& fields) {
  const Json* const properties = schema.Find("properties");
  if (properties == nullptr) return;
  for (const auto& [name, property] : properties->members) {
    const std::string pointer = at + "/" + PointerToken(name);
    const std::string_view field = TextAt(property, "/" + std::string(kDeclaration));
    const std::string_view type = TextAt(property, "/type");
    const bool is_good = IsToken(field) && std::ranges::find(kTypes, type) != kTypes.end();
    if (is_good) fields.push_back({"Mcp-Param-" + std::string(field), pointer});
    Collect(property, pointer, fields);
  }
}

bool HasTwins(const std::vector<ParamField>& fields) {
  for (auto one = fields.begin(); one != fields.end(); ++one) {
    const bool is_twice = std::any_of(one + 1, fields.end(), [&](const ParamField& other) {
      return EqualsIgnoreCase(other.name, one->name);
    });
    if (is_twice) return true;
  }
  return false;
}

// Whether `said` is the number, however either is written.
bool IsNumber(const Json& number, const std::string& said) {
  const auto read = ParseJson(said);
  return read && read->kind == Json::Kind::kNumber && CanonicalJson(*read) == CanonicalJson(number);
}

// Numbers that JavaScript cannot hold are repeated by no client.
bool IsExactForAll(const Json& number) {
  constexpr std::size_t kDigits = 15;
  return static_cast<std::size_t>(std::ranges::count_if(
             number.text, [](char c) { return c >= '0' && c <= '9'; })) <= kDigits;
}

bool Repeats(const Json& argument, const std::string& said) {
  switch (argument.kind) {
    case Json::Kind::kString:
      return said == argument.text;
    case Json::Kind::kTrue:
      return said == "true";
    case Json::Kind::kFalse:
      return said == "false";
    case Json::Kind::kNumber:
      return IsNumber(argument, said);
    default:
      return true;
  }
}

bool IsRepeated(const Json& argument) {
  return argument.is_scalar() && argument.kind != Json::Kind::kNull &&
         (argument.kind != Json::Kind::kNumber || IsExactForAll(argument));
}

}  // namespace

std::vector<ParamField> ParamFieldsOf(const Json& schema) {
  std::vector<ParamField> fields;
  Collect(schema, {}, fields);
  const bool is_good = fields.size() <= limits::kParamFieldsMax &&
                       fields.size() == CountDeclarations(schema) && !HasTwins(fields);
  if (!is_good) fields.clear();
  return fields;
}

std::string ParamMismatch(const std::vector<ParamField>& fields, const Json& arguments,
                          const Headers& headers) {
  for (const auto& [name, pointer] : fields) {
    const Json* const argument = AtPointer(arguments, pointer);
    if (argument == nullptr || !IsRepeated(*argument)) continue;
    const std::string* const value = FindHeader(headers, name);
    if (value == nullptr) return name + " is missing";
    const auto said = DecodedField(*value);
    if (!said || !Repeats(*argument, *said)) return name + " says something else than the body";
  }
  return {};
}

std::optional<std::string> DecodedField(std::string_view value) {
  constexpr std::string_view kOpen = "=?base64?", kClose = "?=";
  const bool is_wrapped = value.size() >= kOpen.size() + kClose.size() &&
                          value.starts_with(kOpen) && value.ends_with(kClose);
  if (!is_wrapped) return std::string(value);
  std::string digits(value.substr(kOpen.size(), value.size() - kOpen.size() - kClose.size()));
  if (digits.size() % 4 != 0 || digits.find_first_of("-_") != std::string::npos) {
    return std::nullopt;
  }
  while (digits.ends_with('=')) digits.pop_back();
  std::replace(digits.begin(), digits.end(), '+', '-');
  std::replace(digits.begin(), digits.end(), '/', '_');
  return FromBase64Url(digits);
}

}  // namespace recourse
