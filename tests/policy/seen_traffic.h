// Traffic as observe mode tells of it, for tests of what is inferred from it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "policy/model/path_shape.h"
#include "policy/suggest/suggest.h"

namespace recourse {

struct SeenMember {
  std::string place, value;
  ValueKind kind = ValueKind::kWord;
};
using SeenMembers = std::vector<SeenMember>;

class SeenTraffic {
 public:
  // The answer's values; without a place's prefix: "/id".
  struct Answer {
    int status = 200;
    SeenMembers values{};
    bool is_delivered = true;
  };
  static Answer Lost() { return {0, {}, false}; }

  // A second later than the last. `path` may have a query.
  Sighting& Call(const std::string& method, const std::string& path, const SeenMembers& body,
                 const Answer& answer, const std::string& trace = {}) {
    Sighting call;
    call.wall_ms = now_ms_ += 1000;
    call.backend = "shop";
    call.method = method;
    call.caller = HashOf("local");
    if (!trace.empty()) call.trace = HashOf(trace);
    const auto question = path.find('?');
    std::string rest = path.substr(0, question);
    while (!rest.empty()) {
      const auto end = std::min(rest.find('/', 1), rest.size());
      const std::string word = rest.substr(1, end - 1);
      call.path.push_back({LooksLikeId(word) ? "" : word, HashOf(word)});
      rest.erase(0, end);
    }
    if (question != std::string::npos) {
      const std::string pair = path.substr(question + 1);
      const auto equals = pair.find('=');
      call.query.push_back({"query." + pair.substr(0, equals), HashOf(pair.substr(equals + 1))});
    }
    call.form = body.empty() ? SeenBody::kNone : SeenBody::kJson;
    for (const SeenMember& member : body) {
      call.body.push_back({"body#" + member.place, HashOf(member.value), member.kind});
    }
    call.status = answer.status;
    call.is_delivered = answer.is_delivered;
    for (const SeenMember& member : answer.values) {
      call.answer.push_back({"answer.body#" + member.place, HashOf(member.value), member.kind});
    }
    seen.push_back(std::move(call));
    return seen.back();
  }
  // Of a tool of an MCP server; each with an answer of its own.
  Sighting& CallTool(const std::string& tool, const SeenMembers& arguments, const Answer& answer) {
    Sighting& call = Call(std::string(kToolsCall), "/" + tool, arguments, answer);
    call.path.front().word = tool;
    call.form = SeenBody::kJson;
    return call;
  }
  // What the server lists: its tools, and whether they only read.
  void List(std::vector<SeenHint> hints) { Call("POST", "/mcp", {}, {}).hints = std::move(hints); }
  void Wait(std::int64_t ms) { now_ms_ += ms; }
  static std::uint64_t HashOf(const std::string& value) { return std::hash<std::string>()(value); }

  SuggestedTool Tool(const std::string& method, const std::string& pattern) const {
    Suggestion made = SuggestTools(seen, {});
    for (SuggestedTool& tool : made.tools) {
      if (tool.seen.method == method && tool.seen.Pattern() == pattern) return std::move(tool);
    }
    return {};
  }

  std::vector<Sighting> seen;

 private:
  std::int64_t now_ms_ = 1'790'000'000'000;
};

}  // namespace recourse
