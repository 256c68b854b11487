#include "policy/import/schema_reader.h"

#include <algorithm>

#include "policy/import/import_text.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Also what ends a schema that holds itself.
constexpr int kSchemaDepthMax = 4;

std::string UnescapedToken(std::string_view token) {
  std::string decoded;
  if (!PercentDecode(token, decoded)) decoded = token;
  std::string out;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const bool is_escape = decoded[i] == '~' && i + 1 < decoded.size();
    out.push_back(is_escape ? (decoded[++i] == '1' ? '/' : '~') : decoded[i]);
  }
  return out;
}

// OpenAPI 3.1 lists a type and null.
bool IsArrayType(const YamlNode& schema) {
  const YamlNode* const type = schema.Find("type");
  if (type == nullptr) return schema.Find("items") != nullptr;
  return type->text == "array" ||
         std::ranges::any_of(type->items, [](const YamlNode& one) { return one.text == "array"; });
}

}  // namespace

std::string DescribedText(const YamlNode* node) {
  return node != nullptr && node->kind == YamlNode::Kind::kScalar ? node->text : std::string();
}

const YamlNode* SchemaReader::Resolve(const YamlNode* node) const {
  for (int hops = 0; node != nullptr && hops < limits::kImportedDepthMax; ++hops) {
    const YamlNode* ref = node->kind == YamlNode::Kind::kMap ? node->Find("$ref") : nullptr;
    if (ref == nullptr || ref->kind != YamlNode::Kind::kScalar) return node;
    node = Follow(ref->text);
  }
  return nullptr;
}

const YamlNode* SchemaReader::Follow(std::string_view ref) const {
  if (!ref.starts_with("#/")) {
    note_("the reference " + std::string(ref) + " leads out of this file and was not read");
    return nullptr;
  }
  const YamlNode* node = &root_;
  ref.remove_prefix(2);
  for (;;) {
    const auto end = ref.find('/');
    const std::string token = UnescapedToken(ref.substr(0, end));
    node = node->kind == YamlNode::Kind::kMap ? node->Find(token) : nullptr;
    if (node == nullptr) {
      note_("a reference leads to nothing: " + token);
      return nullptr;
    }
    if (end == std::string_view::npos) return node;
    ref.remove_prefix(end + 1);
  }
}

SchemaReader::Content SchemaReader::ContentOf(const YamlNode* holder) const {
  const YamlNode* content = holder == nullptr ? nullptr : holder->Find("content");
  if (content == nullptr || content->kind != YamlNode::Kind::kMap) return {};
  for (const auto& member : content->members) {
    const std::string media = ToLower(member.name.substr(0, member.name.find(';')));
    const bool is_form = media == "application/x-www-form-urlencoded";
    if (is_form || media == "application/json" || media.ends_with("+json") || media == "*/*") {
      return {Resolve(member.value.Find("schema")), is_form};
    }
  }
  return {};
}

std::vector<std::string> SchemaReader::RequiredIds(const YamlNode* schema) const {
  std::vector<std::string> ids;
  CollectIds(schema, "", 0, ids);
  return ids;
}

void SchemaReader::CollectIds(const YamlNode* schema, const std::string& pointer, int depth,
                              std::vector<std::string>& ids) const {
  if (schema == nullptr || depth > kSchemaDepthMax || schema->kind != YamlNode::Kind::kMap) return;
  if (const YamlNode* all = schema->Find("allOf")) {
    for (const YamlNode& part : all->items) CollectIds(Resolve(&part), pointer, depth + 1, ids);
  }
  if (schema->Find("oneOf") != nullptr || schema->Find("anyOf") != nullptr) {
    note_("the body has alternatives (oneOf, anyOf), which were not looked into");
  }
  const YamlNode* required = schema->Find("required");
  const YamlNode* properties = schema->Find("properties");
  if (required == nullptr || properties == nullptr) return;
  for (const YamlNode& name : required->items) {
    const YamlNode* property = Resolve(properties->Find(name.text));
    if (property == nullptr) continue;
    const std::string place = pointer + "/" + PointerToken(name.text);
    if (property->Find("properties") != nullptr) {
      CollectIds(property, place, depth + 1, ids);
    } else if (LooksLikeIdName(name.text) && DescribedText(property->Find("type")) != "array") {
      if (std::ranges::find(ids, place) == ids.end()) ids.push_back(place);
    }
  }
}

std::set<std::string> SchemaReader::Members(const YamlNode* schema, Wanted wanted) const {
  std::set<std::string> names;
  CollectMembers(schema, wanted, 0, names);
  return names;
}

void SchemaReader::CollectMembers(const YamlNode* schema, Wanted wanted, int depth,
                                  std::set<std::string>& names) const {
  if (schema == nullptr || depth > kSchemaDepthMax || schema->kind != YamlNode::Kind::kMap) return;
  if (const YamlNode* all = schema->Find("allOf")) {
    for (const YamlNode& part : all->items) {
      CollectMembers(Resolve(&part), wanted, depth + 1, names);
    }
  }
  const YamlNode* properties = schema->Find("properties");
  if (properties == nullptr) return;
  for (const auto& member : properties->members) {
    const YamlNode* const property = Resolve(&member.value);
    const bool is_read_only =
        property != nullptr && DescribedText(property->Find("readOnly")) == "true";
    const bool is_it = wanted == Wanted::kSecret ? HoldsSecret(member.name, property, depth)
                                                 : wanted == Wanted::kAll || !is_read_only;
    if (is_it) names.insert(member.name);
  }
}

bool SchemaReader::HoldsSecret(const std::string& name, const YamlNode* schema, int depth) const {
  static constexpr std::string_view kEndings[] = {
      "secret",      "password", "passwd",  "passphrase", "token",       "credential",
      "credentials", "apikey",   "api_key", "access_key", "private_key", "pin"};
  const std::string lower = ToLower(name);
  if (std::ranges::any_of(kEndings, [&](std::string_view end) { return lower.ends_with(end); })) {
    return true;
  }
  if (schema == nullptr || schema->kind != YamlNode::Kind::kMap) return false;
  if (DescribedText(schema->Find("writeOnly")) == "true") return true;
  if (DescribedText(schema->Find("format")) == "password") return true;
  std::set<std::string> below;
  CollectMembers(schema, Wanted::kSecret, depth + 1, below);
  return !below.empty();
}

std::optional<std::string> SchemaReader::ListIn(const YamlNode* schema) const {
  if (schema == nullptr || schema->kind != YamlNode::Kind::kMap) return std::nullopt;
  if (IsArrayType(*schema)) return "";
  const YamlNode* const properties = schema->Find("properties");
  if (properties == nullptr) return std::nullopt;
  std::optional<std::string> found;
  for (const auto& member : properties->members) {
    const YamlNode* const property = Resolve(&member.value);
    if (property == nullptr || property->kind != YamlNode::Kind::kMap || !IsArrayType(*property)) {
      continue;
    }
    if (found) return std::nullopt;  // which one it is, nobody says
    found = "/" + PointerToken(member.name);
  }
  return found;
}

}  // namespace recourse
