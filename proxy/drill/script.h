// Calls and answers made up from a policy alone: what an agent could send to each write tool, and
// what a backend could say to it. Pure.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/model/policy.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"

namespace recourse {

// One call of a made-up agent, with all that a backend needs to know of it. Points into the policy.
struct ScriptedCall {
  const Tool* tool = nullptr;
  const UndoRule* undo = nullptr;  // the one of its undo requests that takes it back
  const Backend* backend = nullptr;
  std::size_t number = 0;
  HttpRequest
      request;  // as the agent sends it: Host names the backend, the target has no base path
  std::vector<std::pair<std::string, std::string>> path, query;  // what selectors read of it
  Json body;                                                     // kNull: it has none
  HttpResponse answer;                                           // of a backend that did it
  Json answer_body;
  HttpResponse refusal;  // of a backend that provably did not
  // Of an MCP tool `body` is its arguments and `answer_body` its output; the answers' bodies hold
  // that output until mcp_message.h puts it into a message.
  std::string reference;  // what `external_ref` reads; empty: it has none
  // What the `before` of its tool reads: until it took effect, and then.
  struct States {
    RenderedRequest read;
    Snapshot before, ours;
  };
  std::optional<States> states;
};

// The call number `number` (from 1) of an agent to the tool; its values are its own. Fails with a
// line for people: why no call to that tool can be made up. `undo`: the index of the undo request,
// among those of the tool, that is to take it back.
std::expected<ScriptedCall, std::string> ScriptCall(const Policy& policy, const Tool& tool,
                                                    std::size_t number, std::size_t undo = 0);

// What selectors read of the call and its answer.
CallValues ValuesOf(const ScriptedCall& call, const std::string& key);

// The undo request of the call's effect as the backend will see it, `key` standing for itself;
// nullopt: the tool has none, or none can be made.
std::optional<RenderedRequest> UndoOf(const ScriptedCall& call, const std::string& key);
// The settle request, likewise.
std::optional<RenderedRequest> ProbeOf(const ScriptedCall& call, const std::string& key);

// The answer to a settle request when the effect is there; `key`: what the backend was told with
// it.
HttpResponse PresentAnswer(const ScriptedCall& call, const std::string& key);
// What a settle request that asks what `before` asks looks for comes to hold with the call.
void MakeReached(const SettleRule& rule, Snapshot& before, Snapshot& ours);
// The answer to the read of its `before`; `has_effect`: its effect is there.
HttpResponse StateAnswer(const ScriptedCall& call, bool has_effect);
// Where a backend tells later what became of the call of that number, if its answer says where.
std::string LaterPath(std::size_t number);
// What `settled_by` asks, of the call or of its undo, as the backend will see it; nullopt: nothing.
std::optional<RenderedRequest> LaterQuestionOf(const ScriptedCall& call, const std::string& key);
std::optional<RenderedRequest> LaterQuestionOfUndo(const ScriptedCall& call,
                                                   const std::string& key);
// The answer to that. `state`: what is read at that place otherwise; nullptr: nothing.
HttpResponse LaterAnswer(const SettledByRule& rule, bool is_done, const HttpResponse* state);
// `answer`, changed so that all conditions over it hold, where that can be done.
HttpResponse WithAll(const std::vector<Condition>& conditions, HttpResponse answer);
// The answer to an undo request that the policy takes for done; `again`: to a repeat of it.
HttpResponse UndoneAnswer(const ScriptedCall& call, bool again);

// A value that makes the condition hold, or fail; nullopt: nothing must stand there, or none is
// known. `instead` is used where any value will do.
std::optional<Json> ValueFor(const Condition& condition, bool holds, const Json& instead);
// Puts `value` at the JSON pointer, making objects and arrays on the way. What stands there already
// is replaced only when `replace` says so; false: it could not be put there.
bool PutAt(Json& root, const std::string& pointer, Json value, bool replace);

}  // namespace recourse
