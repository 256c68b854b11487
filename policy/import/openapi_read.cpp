#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "policy/effects/overlay.h"
#include "policy/import/import_text.h"
#include "policy/import/openapi.h"
#include "policy/import/schema_reader.h"
#include "policy/language/config_reader.h"
#include "policy/model/tool_names.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, 7> kMethods{"get", "head",  "options", "post",
                                                   "put", "patch", "delete"};

bool LooksLikeKeyHeader(std::string_view name) {
  const std::string lower = ToLower(name);
  return lower.find("idempot") != std::string::npos || lower == "paypal-request-id";
}

class ApiReader {
 public:
  ApiReader(const YamlNode& root, ApiDescription& api)
      : root_(root),
        api_(api),
        schemas_(root, [this](std::string text) { Note(std::move(text)); }) {}

  void Read() {
    const YamlNode* info = root_.Find("info");
    api_.title = DescribedText(info == nullptr ? nullptr : info->Find("title"));
    const std::size_t standard = ReadServers(root_.Find("servers"), 0);
    const YamlNode* paths = root_.Find("paths");
    if (paths == nullptr || paths->kind != YamlNode::Kind::kMap || paths->members.empty()) {
      api_.notes.emplace_back("the description has no paths");
      return;
    }
    if (api_.servers.empty()) api_.servers.emplace_back("/");
    for (const auto& member : paths->members) ReadPath(member.name, member.value, standard);
  }

 private:
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
    std::string url = DescribedText(server.Find("url"));
    const YamlNode* variables = server.Find("variables");
    if (variables == nullptr) return url;
    for (const auto& member : variables->members) {
      const std::string hole = "{" + member.name + "}";
      if (const auto at = url.find(hole); at != std::string::npos) {
        url.replace(at, hole.size(), DescribedText(member.value.Find("default")));
      }
    }
    return url;
  }

  void ReadPath(const std::string& path, const YamlNode& node, std::size_t standard) {
    const YamlNode* item = schemas_.Resolve(&node);
    if (item == nullptr || item->kind != YamlNode::Kind::kMap || !path.starts_with('/')) return;
    const std::size_t server = ReadServers(item->Find("servers"), standard);
    RefuseLookAlikes(*item, "paths." + path, false);
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
      made.id = DescribedText(operation->Find("operationId"));
      made.summary = DescribedText(operation->Find("summary"));
      made.server = ReadServers(operation->Find("servers"), server);
      ReadParameters(item->Find("parameters"));
      ReadParameters(operation->Find("parameters"));
      ReadBody(operation->Find("requestBody"));
      ReadAnswers(operation->Find("responses"));
      ReadEffect(*operation, "paths." + path + '.' + std::string(method));
      operation_ = nullptr;
      api_.operations.push_back(std::move(made));
    }
  }

  void ReadParameters(const YamlNode* parameters) {
    if (parameters == nullptr) return;
    for (const YamlNode& item : parameters->items) {
      const YamlNode* parameter = schemas_.Resolve(&item);
      if (parameter == nullptr) continue;
      const std::string in = DescribedText(parameter->Find("in"));
      const std::string name = DescribedText(parameter->Find("name"));
      if (in == "query") operation_->query.insert(name);
      if (in == "header" && LooksLikeKeyHeader(name)) operation_->key_headers.push_back(name);
    }
  }

  void ReadBody(const YamlNode* node) {
    const YamlNode* body = schemas_.Resolve(node);
    if (body == nullptr) return;
    operation_->has_body = true;
    const auto content = schemas_.ContentOf(body);
    if (content.schema == nullptr) {
      Note("the body is neither JSON nor a form that could be read");
      return;
    }
    operation_->has_form = content.is_form;
    operation_->body_ids = schemas_.RequiredIds(content.schema);
    operation_->body_members = schemas_.Members(content.schema, SchemaReader::Wanted::kWritable);
    operation_->body_secrets = schemas_.Members(content.schema, SchemaReader::Wanted::kSecret);
  }

  void ReadAnswers(const YamlNode* answers) {
    if (answers == nullptr) return;
    for (const std::string_view status : {"201", "200", "202"}) {
      const YamlNode* answer = schemas_.Resolve(answers->Find(status));
      if (answer == nullptr) continue;
      const YamlNode* const schema = schemas_.ContentOf(answer).schema;
      operation_->answer_members = schemas_.Members(schema, SchemaReader::Wanted::kAll);
      operation_->answer_list = schemas_.ListIn(schema);
      if (operation_->method == "POST") FindRef(*answer);
      return;
    }
  }
  void FindRef(const YamlNode& answer) {
    const std::set<std::string>& names = operation_->answer_members;
    if (names.contains("id")) return;
    if (const auto found = std::ranges::find_if(names, LooksLikeIdName); found != names.end()) {
      operation_->answer_ref = "answer.body#/" + PointerToken(*found);
      return;
    }
    const YamlNode* headers = answer.Find("headers");
    if (headers != nullptr && headers->Find("Location") != nullptr) {
      operation_->answer_ref = "answer.header.Location";
    }
  }

  // What was meant to declare something must not be passed over.
  void RefuseLookAlikes(const YamlNode& node, const std::string& key, bool is_operation) {
    static const std::vector<std::string> kWords{std::string(kEffectExtension)};
    for (const auto& member : node.members) {
      const bool is_it = member.name == kEffectExtension;
      if (is_it ? is_operation : NearestWord(member.name, kWords).empty()) continue;
      api_.problems.Error(member.name_place, JoinKey(key, member.name),
                          is_it ? "belongs to one of the path's operations"
                                : "unknown key" + DidYouMean(member.name, kWords));
    }
  }

  // The facts that the owner declares of this call, or of each mutation that is made by it.
  void ReadEffect(const YamlNode& operation, const std::string& operation_key) {
    RefuseLookAlikes(operation, operation_key, true);
    const YamlNode* const effect = operation.Find(kEffectExtension);
    if (effect == nullptr) return;
    const std::string key = JoinKey(operation_key, kEffectExtension);
    const YamlNode* const mutations =
        effect->kind == YamlNode::Kind::kMap ? effect->Find("mutations") : nullptr;
    if (mutations == nullptr) {
      auto tool = ReadDeclaredTool(*effect, key, api_.problems);
      if (tool) operation_->declared.push_back(std::move(*tool));
      return;
    }
    MapReader map(*effect, key, api_.problems);
    const std::string backend = map.Text("backend").value_or("");
    (void)map.Get("mutations");
    map.Finish();
    for (const auto& member : mutations->members) {
      auto tool = ReadDeclaredTool(member.value, JoinKey(map.KeyOf("mutations"), member.name),
                                   api_.problems);
      if (!tool) continue;
      if (tool->name.empty()) tool->name = member.name;
      if (tool->backend.empty()) tool->backend = backend;
      tool->calls.push_back(std::string(kMutation) + ' ' + member.name);
      operation_->declared.push_back(std::move(*tool));
    }
  }

  const YamlNode& root_;
  ApiDescription& api_;
  const SchemaReader schemas_;
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

// Why the tree is no description of OpenAPI 3, or empty.
std::string WhyNoOpenApi(const YamlNode& root) {
  if (root.kind != YamlNode::Kind::kMap) return "is no OpenAPI description: a map is expected";
  if (root.Find("swagger") != nullptr) {
    return "is Swagger " + DescribedText(root.Find("swagger")) +
           "; convert it to OpenAPI 3 first, with swagger2openapi for example";
  }
  const std::string version = DescribedText(root.Find("openapi"));
  if (version.starts_with("3.0") || version.starts_with("3.1")) return {};
  if (version.empty()) {
    return "is no OpenAPI description: it has no `openapi: 3.0.x` or 3.1.x";
  }
  return "`openapi: " + version + "` is not understood; accepted: 3.0 and 3.1";
}

YamlNode ReadApiFile(ApiFile& file, Problems& problems) {
  Normalize(file.text);
  return ReadYaml(problems.AddFile(file.name), file.text, problems, limits::kImportedBytesMax);
}

}  // namespace

std::expected<ApiDescription, std::string> ReadOpenApi(ApiFile file,
                                                       std::vector<ApiFile> overlays) {
  ApiDescription api;
  YamlNode root = ReadApiFile(file, api.problems);
  if (api.problems.has_errors()) return std::unexpected(api.problems.Take().front().ToString());
  if (const std::string why = WhyNoOpenApi(root); !why.empty()) {
    return std::unexpected(file.name + ": " + why);
  }
  for (ApiFile& overlay : overlays) {
    const YamlNode tree = ReadApiFile(overlay, api.problems);
    if (!api.problems.has_errors()) ApplyOverlay(tree, root, api.notes, api.problems);
  }
  if (const YamlNode* const effect = root.Find(kEffectExtension)) {
    api.backends = ReadDeclaredBackends(*effect, std::string(kEffectExtension), api.problems);
  }
  ApiReader(root, api).Read();
  if (api.problems.has_errors()) return std::unexpected(ErrorLines(api.problems));
  if (api.operations.empty()) {
    return std::unexpected(file.name + ": describes no operation, so there is nothing to write");
  }
  return api;
}

}  // namespace recourse
