#include "policy/language/json_node.h"

#include <algorithm>

#include "policy/language/place_problem.h"

namespace recourse {
namespace {

using Node = RequestTemplate::Node;

// What YAML 1.1 reads as a number and JSON does not: +1, .5, 1_000.
bool IsOtherNumber(std::string_view text) {
  return text.find_first_of("0123456789") != std::string_view::npos &&
         text.find_first_not_of("0123456789+-._eE") == std::string_view::npos &&
         (text[0] == '+' || text[0] == '.' || text.find('_') != std::string_view::npos ||
          text.ends_with('.'));
}

std::optional<Node> ReadString(const YamlNode& node, const std::string& key,
                               Placeholders placeholders, Problems& problems) {
  Node out;
  out.kind = Json::Kind::kString;
  if (placeholders == Placeholders::kLiteral) {
    if (!node.text.empty()) out.text.push_back({node.text, std::nullopt});
    return out;
  }
  auto text = ParseTemplateText(node.text);
  if (!text) {
    problems.Error(node.place, key, TemplateProblem(node.text, text.error()));
    return std::nullopt;
  }
  out.text = std::move(*text);
  return out;
}

std::optional<Node> ReadScalar(const YamlNode& node, const std::string& key,
                               Placeholders placeholders, Problems& problems) {
  if (node.is_quoted) return ReadString(node, key, placeholders, problems);
  if (auto json = ParseJson(node.text); json && json->is_scalar()) {
    Node out;
    out.kind = json->kind;
    out.scalar = std::move(*json);
    return out;
  }
  const auto trap = YamlTrap(node.text);
  if (!trap.empty() || IsOtherNumber(node.text)) {
    problems.Error(node.place, key,
                   "'" + node.text + "' is " + std::string(trap.empty() ? "a number" : trap) +
                       " to YAML and not to JSON; write true, false, null or a JSON number, or "
                       "quote the text");
    return std::nullopt;
  }
  return ReadString(node, key, placeholders, problems);
}

// `charge: {external_ref}` without quotes is a map to YAML.
bool IsUnquotedPlaceholder(const YamlNode& node) {
  return node.members.size() == 1 && node.members[0].value.kind == YamlNode::Kind::kNull &&
         ParseSelector(node.members[0].name).has_value();
}

std::optional<Node> ReadMap(const YamlNode& node, const std::string& key, Placeholders placeholders,
                            Problems& problems) {
  if (placeholders == Placeholders::kParse && IsUnquotedPlaceholder(node)) {
    problems.Error(node.place, key, "quote the placeholder: \"{" + node.members[0].name + "}\"");
    return std::nullopt;
  }
  Node out;
  out.kind = Json::Kind::kObject;
  bool good = true;
  for (const auto& member : node.members) {
    const std::string member_key = JoinKey(key, member.name);
    if (placeholders == Placeholders::kParse &&
        member.name.find_first_of("{}") != std::string::npos) {
      problems.Error(member.name_place, member_key, "a member name is fixed text");
      good = false;
      continue;
    }
    auto value = ReadJsonNode(member.value, member_key, placeholders, problems);
    good = good && value.has_value();
    if (value) out.members.emplace_back(member.name, std::move(*value));
  }
  if (!good) return std::nullopt;
  return out;
}

std::string AsWritten(const RequestTemplate::Piece& piece) {
  using Type = RequestTemplate::Type;
  if (!piece.selector) return piece.literal;
  const std::string_view type = piece.type == Type::kNumber ? " as number"
                                : piece.type == Type::kText ? " as text"
                                : piece.type == Type::kBool ? " as bool"
                                                            : "";
  return '{' + piece.selector->text + std::string(type) + '}';
}

}  // namespace

std::optional<Node> ReadJsonNode(const YamlNode& node, const std::string& key,
                                 Placeholders placeholders, Problems& problems) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return Node{};
    case YamlNode::Kind::kScalar:
      return ReadScalar(node, key, placeholders, problems);
    case YamlNode::Kind::kMap:
      return ReadMap(node, key, placeholders, problems);
    case YamlNode::Kind::kList:
      break;
  }
  Node out;
  out.kind = Json::Kind::kArray;
  bool good = true;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    auto item =
        ReadJsonNode(node.items[i], key + '[' + std::to_string(i) + ']', placeholders, problems);
    good = good && item.has_value();
    if (item) out.items.push_back(std::move(*item));
  }
  if (!good) return std::nullopt;
  return out;
}

Json AsWritten(const Node& node) {
  Json out;
  if (node.kind != Json::Kind::kArray && node.kind != Json::Kind::kObject) out = node.scalar;
  out.kind = node.kind;
  for (const auto& piece : node.text) out.text += AsWritten(piece);
  for (const auto& item : node.items) out.items.push_back(AsWritten(item));
  for (const auto& [name, member] : node.members) {
    out.members.emplace_back(name, AsWritten(member));
  }
  return out;
}

}  // namespace recourse
