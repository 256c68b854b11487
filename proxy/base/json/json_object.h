// Writes JSON, member by member: the only place that knows its quotes, commas and braces.
#pragma once

#include <concepts>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/base/json/json.h"

namespace recourse {

// Appends a value as it came, numbers without exponent where that is not long. False: it would make
// `out` larger than that, and is left in the middle.
bool AppendPlainJson(std::string& out, const Json& value,
                     std::size_t bytes_max = std::numeric_limits<std::size_t>::max());

class JsonList;

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
  // The same under a name of somebody else's.
  std::string& ForeignValue(std::string_view name) {
    Separate();
    AppendJsonString(out_, name);
    out_.push_back(':');
    return out_;
  }
  JsonObject Object(std::string_view name) { return JsonObject(Value(name)); }
  JsonList List(std::string_view name);
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
  // An array of objects: write(object, item) says the members of each.
  void Objects(std::string_view name, const auto& list, auto write) {
    Each(name, list, [&](std::string& out, const auto& item) {
      JsonObject object(out);
      write(object, item);
    });
  }

 private:
  void Name(std::string_view name) {
    Separate();
    out_.append("\"").append(name).append("\":");
  }
  void Separate() {
    if (!is_first_) out_.push_back(',');
    is_first_ = false;
  }

  std::string& out_;
  bool is_first_ = true;
};

// One JSON array that grows at the end of a text.
class JsonList {
 public:
  explicit JsonList(std::string& out) : out_(out) { out_.push_back('['); }
  JsonList(const JsonList&) = delete;
  JsonList& operator=(const JsonList&) = delete;
  ~JsonList() { out_.push_back(']'); }

  void Text(std::string_view value) { AppendJsonString(Value(), value); }
  JsonObject Object() { return JsonObject(Value()); }
  // For whoever appends the value: the text behind those before it.
  std::string& Value() {
    if (!is_first_) out_.push_back(',');
    is_first_ = false;
    return out_;
  }

 private:
  std::string& out_;
  bool is_first_ = true;
};

inline JsonList JsonObject::List(std::string_view name) { return JsonList(Value(name)); }

// The text of an object: write(object) says its members.
std::string ObjectText(auto write) {
  std::string out;
  {
    JsonObject object(out);
    write(object);
  }
  return out;
}

// The text of members that follow others: write(object) says them.
std::string MembersText(auto write) {
  std::string members = ObjectText(write);
  members.pop_back();
  members.front() = ',';
  return members;
}

// Puts further members behind those of the object that `text` is.
void AppendMembers(std::string& text, auto write) {
  const std::string members = MembersText(write);
  text.pop_back();
  text.append(members, text.back() == '{' ? 1 : 0).push_back('}');
}

// Puts further members in front of those of the object that begins at `at`.
void PrependMembers(std::string& text, std::size_t at, auto write) {
  std::string more = ObjectText(write);
  const bool is_empty = text[text.find_first_not_of(" \t\r\n", at + 1)] == '}';
  more.pop_back();
  if (!is_empty) more.push_back(',');
  text.replace(at, 1, more);
}

}  // namespace recourse
