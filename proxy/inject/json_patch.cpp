#include "proxy/inject/json_patch.h"

#include <utility>

#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

void Append(std::string& out, const Json& value) {
  switch (value.kind) {
    case Json::Kind::kString:
      AppendJsonString(out, value.text);
      return;
    case Json::Kind::kNull:
      out += "null";
      return;
    case Json::Kind::kArray:
      out.push_back('[');
      for (const Json& item : value.items) {
        if (out.back() != '[') out.push_back(',');
        Append(out, item);
      }
      out.push_back(']');
      return;
    case Json::Kind::kObject:
      out.push_back('{');
      for (const auto& [name, member] : value.members) {
        if (&name != &value.members.front().first) out.push_back(',');
        AppendJsonString(out, name);
        out.push_back(':');
        Append(out, member);
      }
      out.push_back('}');
      return;
    case Json::Kind::kNumber:
    case Json::Kind::kTrue:
    case Json::Kind::kFalse:
      out += ScalarText(value);
      return;
  }
}

}  // namespace

Json JsonText(std::string_view text) {
  Json json;
  json.kind = Json::Kind::kString;
  json.text = text;
  return json;
}

Json JsonArray(std::vector<Json> items) {
  Json json;
  json.kind = Json::Kind::kArray;
  json.items = std::move(items);
  return json;
}

std::string PlainJson(const Json& value) {
  std::string out;
  Append(out, value);
  return out;
}

void JsonPatch::Add(std::string_view pointer, const Json& value) {
  if (!operations_.empty()) operations_.push_back(',');
  JsonObject operation(operations_);
  operation.Text("op", "add");
  operation.Text("path", pointer);
  operation.Raw("value", PlainJson(value));
}

}  // namespace recourse
