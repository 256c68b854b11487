#include "policy/effects/node_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/language/config_reader.h"
#include "proxy/base/json/json.h"

namespace recourse {
namespace {

constexpr std::size_t kLineBytesMax = 100;

bool IsJsonScalar(std::string_view text) {
  const auto value = ParseJson(text);
  return value && value->is_scalar() && value->kind != Json::Kind::kString;
}

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Means the same without quotes, in braces too.
bool IsPlain(std::string_view text) {
  const auto fits = [](char c) {
    return IsLetterOrDigit(c) || std::string_view("_./#-+").find(c) != std::string_view::npos;
  };
  return !text.empty() && IsLetterOrDigit(text.front()) && std::ranges::all_of(text, fits) &&
         YamlTrap(text).empty();
}

// A text that no reader of YAML takes for a number.
bool IsPlainText(std::string_view text) {
  return IsPlain(text) && (text.front() < '0' || text.front() > '9');
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      if (c == '"' || c == '\\') out.push_back('\\');
      out.push_back(c);
    }
  }
  return out + '"';
}

std::string PlainOrQuoted(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kNull) return "null";
  const bool is_plain =
      node.is_quoted ? IsPlainText(node.text) : IsPlain(node.text) || IsJsonScalar(node.text);
  return is_plain ? node.text : Quoted(node.text);
}

std::string WrittenName(const std::string& name) { return IsPlainText(name) ? name : Quoted(name); }

// In one line.
std::string FlowTextOf(const YamlNode& node) {
  std::string out;
  if (node.kind == YamlNode::Kind::kList) {
    for (const YamlNode& item : node.items) out += (out.empty() ? "" : ", ") + FlowTextOf(item);
    return out.empty() ? "[]" : "[ " + out + " ]";
  }
  if (node.kind != YamlNode::Kind::kMap) return PlainOrQuoted(node);
  for (const auto& member : node.members) {
    out += (out.empty() ? "" : ", ") + WrittenName(member.name) + ": " + FlowTextOf(member.value);
  }
  return out.empty() ? "{}" : "{ " + out + " }";
}

// Maps with maps in them are read more easily in lines.
bool IsFlat(const YamlNode& node) {
  return std::ranges::none_of(node.members, [](const auto& member) {
    return member.value.kind == YamlNode::Kind::kMap || !IsFlat(member.value);
  });
}

void WriteMembers(std::string& out, const YamlNode& map, const std::string& indent);

void WriteValue(std::string& out, const YamlNode& value, const std::string& indent,
                std::size_t used) {
  const std::string flow = FlowTextOf(value);
  const bool has_lines = !value.members.empty() || !value.items.empty();
  if (!has_lines || (IsFlat(value) && used + 1 + flow.size() <= kLineBytesMax)) {
    out += ' ' + flow + '\n';
    return;
  }
  out += '\n';
  const std::string inner = indent + "  ";
  if (value.kind == YamlNode::Kind::kMap) {
    WriteMembers(out, value, inner);
    return;
  }
  for (const YamlNode& item : value.items) {
    const bool is_map = item.kind == YamlNode::Kind::kMap && !item.members.empty();
    if (!is_map || (IsFlat(item) && FlowTextOf(item).size() + inner.size() + 2 <= kLineBytesMax)) {
      out += inner + "- " + FlowTextOf(item) + '\n';
      continue;
    }
    const std::size_t start = out.size();
    WriteMembers(out, item, inner + "  ");
    out.replace(start + inner.size(), 1, "-");
  }
}

void WriteMembers(std::string& out, const YamlNode& map, const std::string& indent) {
  for (const auto& member : map.members) {
    const std::string head = indent + WrittenName(member.name) + ':';
    out += head;
    WriteValue(out, member.value, indent, head.size());
  }
}

void WriteJson(std::string& out, const YamlNode& node, const std::string& indent) {
  const std::string inner = indent + "  ";
  const bool is_map = node.kind == YamlNode::Kind::kMap;
  if (!is_map && node.kind != YamlNode::Kind::kList) {
    const bool is_text =
        node.kind == YamlNode::Kind::kScalar && (node.is_quoted || !IsJsonScalar(node.text));
    if (is_text) {
      AppendJsonString(out, node.text);
    } else {
      out += node.kind == YamlNode::Kind::kNull ? "null" : node.text;
    }
    return;
  }
  out += is_map ? '{' : '[';
  bool is_first = true;
  const auto next = [&] {
    out += (is_first ? "\n" : ",\n") + inner;
    is_first = false;
  };
  for (const YamlNode& item : node.items) {
    next();
    WriteJson(out, item, inner);
  }
  for (const auto& member : node.members) {
    next();
    AppendJsonString(out, member.name);
    out += ": ";
    WriteJson(out, member.value, inner);
  }
  if (!is_first) out += '\n' + indent;
  out += is_map ? '}' : ']';
}

}  // namespace

std::string YamlTextOf(const YamlNode& map, int indent) {
  std::string out;
  WriteMembers(out, map, std::string(static_cast<std::size_t>(indent), ' '));
  return out;
}

std::string JsonTextOf(const YamlNode& node) {
  std::string out;
  WriteJson(out, node, "");
  return out + '\n';
}

YamlNode NodeOf(const Json& value, const Place& place) {
  YamlNode node;
  node.place = place;
  switch (value.kind) {
    case Json::Kind::kNull:
      return node;
    case Json::Kind::kArray:
      node.kind = YamlNode::Kind::kList;
      for (const Json& item : value.items) node.items.push_back(NodeOf(item, place));
      return node;
    case Json::Kind::kObject:
      node.kind = YamlNode::Kind::kMap;
      for (const auto& [name, member] : value.members) {
        node.members.push_back({name, place, NodeOf(member, place)});
      }
      return node;
    default:
      break;
  }
  node.kind = YamlNode::Kind::kScalar;
  node.is_quoted = value.kind == Json::Kind::kString;
  node.text = ScalarText(value);
  return node;
}

}  // namespace recourse
