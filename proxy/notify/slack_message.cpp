#include "proxy/notify/slack_message.h"

#include <algorithm>
#include <cstddef>

#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

constexpr std::size_t kValueBytesMax = 300;
constexpr std::size_t kBlockBytesMax = 2'900;  // Slack takes 3,000 characters

// U+200E, U+200F, U+202A-U+202E, U+2066-U+2069: they turn the order of what is read around.
bool IsBidi(std::string_view text) {
  if (text.size() < 3 || text[0] != '\xe2') return false;
  const auto second = static_cast<unsigned char>(text[1]);
  const auto third = static_cast<unsigned char>(text[2]);
  if (second == 0x80) return third == 0x8e || third == 0x8f || (third >= 0xaa && third <= 0xae);
  return second == 0x81 && third >= 0xa6 && third <= 0xa9;
}

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
    if (IsBidi(kept.substr(at))) {
      out += ' ';
      at += 2;
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
