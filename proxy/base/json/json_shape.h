// An object of the admin API, declared once: a table says what its members are called, what a
// reader is told of each and where its value is from. The writer and the schema are made from it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "proxy/base/json/json_object.h"

namespace recourse {

inline constexpr std::string_view kTextSchema = R"({"type": "string"})";
inline constexpr std::string_view kWholeSchema = R"({"type": "integer", "minimum": 0})";
inline constexpr std::string_view kBoolSchema = R"({"type": "boolean"})";
// The id from which the next page goes on.
inline constexpr std::string_view kCursorSchema =
    R"({"oneOf": [{"$ref": "#/components/schemas/Id"}, {"type": "null"}]})";
inline constexpr std::string_view kNextText =
    "What to ask for as the next page's cursor; null: this was the last page";
inline constexpr std::string_view kHashSchema =
    R"({"type": "string", "pattern": "^[0-9a-f]{64}$"})";

// What a reader is told of a member.
struct MemberDoc {
  std::string_view name;
  std::string_view schema;          // JSON, or the name of one in openapi.json
  std::string_view text = "";       // its description
  bool may_lack = false;            // it is not there where there is nothing to say
  bool is_list = false;             // of what `schema` says
  std::string (*made)() = nullptr;  // the schema, in place of `schema`
};

// A member of the object that says what a T is. `write` may leave it out if `may_lack`.
template <class T>
struct JsonMember {
  MemberDoc doc;
  void (*write)(JsonObject& json, std::string_view name, const T& of);
};

template <class T>
void WriteMembers(JsonObject& json, std::span<const JsonMember<T>> members,
                  const std::type_identity_t<T>& of) {
  for (const JsonMember<T>& member : members) member.write(json, member.doc.name, of);
}
template <class T, std::size_t kCount>
void WriteMembers(JsonObject& json, const JsonMember<T> (&members)[kCount],
                  const std::type_identity_t<T>& of) {
  WriteMembers(json, std::span<const JsonMember<T>>(members), of);
}

// A schema of openapi.json.
struct JsonShape {
  std::string_view name;
  std::string_view text;  // its description
  std::vector<MemberDoc> members;
  std::string_view base = "";         // the shape whose members come first
  bool is_base = false;               // others are made of it
  std::vector<std::string> any_of{};  // schemas, one of which it has; without members of its own
};

// Of tables that follow each other.
std::vector<MemberDoc> DocsOf(const auto&... tables) {
  std::vector<MemberDoc> docs;
  const auto add = [&](const auto& table) {
    for (const auto& member : table) docs.push_back(member.doc);
  };
  (add(tables), ...);
  return docs;
}
std::string SchemaOf(const JsonShape& shape);
// Of the shape of that name.
std::string SchemaReference(std::string_view name);

namespace member {

template <class Value>
inline constexpr bool kIsOptional = false;
template <class Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;

// What the functions below give: the member of whatever T their getter takes.
template <class Write, auto kGet>
struct Any {
  MemberDoc doc;

  constexpr Any MayLack() const {
    Any same = *this;
    same.doc.may_lack = true;
    return same;
  }
  template <class T>
  constexpr operator JsonMember<T>() const {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_invocable_v<decltype(kGet), const T&>) {
      using Value = std::remove_cvref_t<std::invoke_result_t<decltype(kGet), const T&>>;
      // Tables are made when compiling, and this is an error then.
      if (kIsOptional<Value> && !doc.may_lack) throw "a member that may lack is not said to";
    }
    return {doc,
            [](JsonObject& json, std::string_view name, const T& of) { Write{}(json, name, of); }};
  }
};
template <auto kGet = nullptr, class Write>
constexpr Any<Write, kGet> Make(const MemberDoc& doc, Write /*write*/) {
  static_assert(std::is_empty_v<Write>, "another one is made to write: no function, no captures");
  return {doc};
}

// Calls write(value) with what the getter says; without a value, the member is left out.
template <auto kGet>
void Visit(const auto& of, auto write) {
  const auto& value = std::invoke(kGet, of);
  if constexpr (requires { value.has_value(); }) {
    if (value) write(*value);
  } else {
    write(value);
  }
}

// The getter: a pointer to a member of T, or a lambda without captures.
template <auto kGet>
constexpr auto Text(std::string_view name, std::string_view text = "",
                    std::string_view schema = kTextSchema) {
  return Make<kGet>({name, schema, text},
                    [](JsonObject& json, std::string_view as, const auto& of) {
                      Visit<kGet>(of, [&](std::string_view value) { json.Text(as, value); });
                    });
}
// A text that `schema` says more of.
template <auto kGet>
constexpr auto Word(std::string_view name, std::string_view schema, std::string_view text = "") {
  return Text<kGet>(name, text, schema);
}
// Left out when it is empty.
template <auto kGet>
constexpr auto TextIfAny(std::string_view name, std::string_view text = "",
                         std::string_view schema = kTextSchema) {
  return Make<kGet>({name, schema, text, /*may_lack=*/true},
                    [](JsonObject& json, std::string_view as, const auto& of) {
                      json.TextIfAny(as, std::invoke(kGet, of));
                    });
}
template <auto kGet>
constexpr auto Number(std::string_view name, std::string_view text = "",
                      std::string_view schema = kWholeSchema) {
  return Make<kGet>({name, schema, text},
                    [](JsonObject& json, std::string_view as, const auto& of) {
                      Visit<kGet>(of, [&](std::integral auto value) { json.Number(as, value); });
                    });
}
template <auto kGet>
constexpr auto Bool(std::string_view name, std::string_view text = "") {
  return Make<kGet>({name, kBoolSchema, text},
                    [](JsonObject& json, std::string_view as, const auto& of) {
                      json.Bool(as, std::invoke(kGet, of));
                    });
}
// The getter says a whole value as JSON.
template <auto kGet>
constexpr auto Raw(std::string_view name, std::string_view schema, std::string_view text = "") {
  return Make<kGet>({name, schema, text},
                    [](JsonObject& json, std::string_view as, const auto& of) {
                      Visit<kGet>(of, [&](std::string_view value) { json.Raw(as, value); });
                    });
}
template <auto kGet>
constexpr auto Texts(std::string_view name, std::string_view text = "") {
  return Make<kGet>({name, kTextSchema, text, false, /*is_list=*/true},
                    [](JsonObject& json, std::string_view as, const auto& of) {
                      Visit<kGet>(of, [&](const auto& value) { json.Texts(as, value); });
                    });
}
// An array of [name, value].
template <auto kGet>
constexpr auto Pairs(std::string_view name, std::string_view text = "") {
  return Make<kGet>({name, "Pair", text, false, /*is_list=*/true},
                    [](JsonObject& json, std::string_view as, const auto& of) {
                      json.Each(as, std::invoke(kGet, of), [](std::string& out, const auto& pair) {
                        JsonList list(out);
                        list.Text(pair.first);
                        list.Text(pair.second);
                      });
                    });
}
// An array of objects that kMembers is the table of; `schema` names the shape, else it stands here.
template <auto kGet, const auto& kMembers>
constexpr auto Objects(std::string_view name, std::string_view schema = "",
                       std::string_view text = "") {
  MemberDoc doc{name, schema, text, false, /*is_list=*/true};
  if (schema.empty()) doc.made = [] { return SchemaOf({{}, {}, DocsOf(kMembers)}); };
  return Make<kGet>(doc, [](JsonObject& json, std::string_view as, const auto& of) {
    Visit<kGet>(of, [&](const auto& list) {
      json.Objects(as, list,
                   [](JsonObject& one, const auto& item) { WriteMembers(one, kMembers, item); });
    });
  });
}
// The same of one object.
template <auto kGet, const auto& kMembers>
constexpr auto Object(std::string_view name, std::string_view schema = "",
                      std::string_view text = "") {
  MemberDoc doc{name, schema, text};
  if (schema.empty()) doc.made = [] { return SchemaOf({{}, {}, DocsOf(kMembers)}); };
  return Make<kGet>(doc, [](JsonObject& json, std::string_view as, const auto& of) {
    Visit<kGet>(of, [&](const auto& value) {
      JsonObject one = json.Object(as);
      WriteMembers(one, kMembers, value);
    });
  });
}
// Written by `write`, a lambda without captures: write(json, name, of).
template <class Write>
constexpr auto Own(MemberDoc doc, Write write) {
  return Make(doc, write);
}

}  // namespace member
}  // namespace recourse
