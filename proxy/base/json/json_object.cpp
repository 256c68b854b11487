#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

bool AppendItems(std::string& out, const Json& value, std::size_t bytes_max) {
  JsonList list(out);
  for (const Json& item : value.items) {
    if (!AppendPlainJson(list.Value(), item, bytes_max)) return false;
  }
  return true;
}

bool AppendMembersOf(std::string& out, const Json& value, std::size_t bytes_max) {
  JsonObject object(out);
  for (const auto& [name, member] : value.members) {
    if (!AppendPlainJson(object.ForeignValue(name), member, bytes_max)) return false;
  }
  return true;
}

}  // namespace

bool AppendPlainJson(std::string& out, const Json& value, std::size_t bytes_max) {
  if (out.size() > bytes_max) return false;
  switch (value.kind) {
    case Json::Kind::kNull:
      out += "null";
      return true;
    case Json::Kind::kFalse:
    case Json::Kind::kTrue:
      out += ScalarText(value);
      return true;
    case Json::Kind::kNumber: {
      const std::string plain = ScalarText(value);
      out += plain.empty() ? value.text : plain;
      return true;
    }
    case Json::Kind::kString:
      AppendJsonString(out, value.text);
      return true;
    case Json::Kind::kArray:
      return AppendItems(out, value, bytes_max);
    case Json::Kind::kObject:
      return AppendMembersOf(out, value, bytes_max);
  }
  return true;
}

}  // namespace recourse
