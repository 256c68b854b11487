// The JSON Schema and the loader know the same words: each map of the language is given a word that
// nobody knows, and the loader's list of what is accepted must be what the schema says.
#include "policy/language/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/language/loader.h"
#include "proxy/base/json/json.h"
#include "tests/policy/policy_builder.h"

namespace recourse::schema_test {
namespace {

using Words = std::set<std::string>;

const Json& Definitions() {
  static const Json schema = *ParseJson(std::string(PolicySchema()));
  return *schema.Find("$defs");
}

// A map of the language, by its definition and the words that lead to it.
using Maps = std::vector<std::pair<std::string, const Json*>>;

// What stands under these limits the words of the same map.
bool IsCondition(std::string_view key) { return key == "if" || key == "then" || key == "else"; }

void CollectMaps(const std::string& name, const Json& node, Maps& maps) {
  const Json* const properties = node.Find("properties");
  if (properties != nullptr) {
    maps.emplace_back(name, &node);
    for (const auto& [word, value] : properties->members) {
      CollectMaps(name + "." + word, value, maps);
    }
  }
  for (const auto& [key, value] : node.members) {
    if (key != "properties" && !IsCondition(key)) CollectMaps(name, value, maps);
  }
  for (const Json& item : node.items) CollectMaps(name, item, maps);
}

Maps AllMaps() {
  Maps maps;
  for (const auto& [name, definition] : Definitions().members) {
    CollectMaps(name, definition, maps);
  }
  return maps;
}

Words WordsOf(const Json& map) {
  Words words;
  for (const auto& [word, value] : map.Find("properties")->members) words.insert(word);
  return words;
}

// The values that a setting may have, here or in its definition; nullptr: it is no choice.
const Json* ChoiceIn(const Json& setting) {
  if (const Json* const values = setting.Find("enum")) return values;
  const Json* const refers = setting.Find("$ref");
  if (refers == nullptr) return nullptr;
  return Definitions().Find(refers->text.substr(std::string_view("#/$defs/").size()))->Find("enum");
}

// After the last "accepted: ", up to the end of the line.
Words AcceptedFor(const std::string& yaml, const std::string& word) {
  const std::string all = ProblemsOf(LoadPolicyText("p.yaml", yaml));
  const auto line = all.find(word);
  EXPECT_NE(line, std::string::npos) << word << " is no problem in\n" << yaml << all;
  const auto start = all.find("accepted: ", line);
  if (line == std::string::npos || start == std::string::npos) return {};
  std::string list = all.substr(start + 10, all.find('\n', start) - start - 10);
  Words words;
  for (std::size_t at = 0; at != std::string::npos;) {
    const auto end = list.find(", ", at);
    words.insert(list.substr(at, end == std::string::npos ? end : end - at));
    at = end == std::string::npos ? end : end + 2;
  }
  return words;
}

constexpr const char* kBackend = "version: 1\nbackends: { b: { url: \"https://b\" } }\n";

// A document with the words `inside` in the map that is one `definition` of the schema.
std::string Document(const std::string& definition, const std::string& inside) {
  const std::string backend = kBackend;
  const std::string tool = backend + "tools: { t: { match: POST b /t, effect: write, ";
  const std::map<std::string, std::string> documents{
      {"policy", "version: 1\n" + inside + "\n"},
      {"unlisted", backend + "unlisted: { " + inside + " }\n"},
      {"ledger", backend + "ledger: { " + inside + " }\n"},
      {"quotas", backend + "quotas: { " + inside + " }\n"},
      {"quota", backend + "quotas: { default: { " + inside + " } }\n"},
      {"backend", "version: 1\nbackends: { b: { url: \"http://b\", " + inside + " } }\n"},
      {"tls", "version: 1\nbackends: { b: { url: \"https://b\", tls: { " + inside + " } } }\n"},
      {"tool", tool + inside + " } }\n"},
      {"settle", tool + "settle: { " + inside + " } } }\n"},
      {"search", tool + "settle: { happened: { " + inside + " } } } }\n"},
      {"before", tool + "before: { " + inside + " } } }\n"},
      {"undo", tool + "undo: { request: \"DELETE /t\", " + inside + " } } }\n"},
      {"secret",
       tool + "undo: { request: \"DELETE /t\", credentials: { X: { " + inside + " } } } } }\n"},
      {"same_as", tool + "same_as: { " + inside + " } } }\n"},
      {"settled_by", tool + "settled_by: { " + inside + " } } }\n"},
      {"backend_secret", "version: 1\nbackends: { b: { url: \"https://b\", credentials: { X: { " +
                             inside + " } } } }\n"},
      {"token", "version: 1\nbackends: { b: { url: \"https://b\", credentials: { X: { token: { " +
                    inside + " } } } } }\n"},
      {"callers.jwt", backend + "callers: { jwt: { " + inside + " } }\n"},
      {"twin", tool + "happened_if: { " + inside + " } } }\n"},
      {"callers", backend + "callers: { " + inside + " }\n"},
      {"flow_rules", backend + "flow_rules: { " + inside + " }\n"},
      {"webhook", backend + "flow_rules: { webhook: { " + inside + " } }\n"},
      {"approval", tool + "approval: { by: a, " + inside + " } } }\n"},
      {"flow", tool + "undo: none, reason: r } }\nflows: { f: { tools: t, " + inside + " } }\n"},
      {"test", backend + "tests: [ { call: GET b /x, " + inside + " } ]\n"},
      {"expect", backend + "tests: [ { call: GET b /x, expect: { " + inside + " } } ]\n"}};
  const auto found = documents.find(definition);
  EXPECT_NE(found, documents.end()) << "give this test a document for " << definition;
  return found == documents.end() ? std::string() : found->second;
}

TEST(SchemaTest, EveryMapHasTheWordsOfTheLoader) {
  const Maps maps = AllMaps();
  for (const auto& [name, map] : maps) {
    EXPECT_EQ(AcceptedFor(Document(name, "zzzzzzzz: 1"), "zzzzzzzz"), WordsOf(*map)) << name;
    const Json* const closed = map->Find("additionalProperties");
    EXPECT_TRUE(closed != nullptr && closed->kind == Json::Kind::kFalse) << name;
  }
  EXPECT_GE(maps.size(), 26u);
}

TEST(SchemaTest, EveryChoiceHasTheValuesOfTheLoader) {
  int choices = 0;
  for (const auto& [name, map] : AllMaps()) {
    for (const auto& [word, value] : map->Find("properties")->members) {
      const Json* const values = ChoiceIn(value);
      if (values == nullptr) continue;
      ++choices;
      Words words;
      for (const Json& one : values->items) {
        words.insert(one.kind == Json::Kind::kString   ? one.text
                     : one.kind == Json::Kind::kNumber ? ScalarText(one)
                     : one.kind == Json::Kind::kTrue   ? "true"
                                                       : "false");
      }
      const std::string place = word + ": not one of its values";
      std::string yaml = Document(name, word + ": zzzzzzzz");
      // A tool has its effect already.
      if (name == "tool" && word == "effect") {
        yaml.replace(yaml.find("effect: write, "), 15, "");
      }
      EXPECT_EQ(AcceptedFor(yaml, place), words) << name << "." << word;
    }
  }
  EXPECT_GE(choices, 17);
}

TEST(SchemaTest, AToolThatReadsHasTheWordsOfTheLoader) {
  const Json& tool = *Definitions().Find("tool");
  Words words, taken;
  for (const Json& word : AtPointer(tool, "/then/propertyNames/enum")->items) {
    words.insert(word.text);
  }
  const std::string reads = std::string(kBackend) + "tools: { t: { effect: read, ";
  for (const std::string& word : WordsOf(tool)) {
    const std::string all = ProblemsOf(LoadPolicyText("p.yaml", reads + word + ": zzzzzzzz } }\n"));
    if (!all.contains("tools.t." + word + ": is for writes only")) taken.insert(word);
  }
  EXPECT_EQ(taken, words);
}

// Of settings that hold a value: what they mean; the default is a value that they may have.
TEST(SchemaTest, EverySettingSaysWhatItMeans) {
  const std::set<std::string> left_out = {"test", "expect", "twin"};
  const std::set<std::string> maps = {"headers", "arguments", "credentials", "undo"};
  for (const auto& [name, map] : AllMaps()) {
    if (left_out.contains(name)) continue;
    for (const auto& [word, value] : map->Find("properties")->members) {
      const Json* refers = value.Find("$ref");
      const bool is_map =
          maps.contains(word) || (refers != nullptr && (refers->text == "#/$defs/" + word));
      EXPECT_TRUE(is_map || value.Find("description") != nullptr) << name << "." << word;
      const Json* standard = value.Find("default");
      const Json* values = ChoiceIn(value);
      if (standard == nullptr || values == nullptr) continue;
      EXPECT_TRUE(std::ranges::any_of(values->items,
                                      [standard](const Json& one) {
                                        return one.kind == standard->kind &&
                                               one.text == standard->text;
                                      }))
          << name << "." << word;
    }
  }
}

}  // namespace
}  // namespace recourse::schema_test
