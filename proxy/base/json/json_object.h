// Writes JSON, member by member.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/base/json/json.h"

namespace recourse {

// One JSON object that grows at the end of a text. Names are ours, and need no escaping.
class JsonObject {
 public:
  explicit JsonObject(std::string& out) : out_(out) { out_.push_back('{'); }
  JsonObject(const JsonObject&) = delete;
  JsonObject& operator=(const JsonObject&) = delete;
  ~JsonObject() { out_.push_back('}'); }

  void Text(std::string_view name, std::string_view value) {
    Name(name);
    AppendJsonString(out_, value);
  }
  // Only if there is something to say.
  void TextIfAny(std::string_view name, std::string_view value) {
    if (!value.empty()) Text(name, value);
  }
  void Number(std::string_view name, std::integral auto value) {
    Name(name);
    out_.append(std::to_string(value));
  }
  void Bool(std::string_view name, bool value) { Raw(name, value ? "true" : "false"); }
  // `json` is a whole value.
  void Raw(std::string_view name, std::string_view json) {
    Name(name);
    out_.append(json);
  }
  // For whoever appends the value: the text, which ends with the name.
  std::string& Value(std::string_view name) {
    Name(name);
    return out_;
  }
  // An array: write(out, item) appends each item's value, or nothing to leave it out.
  void Each(std::string_view name, const auto& list, auto write) {
    Name(name);
    out_.push_back('[');
    for (const auto& item : list) {
      const std::size_t before = out_.size();
      if (out_.back() != '[') out_.push_back(',');
      const std::size_t empty = out_.size();
      write(out_, item);
      if (out_.size() == empty) out_.resize(before);
    }
    out_.push_back(']');
  }
  void Texts(std::string_view name, const auto& values) {
    Each(name, values,
         [](std::string& out, std::string_view text) { AppendJsonString(out, text); });
  }

 private:
  void Name(std::string_view name) {
    if (!is_first_) out_.push_back(',');
    is_first_ = false;
    out_.append("\"").append(name).append("\":");
  }

  std::string& out_;
  bool is_first_ = true;
};

}  // namespace recourse
