#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <set>

#include "policy/import/import_text.h"
#include "policy/import/openapi.h"
#include "policy/language/yaml_reader.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, 7> kMethods{"get", "head",  "options", "post",
                                                   "put", "patch", "delete"};

std::string ScalarOf(const YamlNode* node) {
  return node != nullptr && node->kind == YamlNode::Kind::kScalar ? node->text : std::string();
}

std::string Unescaped(std::string_view token) {
  std::string decoded;
  if (!PercentDecode(token, decoded)) decoded = token;
  std::string out;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const bool is_escape = decoded[i] == '~' && i + 1 < decoded.size();
    out.push_back(is_escape ? (decoded[++i] == '1' ? '/' : '~') : decoded[i]);
  }
  return out;
}

bool LooksLikeKeyHeader(std::string_view name) {
  const std::string lower = ToLower(name);
  return lower.find("idempot") != std::string::npos || lower == "paypal-request-id";
}

class ApiReader {
 public:
  explicit ApiReader(const YamlNode& root) : root_(root) {}

  ApiDescription Read() {
    const YamlNode* info = root_.Find("info");
    api_.title = ScalarOf(info == nullptr ? nullptr : info->Find("title"));
    const std::size_t standard = ReadServers(root_.Find("servers"), 0);
    const YamlNode* paths = root_.Find("paths");
    if (paths == nullptr || paths->kind != YamlNode::Kind::kMap || paths->members.empty()) {
      api_.notes.emplace_back("the description has no paths");
      return std::move(api_);
    }
    if (api_.servers.empty()) api_.servers.emplace_back("/");
    for (const auto& member : paths->members) ReadPath(member.name, member.value, standard);
    return std::move(api_);
  }

 private:
  // The node itself, or what its $ref names; nullptr when that cannot be followed.
  const YamlNode* Resolve(const YamlNode* node) {
    for (int hops = 0; node != nullptr && hops < limits::kImportedDepthMax; ++hops) {
      const YamlNode* ref = node->kind == YamlNode::Kind::kMap ? node->Find("$ref") : nullptr;
      if (ref == nullptr || ref->kind != YamlNode::Kind::kScalar) return node;
      node = Follow(ref->text);
    }
    return nullptr;
  }
  const YamlNode* Follow(std::string_view ref) {
    if (!ref.starts_with("#/")) {
      Note("the reference " + std::string(ref) + " leads out of this file and was not read");
      return nullptr;
    }
    const YamlNode* node = &root_;
    ref.remove_prefix(2);
    for (;;) {
      const auto end = ref.find('/');
      const std::string token = Unescaped(ref.substr(0, end));
      node = node->kind == YamlNode::Kind::kMap ? node->Find(token) : nullptr;
      if (node == nullptr) {
        Note("a reference leads to nothing: " + token);
        return nullptr;
      }
      if (end == std::string_view::npos) return node;
      ref.remove_prefix(end + 1);
    }
  }
  void Note(std::string text) {
    auto& notes = operation_ == nullptr ? api_.notes : operation_->notes;
    if (std::ranges::find(notes, text) == notes.end()) notes.push_back(std::move(text));
  }

  // The index of the first server; the others are told.
  std::size_t ReadServers(const YamlNode* servers, std::size_t standard) {
    if (servers == nullptr || servers->kind != YamlNode::Kind::kList || servers->items.empty()) {
      return standard;
    }
    std::string url = ServerUrl(servers->items.front());
    for (std::size_t i = 1; i < servers->items.size(); ++i) {
      Note("another server: " + ServerUrl(servers->items[i]));
    }
    const auto known = std::ranges::find(api_.servers, url);
    const auto index = static_cast<std::size_t>(known - api_.servers.begin());
    if (known == api_.servers.end()) api_.servers.push_back(std::move(url));
    return index;
  }
  std::string ServerUrl(const YamlNode& server) {
    std::string url = ScalarOf(server.Find("url"));
    const YamlNode* variables = server.Find("variables");
    if (variables == nullptr) return url;
    for (const auto& member : variables->members) {
      const std::string hole = "{" + member.name + "}";
      if (const auto at = url.find(hole); at != std::string::npos) {
        url.replace(at, hole.size(), ScalarOf(member.value.Find("default")));
      }
    }
    return url;
  }

  void ReadPath(const std::string& path, const YamlNode& node, std::size_t standard) {
    const YamlNode* item = Resolve(&node);
    if (item == nullptr || item->kind != YamlNode::Kind::kMap || !path.starts_with('/')) return;
    const std::size_t server = ReadServers(item->Find("servers"), standard);
    for (const std::string_view method : kMethods) {
      const YamlNode* operation = item->Find(method);
      if (operation == nullptr || operation->kind != YamlNode::Kind::kMap) continue;
      if (api_.operations.size() >= limits::kImportedToolsMax) {
        Note("only the first " + std::to_string(limits::kImportedToolsMax) +
             " operations are here");
        return;
      }
      ApiOperation made;
      operation_ = &made;
      made.method = std::string(method);
      std::ranges::transform(made.method, made.method.begin(),
                             [](char c) { return static_cast<char>(c - 'a' + 'A'); });
      made.path = path;
      made.id = ScalarOf(operation->Find("operationId"));
      made.summary = ScalarOf(operation->Find("summary"));
      made.server = ReadServers(operation->Find("servers"), server);
      ReadParameters(item->Find("parameters"));
      ReadParameters(operation->Find("parameters"));
      ReadBody(operation->Find("requestBody"));
      ReadAnswers(operation->Find("responses"));
      operation_ = nullptr;
      api_.operations.push_back(std::move(made));
    }
  }

  void ReadParameters(const YamlNode* parameters) {
    if (parameters == nullptr) return;
    for (const YamlNode& item : parameters->items) {
      const YamlNode* parameter = Resolve(&item);
      if (parameter == nullptr || ScalarOf(parameter->Find("in")) != "header") continue;
      const std::string name = ScalarOf(parameter->Find("name"));
      if (LooksLikeKeyHeader(name)) operation_->key_headers.push_back(name);
    }
  }

  // The schema of the first JSON or form content.
  const YamlNode* SchemaOf(const YamlNode* holder) {
    const YamlNode* content = holder == nullptr ? nullptr : holder->Find("content");
    if (content == nullptr || content->kind != YamlNode::Kind::kMap) return nullptr;
    for (const auto& member : content->members) {
      const std::string media = ToLower(member.name.substr(0, member.name.find(';')));
      if (media == "application/json" || media.ends_with("+json") || media == "*/*" ||
          media == "application/x-www-form-urlencoded") {
        return Resolve(member.value.Find("schema"));
      }
    }
    return nullptr;
  }

  void ReadBody(const YamlNode* node) {
    const YamlNode* body = Resolve(node);
    if (body == nullptr) return;
    operation_->has_body = true;
    const YamlNode* schema = SchemaOf(body);
    if (schema == nullptr) {
      Note("the body is neither JSON nor a form that could be read");
      return;
    }
    CollectIds(schema, "", 0);
  }

  // Required members that look like ids, of this object and of required objects in it.
  void CollectIds(const YamlNode* schema, const std::string& pointer, int depth) {
    if (schema == nullptr || depth > kBodyDepth || schema->kind != YamlNode::Kind::kMap) return;
    if (const YamlNode* all = schema->Find("allOf")) {
      for (const YamlNode& part : all->items) CollectIds(Resolve(&part), pointer, depth + 1);
    }
    if (schema->Find("oneOf") != nullptr || schema->Find("anyOf") != nullptr) {
      Note("the body has alternatives (oneOf, anyOf), which were not looked into");
    }
    const YamlNode* required = schema->Find("required");
    const YamlNode* properties = schema->Find("properties");
    if (required == nullptr || properties == nullptr) return;
    for (const YamlNode& name : required->items) {
      const YamlNode* property = Resolve(properties->Find(name.text));
      if (property == nullptr) continue;
      const std::string place = pointer + "/" + PointerToken(name.text);
      const bool is_object = property->Find("properties") != nullptr;
      if (is_object) {
        CollectIds(property, place, depth + 1);
      } else if (LooksLikeIdName(name.text) && ScalarOf(property->Find("type")) != "array") {
        auto& ids = operation_->body_ids;
        if (std::ranges::find(ids, place) == ids.end()) ids.push_back(place);
      }
    }
  }

  void ReadAnswers(const YamlNode* answers) {
    if (answers == nullptr || operation_->method != "POST") return;
    for (const std::string_view status : {"201", "200", "202"}) {
      const YamlNode* answer = Resolve(answers->Find(status));
      if (answer == nullptr) continue;
      std::set<std::string> names;
      CollectNames(SchemaOf(answer), names, 0);
      if (names.contains("id")) return;
      for (const std::string& name : names) {
        if (!LooksLikeIdName(name)) continue;
        operation_->answer_ref = "answer.body#/" + PointerToken(name);
        return;
      }
      const YamlNode* headers = answer->Find("headers");
      if (headers != nullptr && headers->Find("Location") != nullptr) {
        operation_->answer_ref = "answer.header.Location";
        return;
      }
    }
  }
  void CollectNames(const YamlNode* schema, std::set<std::string>& names, int depth) {
    if (schema == nullptr || depth > kBodyDepth || schema->kind != YamlNode::Kind::kMap) return;
    if (const YamlNode* all = schema->Find("allOf")) {
      for (const YamlNode& part : all->items) CollectNames(Resolve(&part), names, depth + 1);
    }
    const YamlNode* properties = schema->Find("properties");
    if (properties == nullptr) return;
    for (const auto& member : properties->members) names.insert(member.name);
  }

  // Also what ends a schema that holds itself.
  static constexpr int kBodyDepth = 4;

  const YamlNode& root_;
  ApiDescription api_;
  ApiOperation* operation_ = nullptr;  // the one being read
};

// The value of "\uXXXX" at `at`, or 0.
std::uint32_t EscapedUnit(std::string_view text, std::size_t at) {
  std::uint32_t unit = 0;
  const std::string_view digits = text.substr(std::min(at + 2, text.size()), 4);
  if (!text.substr(at).starts_with("\\u") || digits.size() != 4) return 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
  return read.ptr == digits.data() + digits.size() ? unit : 0;
}

// JSON writes what is beyond U+FFFF as two escapes, YAML as one.
std::string JoinSurrogates(std::string_view text) {
  constexpr std::size_t kEscape = 6;
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find('\\'), text.size());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    const std::uint32_t high = EscapedUnit(text, 0);
    const std::uint32_t low = EscapedUnit(text, std::min(kEscape, text.size()));
    if (high >= 0xd800 && high <= 0xdbff && low >= 0xdc00 && low <= 0xdfff) {
      out += fmt::format("\\U{:08x}", 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
      text.remove_prefix(2 * kEscape);
    } else {
      out += text.substr(0, 2);  // also a backslash that is escaped itself
      text.remove_prefix(std::min<std::size_t>(2, text.size()));
    }
  }
  return out;
}

// Descriptions are written on all kinds of machines, and JSON may be indented with tabs.
void Normalize(std::string& text) {
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  std::erase(text, '\r');
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos || text[first] != '{') return;
  std::ranges::replace(text, '\t', ' ');
  text = JoinSurrogates(text);
}

}  // namespace

std::expected<ApiDescription, std::string> ReadOpenApi(const std::string& name, std::string text) {
  Normalize(text);
  Problems problems;
  const YamlNode root = ReadYaml(problems.AddFile(name), text, problems, limits::kImportedBytesMax);
  if (problems.has_errors()) return std::unexpected(problems.Take().front().ToString());
  if (root.kind != YamlNode::Kind::kMap) {
    return std::unexpected(name + ": is no OpenAPI description: a map is expected");
  }
  if (root.Find("swagger") != nullptr) {
    return std::unexpected(name + ": is Swagger " + ScalarOf(root.Find("swagger")) +
                           "; convert it to OpenAPI 3 first, with swagger2openapi for example");
  }
  const std::string version = ScalarOf(root.Find("openapi"));
  if (!version.starts_with("3.0") && !version.starts_with("3.1")) {
    if (version.empty()) {
      return std::unexpected(name +
                             ": is no OpenAPI description: it has no `openapi: 3.0.x` or 3.1.x");
    }
    return std::unexpected(name + ": `openapi: " + version +
                           "` is not understood; accepted: 3.0 and 3.1");
  }
  ApiDescription api = ApiReader(root).Read();
  if (api.operations.empty()) {
    return std::unexpected(name + ": describes no operation, so there is nothing to write");
  }
  return api;
}

}  // namespace recourse
