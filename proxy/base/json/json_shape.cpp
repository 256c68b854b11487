#include "proxy/base/json/json_shape.h"

namespace recourse {
namespace {

std::string SchemaOf(const MemberDoc& doc) {
  std::string schema = doc.made != nullptr           ? doc.made()
                       : doc.schema.starts_with('{') ? std::string(doc.schema)
                                                     : SchemaReference(doc.schema);
  if (doc.is_list) {
    schema = ObjectText([&](JsonObject& json) {
      json.Text("type", "array");
      json.Raw("items", schema);
    });
  }
  if (!doc.text.empty()) {
    AppendMembers(schema, [&](JsonObject& json) { json.Text("description", doc.text); });
  }
  return schema;
}

void WriteMembersOf(JsonObject& json, const JsonShape& shape) {
  if (shape.members.empty()) return;
  {
    JsonObject properties = json.Object("properties");
    for (const MemberDoc& doc : shape.members) properties.Raw(doc.name, SchemaOf(doc));
  }
  JsonList required = json.List("required");
  for (const MemberDoc& doc : shape.members) {
    if (!doc.may_lack) required.Text(doc.name);
  }
}

}  // namespace

std::string SchemaReference(std::string_view name) {
  return ObjectText([&](JsonObject& json) {
    json.Text("$ref", std::string("#/components/schemas/").append(name));
  });
}

std::string SchemaOf(const JsonShape& shape) {
  return ObjectText([&](JsonObject& json) {
    json.TextIfAny("description", shape.text);
    if (!shape.any_of.empty()) {
      return json.Each("anyOf", shape.any_of,
                       [](std::string& out, const std::string& schema) { out += schema; });
    }
    json.Text("type", "object");
    if (!shape.base.empty()) {
      JsonList all = json.List("allOf");
      all.Value() += SchemaReference(shape.base);
    }
    WriteMembersOf(json, shape);
    if (!shape.is_base) {
      json.Bool(shape.base.empty() ? "additionalProperties" : "unevaluatedProperties", false);
    }
  });
}

}  // namespace recourse
