#include "proxy/notify/slack_message.h"

#include <algorithm>
#include <cstddef>

#include "proxy/base/hidden_points.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

constexpr std::size_t kValueBytesMax = 300;
constexpr std::size_t kBlockBytesMax = 2'900;  // Slack takes 3,000 characters

// Cut at a character's boundary.
std::string_view Bounded(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t size = bytes_max;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

std::string Harmless(std::string_view text) {
  const std::string_view kept = Bounded(text, kValueBytesMax);
  std::string out;
  for (std::size_t at = 0; at < kept.size(); ++at) {
    const char c = kept[at];
    std::size_t size = 1;
    if (IsHidden(LongCodePoint(kept.substr(at), size))) {
      out += ' ';
      at += size - 1;
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += byte < 0x20 || byte == 0x7f ? ' ' : c;
    }
  }
  if (kept.size() < text.size()) out += "...";
  return out;
}

}  // namespace

std::string SlackMessage(const Notice& notice) {
  const std::string title = "Recourse: " + Harmless(notice.title);
  std::string lines = title;
  for (const auto& [name, value] : notice.facts) {
    if (value.empty()) continue;
    const std::string line = "\n" + std::string(name) + ": " + Harmless(value);
    if (lines.size() + line.size() > kBlockBytesMax) break;
    lines += line;
  }
  lines += "\nSee: " + Harmless(notice.command);
  return ObjectText([&](JsonObject& json) {
    json.Text("text", title);
    json.Bool("mrkdwn", false);
    JsonList blocks = json.List("blocks");
    JsonObject section = blocks.Object();
    section.Text("type", "section");
    JsonObject text = section.Object("text");
    text.Text("type", "plain_text");
    text.Bool("emoji", false);
    text.Text("text", lines);
  });
}

}  // namespace recourse
