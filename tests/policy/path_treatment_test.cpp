// Paths that servers read in several ways pass where every reading is treated alike, and only
// there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "policy/model/route_table.h"
#include "proxy/base/http/http_message.h"
#include "tests/policy/policy_builder.h"

namespace recourse::path_treatment_test {
namespace {

using ::testing::HasSubstr;

// What goes on, or the reason why nothing does.
std::string SentOf(const Policy& policy, std::string_view method, std::string_view path) {
  std::string scratch;
  const auto match = policy.routes->Match(policy.backends[0], method, path, scratch);
  return match ? std::string(match->sent) : match.error().detail();
}

TEST(PathTreatmentTest, WhatNoToolListsPassesAsItCame) {
  const auto policy = LoadGood("backends: { shop: { url: \"http://shop\" } }\n");
  for (const std::string path :
       {"/projects/group%2fname", "/@scope%2Fpackage", "/api/queues/%2f/q", "/b/a%3Bb", "/b/a;v=1",
        "/b/100%25", "/b/a%252Fb", "/b//a", "//b", "/b/", "/b/a%3Fb%23c", "/a/./b", "/a/../b",
        "/a/%2E%2e/b", "/caf%c3%a9", "/%7euser"}) {
    for (const char* method : {"GET", "POST", "DELETE"}) {
      EXPECT_EQ(SentOf(*policy, method, path), path) << method;
    }
  }
}

constexpr const char* kForge = R"(
backends: { forge: { url: "http://forge" } }
tools:
  project: { match: "GET forge /projects/{id}", effect: read }
  files:   { match: "GET forge /projects/{id}/files/**", effect: read }
  open:
    match: [ "POST forge /projects/{id}/issues", "POST forge /projects/{group}/{id}/issues" ]
    effect: write
    reason: r
  close:
    match: [ "POST forge /projects/{id}/close", "POST forge /projects/{group}/{id}/close" ]
    effect: write
    reason: r
    identity: path.id
  remove:  { match: "DELETE forge /projects/{id}", effect: write, reason: r }
  admin:   { match: "GET forge /admin", effect: write, reason: r }
)";

TEST(PathTreatmentTest, ReadsPassWhateverReadsThem) {
  const auto policy = LoadGood(kForge);
  for (const std::string path : {"/projects/group%2Fname", "/projects/g%2fs%2fn/files/a%2Fb.c",
                                 "/projects/7//files/a", "/projects/7;v=1"}) {
    EXPECT_EQ(SentOf(*policy, "GET", path), path);
  }
}

TEST(PathTreatmentTest, AWritePassesIfEveryReadingIsItsToolWithTheSameValues) {
  const auto policy = LoadGood(kForge);
  EXPECT_EQ(SentOf(*policy, "POST", "/projects/g%2Fn/issues"), "/projects/g%2Fn/issues");
  EXPECT_EQ(SentOf(*policy, "POST", "/projects/g%2Fn/close"),
            "the path has an escaped slash or backslash: as it is written it is tool close, and to "
            "a server that reads it otherwise the same tool with other values");
  EXPECT_EQ(SentOf(*policy, "DELETE", "/projects/g%2Fn"),
            "the path has an escaped slash or backslash: as it is written it is tool remove, and "
            "to a server that reads it otherwise an unlisted write");
}

TEST(PathTreatmentTest, AnEscapedSlashIsOneReadingToABackendThatKeepsIt) {
  std::string text(kForge);
  text.replace(text.find("http://forge\""), 13, "http://forge\", escaped_slash: kept");
  const auto policy = LoadGood(text);
  for (const std::string path :
       {"/projects/g%2Fn", "/projects/g%2fn", "/projects/g%2Fs%2Fn", "/projects/..a%2F.b"}) {
    EXPECT_EQ(SentOf(*policy, "DELETE", path), path);
  }
  EXPECT_EQ(SentOf(*policy, "POST", "/projects/g%2Fn/close"), "/projects/g%2Fn/close");
  // What leads elsewhere once somebody behind it decodes it all the same.
  for (const char* path :
       {"/projects/..%2Fn", "/projects/g%2F..", "/projects/g%2F..%2Fn", "/projects/%2Fn",
        "/projects/g%2F", "/projects/g%2F%2Fn", "/projects/g%2F.%2Fn", "/projects/%2E%2E%2Fn",
        "/projects/g%2F..;x", "/projects/g%2F..%20", "/projects/g%5Cn", "/projects/g%252Fn",
        "/projects/g%2F..%5C..", "/projects/g%2Fn/../x"}) {
    EXPECT_THAT(SentOf(*policy, "DELETE", path), HasSubstr("the path has a")) << path;
  }
  EXPECT_THAT(SentOf(*policy, "GET", "/projects/..%2Fadmin"), HasSubstr("tool admin"));
}

TEST(PathTreatmentTest, WhatLeadsToAnotherToolIsRefusedAndBothAreNamed) {
  const auto policy = LoadGood(kForge);
  for (const char* path : {"/projects/%2e%2e/admin", "/projects/..%2Fadmin", "/projects/..;x/admin",
                           "/projects/%252e%252e/admin", "/projects/..%5Cadmin", "//admin",
                           "/x//../admin", "/admin;x", "/admin%3Bx", "/admin%3Fx", "/.%2Fadmin"}) {
    EXPECT_THAT(SentOf(*policy, "GET", path), HasSubstr("tool admin")) << path;
  }
  EXPECT_THAT(SentOf(*policy, "GET", "/projects/7/files/../../8"),
              HasSubstr("as it is written it is tool files, and to a server that reads it "
                        "otherwise tool project"));
  EXPECT_THAT(SentOf(*policy, "GET", "/admin//"), HasSubstr("stricter tool admin"));
}

TEST(PathTreatmentTest, AServerThatDecodesNothingFindsNoOtherRule) {
  const auto policy = LoadGood(kForge);
  EXPECT_EQ(SentOf(*policy, "GET", "/%61dmin"), "/admin");
  EXPECT_EQ(SentOf(*policy, "POST", "/projects/%37/issues"), "/projects/%37/issues");
  EXPECT_EQ(SentOf(*policy, "POST", "/proj%65cts/7/issues"), "/projects/7/issues");
}

TEST(PathTreatmentTest, WhatMayBeAnEndpointOfAnMcpServerStaysRefused) {
  const auto policy = LoadGood(R"(
backends:
  rest: { url: "http://shop:8080" }
  mcp: { url: "http://shop:8080/mcp/a", protocol: mcp }
)");
  for (const char* path : {"//mcp/a", "/mcp%2fa", "/x/../mcp/a", "/mcp;x/a", "/mcp//a", "/mcp%5Ca",
                           "/mcp/a%3fx", "/mcp%252fa", "/mcp/a;x", "/.%2Fmcp/a", "/mcp/a/."}) {
    EXPECT_EQ(policy->routes->Place("shop:8080", 80, path).where, EndpointPath::kAmbiguous) << path;
  }
  for (const char* path : {"/x%2Fmcp", "/mcp%2Fb", "/a//b"}) {
    EXPECT_EQ(policy->routes->Place("shop:8080", 80, path).where, EndpointPath::kOther) << path;
  }
}

// The property: servers written apart from the product read what is sent, each in its own way; for
// all of them the call is of one effect, and of one tool if it is a write.
using Segments = std::vector<std::string>;

std::string DecodedOnce(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 87
                                                    : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    out += is_escape ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    if (is_escape) i += 2;
  }
  return out;
}

Segments Split(std::string_view path) {
  Segments out;
  while (!path.empty()) {
    path.remove_prefix(1);
    const auto end = std::min(path.find('/'), path.size());
    out.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return out;
}

std::string Joined(const Segments& segments) {
  std::string out;
  for (const std::string& segment : segments) out += "/" + segment;
  return out.empty() ? "/" : out;
}

std::string Unparameterized(std::string_view path) {
  Segments segments = Split(path);
  for (std::string& segment : segments) segment = segment.substr(0, segment.find(';'));
  return Joined(segments);
}

// As nginx does; a slash at the end stays one.
std::string Clean(std::string_view path) {
  Segments out;
  std::string last;
  for (const std::string& segment : Split(path)) {
    last = segment;
    if (segment == "..") {
      if (!out.empty()) out.pop_back();
    } else if (!segment.empty() && segment != ".") {
      out.push_back(segment);
    }
  }
  const bool has_slash = last.empty() || last == "." || last == "..";
  if (has_slash && !out.empty()) out.emplace_back();
  return Joined(out);
}

std::string Backslashed(std::string path) {
  std::ranges::replace(path, '\\', '/');
  return path;
}

std::string UpTo(const std::string& path, const char* ends) {
  return path.substr(0, path.find_first_of(ends));
}

Segments DecodedEach(std::string_view path) {
  Segments segments = Split(path);
  for (std::string& segment : segments) segment = DecodedOnce(segment);
  return segments;
}

using Server = std::function<Segments(const std::string&)>;
const std::vector<std::pair<const char*, Server>> kServers{
    {"splits, then decodes", [](const std::string& p) { return DecodedEach(p); }},
    {"decodes, then splits", [](const std::string& p) { return Split(DecodedOnce(p)); }},
    {"decodes and cleans", [](const std::string& p) { return Split(Clean(DecodedOnce(p))); }},
    {"cleans, then decodes", [](const std::string& p) { return DecodedEach(Clean(p)); }},
    {"drops parameters, decodes and cleans",
     [](const std::string& p) { return Split(Clean(DecodedOnce(Unparameterized(p)))); }},
    {"decodes, drops parameters and cleans",
     [](const std::string& p) { return Split(Clean(Unparameterized(DecodedOnce(p)))); }},
    {"cleans behind a proxy that decoded",
     [](const std::string& p) { return Split(Clean(DecodedOnce(Clean(DecodedOnce(p))))); }},
    {"takes backslashes for slashes",
     [](const std::string& p) { return Split(Clean(Backslashed(DecodedOnce(p)))); }},
    {"decodes the url before it is parsed",
     [](const std::string& p) { return Split(UpTo(DecodedOnce(p), "?#")); }},
};

struct Rule {
  std::string method;
  Segments pattern;  // "{}": any segment that is not empty; "**" at the end: the rest
  bool is_write = false;
};

bool Fits(const Rule& rule, const Segments& path) {
  const bool has_rest = !rule.pattern.empty() && rule.pattern.back() == "**";
  const std::size_t fixed = rule.pattern.size() - (has_rest ? 1 : 0);
  if (path.size() < fixed || (!has_rest && path.size() != fixed)) return false;
  for (std::size_t i = 0; i < fixed; ++i) {
    if (rule.pattern[i] == "{}" ? path[i].empty() : rule.pattern[i] != path[i]) return false;
  }
  return true;
}

// Literal before capture before rest, from left to right. -1: unlisted.
int Winner(const std::vector<Rule>& rules, std::string_view method, const Segments& path) {
  const auto rank = [](const Rule& rule) {
    std::string out;
    for (const std::string& segment : rule.pattern) {
      out += segment == "**" ? '2' : segment == "{}" ? '1' : '0';
    }
    return out + "1";  // a pattern that ends here beats one with a rest
  };
  int best = -1;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].method != method || !Fits(rules[i], path)) continue;
    if (best < 0 || rank(rules[i]) < rank(rules[static_cast<std::size_t>(best)])) {
      best = static_cast<int>(i);
    }
  }
  return best;
}

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}
  std::size_t Below(std::size_t size) { return engine_() % size; }
  template <std::size_t kSize>
  std::string Of(const char* const (&items)[kSize]) {
    return items[Below(kSize)];
  }

 private:
  std::mt19937 engine_;
};

std::vector<Rule> RandomRules(Dice& dice) {
  static constexpr const char* kSegments[]{"a", "b", "c", "{}", "a", "b"};
  static constexpr const char* kMethods[]{"GET", "POST"};
  std::vector<Rule> rules;
  for (std::size_t i = 0, size = 1 + dice.Below(4); i < size; ++i) {
    Rule rule{dice.Of(kMethods), {}, dice.Below(2) == 0};
    for (std::size_t k = 0, depth = 1 + dice.Below(3); k < depth; ++k) {
      rule.pattern.push_back(dice.Of(kSegments));
    }
    if (dice.Below(4) == 0) rule.pattern.emplace_back("**");
    const auto same = [&](const Rule& other) {
      return other.method == rule.method && other.pattern == rule.pattern;
    };
    if (std::ranges::none_of(rules, same)) rules.push_back(std::move(rule));
  }
  return rules;
}

std::string YamlOf(const std::vector<Rule>& rules) {
  std::string yaml = "backends: { shop: { url: \"http://shop\" } }\ntools:\n";
  for (std::size_t i = 0; i < rules.size(); ++i) {
    std::string path;
    for (std::size_t k = 0; k < rules[i].pattern.size(); ++k) {
      const std::string& segment = rules[i].pattern[k];
      path += "/" + (segment == "{}" ? "{c" + std::to_string(k) + "}" : segment);
    }
    yaml += "  t" + std::to_string(i) + ": { match: \"" + rules[i].method + " shop " + path +
            "\", effect: " + (rules[i].is_write ? "write, reason: r" : "read") + " }\n";
  }
  return yaml;
}

std::string RandomPath(Dice& dice) {
  static constexpr const char* kPieces[]{
      "/",     "/",   "/",   "/a",  "/b",  "/c",    "a",   "b",     "%2F",   "%2f",
      "%5C",   ";x",  "%3B", "%3F", "%23", "/.",    "/..", "%2e",   "%252F", "%252e",
      "%2561", "%61", "%25", "//",  "..;", "/%2e.", "%20", "/../a", "%41",   "%25252F"};
  std::string path = "/";
  for (std::size_t i = 0, size = 1 + dice.Below(5); i < size; ++i) path += dice.Of(kPieces);
  return path;
}

struct Tally {
  std::size_t passed = 0, changed = 0;
};

// Calls of one random policy.
void PlayRound(std::uint32_t seed, Tally& tally) {
  Dice dice(seed);
  const std::vector<Rule> rules = RandomRules(dice);
  const std::string yaml = YamlOf(rules);
  const auto policy = LoadPolicyText("policy.yaml", "version: 1\n" + yaml).policy;
  if (policy == nullptr) return;  // two of its rules cannot be told apart
  for (int i = 0; i < 200; ++i) {
    const std::string path = RandomPath(dice);
    const std::string method = dice.Below(2) == 0 ? "GET" : "POST";
    std::string scratch;
    const auto match = policy->routes->Match(policy->backends[0], method, path, scratch);
    if (!match) continue;
    const std::string sent(match->sent);
    tally.passed += 1;
    tally.changed += sent != path ? 1 : 0;
    const int tool = match->tool == nullptr ? -1 : std::stoi(match->tool->name.substr(1));
    for (const auto& [name, server] : kServers) {
      const int read = Winner(rules, method, server(sent));
      const bool is_write =
          read < 0 ? method == "POST" : rules[static_cast<std::size_t>(read)].is_write;
      const bool is_alike = is_write == (match->effect == Effect::kWrite);
      ASSERT_TRUE(is_alike && (!is_write || read == tool))
          << name << ": " << method << " " << path << " sent as " << sent << "\n"
          << yaml;
    }
  }
}

TEST(PathTreatmentTest, WhateverPassesIsTreatedAlikeByEveryServer) {
  constexpr std::uint32_t kRounds = 300;
  Tally tally;
  for (std::uint32_t seed = 1; seed <= kRounds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PlayRound(seed, tally);
  }
  EXPECT_GT(tally.passed, 10'000u);
  EXPECT_GT(tally.changed, 10u);
}

}  // namespace
}  // namespace recourse::path_treatment_test
