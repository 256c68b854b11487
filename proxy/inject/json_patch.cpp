#include "proxy/inject/json_patch.h"

#include <utility>

#include "proxy/base/json/json_object.h"

namespace recourse {
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
  AppendPlainJson(out, value);
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
