#include <algorithm>
#include <memory>

#include "policy/language/load_rules.h"
#include "policy/language/policy_builder.h"
#include "policy/model/approval_need.h"
#include "policy/model/route_table.h"
#include "policy/model/route_tree.h"
#include "policy/uri/ledger_url.h"

namespace recourse {
namespace {

using Source = Selector::Source;

// Two patterns of the same shape match the same paths with the same specificity.
std::string ShapeOf(const std::string& pattern) {
  const RoutePattern route = ParsePattern(pattern);
  std::string shape;
  for (const auto& segment : route.segments)
    shape += '/' + (segment.is_capture ? "{}" : segment.text);
  return route.has_rest ? shape + "/**" : shape;
}

void CheckRoutes(PolicyBuilder& draft) {
  std::map<std::string, std::size_t> owners;
  for (std::size_t i = 0; i < draft.policy.tools.size(); ++i) {
    const Tool& tool = draft.policy.tools[i];
    for (const std::string& pattern : tool.patterns) {
      for (const std::string& method : tool.methods) {
        const std::string route =
            std::to_string(tool.backend) + ' ' + method + ' ' + ShapeOf(pattern);
        const auto [owner, is_new] = owners.emplace(route, i);
        if (is_new) continue;
        const std::string other = draft.policy.tools[owner->second].name;
        draft.problems.Error(draft.ToolPlace(i, "match"), draft.ToolKey(i, "match"),
                             owner->second == i ? method + ' ' + pattern + " is given twice"
                                                : method + ' ' + pattern + " is ambiguous: tool " +
                                                      other + " matches the same calls");
      }
    }
  }
  if (owners.size() > limits::kPolicyRoutesMax) {
    draft.problems.Error({0, 0, 0}, "tools", "more than 100000 routes");
  }
}

// As `import` and `suggest` leave it. To observe, nobody needs an answer yet.
void CheckUndecided(PolicyBuilder& draft, std::size_t index) {
  const Place place = draft.ToolPlace(index, "undo");
  const std::string key = draft.ToolKey(index, "undo");
  const std::string message =
      "nobody has decided yet how this write is undone: name the request that takes it back, an "
      "approval (approval: { by: [..] }), or say undo: none and the reason";
  if (draft.policy.mode == Mode::kObserve) {
    draft.problems.Warn(place, key, message + "; enforce mode refuses it");
  } else {
    draft.problems.Error(place, key, message);
  }
}

void CheckUndoIsStated(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  const bool has_word = draft.ToolHas(index, "undo");
  const YamlNode* const undo = draft.tool_nodes[index]->Find("undo");
  if (undo != nullptr && undo->text == kUndecidedUndo) {
    CheckUndecided(draft, index);
    return;
  }
  const bool has_wrong_approval = !tool.approval && draft.ToolHas(index, "approval");
  const bool has_excuse = AsksAboutCalls(tool) || has_wrong_approval || !tool.reason.empty();
  if (tool.undo || has_excuse) return;
  for (const std::string_view word : {"undo", "approval", "reason", "effect"}) {
    if (draft.problems.IsMisspelled(draft.ToolKey(index, word))) return;
  }
  if (has_word && undo->text != kNoUndo) return;  // already reported
  draft.problems.Error(
      draft.ToolPlace(index, "undo"), draft.ToolKey(index, "undo"),
      has_word
          ? "`undo: none` needs a human before it (approval: { by: [..] }) or a stated reason "
            "(reason: \"why nothing has to be undone\")"
          : std::string("a write needs one of these: undo: ") +
                (!tool.mcp_names.empty()
                     ? "{ call: cancel_order, arguments: { id: \"{external_ref}\" } }"
                 : !tool.mutations.empty()
                     ? "{ graphql: \"mutation($id: ID!) { issueDelete(id: $id) { success } }\", "
                       "variables: { id: \"{external_ref}\" } }"
                     : "{ request: \"DELETE /orders/{external_ref}\" }") +
                ", approval: { by: [..] }, or undo: none with a reason: \"...\"");
}

bool IsKnownOnlyFromAnswer(const Tool& tool, const Selector& selector) {
  const auto is_answer = [](Source source) {
    return source == Source::kAnswerBody || source == Source::kAnswerHeader ||
           source == Source::kAnswerStatus;
  };
  if (selector.source != Source::kExternalRef) return is_answer(selector.source);
  return !tool.external_ref || is_answer(tool.external_ref->source);
}

// Also one that cannot be read.
bool SaysMark(const PolicyBuilder& draft, std::size_t index) {
  const YamlNode* const settle = draft.tool_nodes[index]->Find("settle");
  return settle != nullptr && settle->Find("mark") != nullptr;
}

void CheckSettle(PolicyBuilder& draft, std::size_t index) {
  Tool& tool = draft.policy.tools[index];
  if (!tool.happened_if.empty() && !draft.HasSettle(index)) {
    draft.problems.Error(draft.ToolPlace(index, "happened_if"), draft.ToolKey(index, "happened_if"),
                         "somebody else's twin gives the same error, so `settle` must compare what "
                         "is there, and there is none: settle: { request: \"GET "
                         "/orders?client_ref={body#/client_ref}\", happened: "
                         "answer.body#/items/0/id }");
  }
  if (tool.settled_by) {
    CheckCaptures(draft, index, "settled_by", SelectorsOf(tool.settled_by->request));
  }
  if (!tool.settle) return;
  const auto selectors = SelectorsOf(tool.settle->request);
  CheckCaptures(draft, index, "settle", selectors);
  for (const Selector& selector : selectors) {
    if (IsKnownOnlyFromAnswer(tool, selector)) {
      draft.problems.Error(draft.ToolPlace(index, "settle"), draft.ToolKey(index, "settle"),
                           "{" + selector.text +
                               "} comes from the answer, and there is none when "
                               "the outcome is unknown; use {body#/pointer}, {path.name} or {key}");
    }
    if (selector.source != Source::kKey || !HasMatch(tool) || SaysMark(draft, index)) continue;
    const Backend& backend = draft.policy.backends[tool.backend];
    if (!KeyRuleOf(tool, backend).at.exists()) {
      draft.problems.Warn(
          draft.ToolPlace(index, "settle"), draft.ToolKey(index, "settle"),
          "asks for {key}, but backend " + backend.name +
              " is never told the key: set its key_header, or ask for a value that "
              "the write itself carries; until then finding nothing proves nothing, "
              "and absent_after is not applied");
      // Such a probe finds nothing even when the effect exists: trusting it would run it twice.
      tool.settle->absent_after.reset();
    }
  }
}

void CheckForbidden(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  for (const auto& [word, conditions] : {std::pair("deny", &tool.deny), {"allow", &tool.allow}}) {
    std::vector<Selector> places;
    for (const Condition& condition : *conditions) places.push_back(condition.left);
    CheckCaptures(draft, index, word, places);
  }
}

void WarnAboutUnknown(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  if (!HasMatch(tool) || draft.ToolHas(index, "settle") || AsksAboutCalls(tool)) return;
  // A DELETE or PUT can be looked at and made again by hand; these cannot.
  const bool adds = tool.is_named() ||
                    std::any_of(tool.methods.begin(), tool.methods.end(), [](const auto& name) {
                      return name == "POST" || name == "PATCH" || name == "*";
                    });
  if (!adds) return;
  if (KeyRuleOf(tool, draft.policy.backends[tool.backend]).at.exists()) return;
  draft.problems.Warn(draft.tool_places[index], draft.ToolKey(index, "settle"),
                      "is not given and the backend has no key_header: when the outcome of a call "
                      "is unknown, nothing can find it out, and its repeats get 409 for good; say "
                      "settle: none if nothing can ask");
}

void WarnAboutKey(PolicyBuilder& draft, std::size_t index) {
  using Kind = ScopeRule::Kind;
  const Tool& tool = draft.policy.tools[index];
  const auto& backends = draft.policy.backends;
  const bool has_both = !tool.identity.empty() && tool.backend < backends.size() &&
                        KeyRuleOf(tool, backends[tool.backend]).at.IsField("Idempotency-Key");
  if (has_both && !draft.ToolHas(index, "agent_key")) {
    draft.problems.Warn(draft.ToolPlace(index, "identity"), draft.ToolKey(index, "identity"),
                        "says what makes two calls the same also where the agent sends a key of "
                        "its own, as SDKs do at random; say agent_key: yields if that is meant, "
                        "or agent_key: wins");
  }
  if (!tool.identity.empty()) return;
  if (tool.says_all && tool.agent_key == AgentKey::kYields && draft.ToolHas(index, "agent_key")) {
    draft.problems.Warn(draft.ToolPlace(index, "agent_key"), draft.ToolKey(index, "agent_key"),
                        "a key that the agent sends comes before all arguments: `yields` says "
                        "something only beside an identity that names places");
  }
  for (const std::string& pointer : tool.ignore) {
    if (std::count(pointer.begin(), pointer.end(), '/') != 1) continue;
    draft.problems.Warn(draft.ToolPlace(index, "ignore"), draft.ToolKey(index, "ignore"),
                        pointer +
                            " is a top-level member: two calls that differ only there are "
                            "one; name the members that count with `identity` instead");
  }
  const Kind scope = tool.scope.kind;
  if (scope == Kind::kHeader || scope == Kind::kBody || scope == Kind::kBaggage) return;
  if (tool.says_all) return;
  const bool is_named = tool.is_named();
  const bool has_body =
      is_named || std::any_of(tool.methods.begin(), tool.methods.end(), [](const auto& name) {
        return name == "POST" || name == "PUT" || name == "PATCH" || name == "*";
      });
  if (!has_body) return;
  draft.problems.Warn(draft.tool_places[index], draft.ToolKey(index, "identity"),
                      std::string("is not given, so ") +
                          (is_named ? "all arguments are" : "the whole body is") +
                          " the key: a model that rewords free text when it repeats the call runs "
                          "it twice; name what makes two calls the same, "
                          "such as identity: [ body#/order_id ], or say identity: all if every "
                          "argument counts");
}

// A call without a body has no room for a key that goes into one, and is refused.
void WarnAboutKeyWithoutBody(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  if (tool.is_named() || tool.backend >= draft.policy.backends.size()) return;
  const Backend& backend = draft.policy.backends[tool.backend];
  const RequestPlace& at = KeyRuleOf(tool, backend).at;
  if (at.where != RequestPlace::Where::kBody) return;
  const auto has_none = [](const std::string& name) { return name == "DELETE" || name == "GET"; };
  const auto method = std::ranges::find_if(tool.methods, has_none);
  if (method == tool.methods.end()) return;
  draft.problems.Warn(draft.tool_places[index], draft.ToolKey(index, "key_at"),
                      "is " + at.AsSelector().text + " for backend " + backend.name + ", and a " +
                          *method +
                          " without a body has no room for it, so it is refused; say "
                          "key_at: none, or a header or query of its own");
}

bool HasTestOf(const PolicyBuilder& draft, const std::string& tool) {
  return std::any_of(draft.policy.tests.begin(), draft.policy.tests.end(),
                     [&](const PolicyTest& test) { return test.tool == tool; });
}

// Somebody who removes or mistypes the write turns its path into a read.
void WarnAboutCoveredWrites(PolicyBuilder& draft) {
  std::vector<std::unique_ptr<RouteTree>> reads(draft.policy.backends.size());
  for (auto& tree : reads) tree = std::make_unique<RouteTree>(RouteTree::OnSame::kKeepFirst);
  for (const Tool& tool : draft.policy.tools) {
    if (tool.effect != Effect::kRead) continue;
    for (const std::string& pattern : tool.patterns) {
      for (const auto& method : tool.methods) {
        reads[tool.backend]->Add(ParsePattern(pattern), method, &tool);
      }
    }
  }
  for (std::size_t i = 0; i < draft.policy.tools.size(); ++i) {
    const Tool& tool = draft.policy.tools[i];
    if (tool.effect != Effect::kWrite || HasTestOf(draft, tool.name)) continue;
    WarnAboutCoveredMcpWrite(draft, i);
    for (const std::string& pattern : tool.patterns) {
      std::string path;
      for (const auto& segment : ParsePattern(pattern).segments) {
        path += '/';
        path += segment.is_capture ? kAnyValue : std::string_view(segment.text);
      }
      RouteTree::Found found;
      for (const std::string& method : tool.methods) {
        if (!reads[tool.backend]->Find(path, method, found)) continue;
        draft.problems.Warn(draft.ToolPlace(i, "match"), draft.ToolKey(i, "match"),
                            "the read " + found.entry->tool->name + " covers " + method + ' ' +
                                pattern +
                                " too; this write wins as the more specific one; keep "
                                "it so with a test: expect: { tool: " +
                                tool.name + " }");
      }
    }
  }
}

// Past the retention nothing can be replayed, whatever the window says; past the tombstones a
// repeat would be executed.
void CheckWindow(PolicyBuilder& draft, std::size_t index) {
  const LedgerRule& ledger = draft.policy.ledger;
  const Millis window = draft.policy.tools[index].dedupe_window;
  if (!draft.ToolHas(index, "dedupe_window") || window <= ledger.retention) return;
  if (window > ledger.retention + ledger.tombstones) {
    draft.problems.Error(draft.ToolPlace(index, "dedupe_window"),
                         draft.ToolKey(index, "dedupe_window"),
                         "is longer than ledger.retention and ledger.tombstones together: the key "
                         "is forgotten before, and a repeat would run again; accepted: up to their "
                         "sum");
    return;
  }
  draft.problems.Warn(draft.ToolPlace(index, "dedupe_window"),
                      draft.ToolKey(index, "dedupe_window"),
                      "is longer than ledger.retention: repeats that come later than that are told "
                      "that the key expired");
}

// The keys of one group are those of all its pods.
void CheckSharedKeys(PolicyBuilder& draft, std::size_t index) {
  const auto url = ParseLedgerUrl(draft.policy.ledger_place.url);
  if (!url || !url->is_shared()) return;
  const std::string of_group = "of the group " + draft.policy.ledger_place.group;
  if (draft.policy.tools[index].scope.kind == ScopeRule::Kind::kCaller) {
    draft.problems.Warn(draft.ToolPlace(index, "scope"), draft.ToolKey(index, "scope"),
                        "scope: caller takes in all pods " + of_group +
                            ": an equal call of a caller of that name at another pod is a repeat, "
                            "and callers that prove no name are one caller");
  }
  if (draft.ToolHas(index, "dedupe_window")) {
    draft.problems.Warn(
        draft.ToolPlace(index, "dedupe_window"), draft.ToolKey(index, "dedupe_window"),
        "takes in all pods " + of_group + ": an equal call at another pod within it is a repeat");
  }
}

}  // namespace

void CheckCaptures(PolicyBuilder& draft, std::size_t index, std::string_view word,
                   const std::vector<Selector>& selectors) {
  const bool is_named = draft.policy.tools[index].is_named();
  for (const Selector& selector : selectors) {
    if (!is_named || (selector.source != Source::kPath && selector.source != Source::kQuery))
      continue;
    draft.problems.Error(draft.ToolPlace(index, word), draft.ToolKey(index, word),
                         selector.text +
                             ": a call by name has no path and no query of its own; "
                             "accepted: body#/argument, header.Name");
  }
  for (const std::string& pattern : draft.policy.tools[index].patterns) {
    const RoutePattern route = ParsePattern(pattern);
    for (const Selector& selector : selectors) {
      if (selector.source != Source::kPath) continue;
      const bool found = std::any_of(route.segments.begin(), route.segments.end(),
                                     [&](const RoutePattern::Segment& segment) {
                                       return segment.is_capture && segment.text == selector.name;
                                     });
      if (found) continue;
      draft.problems.Error(
          draft.ToolPlace(index, word), draft.ToolKey(index, word),
          "path." + selector.name + ": " + pattern + " has no capture {" + selector.name + "}");
    }
  }
}

void Validate(PolicyBuilder& draft) {
  CheckAuthorities(draft);
  CheckBackendCredentials(draft);
  CheckRoutes(draft);
  CheckMcpNames(draft);
  const RouteTable routes(draft.policy);
  CheckQuotaNames(draft);
  CheckTunnels(draft, routes);
  CheckPathOwners(draft, routes);
  for (std::size_t i = 0; i < draft.policy.tools.size(); ++i) {
    Tool& tool = draft.policy.tools[i];
    if (tool.effect == Effect::kRead) {
      WarnAboutSlips(draft, i);
      continue;
    }
    const std::vector<std::string>& kept = draft.policy.ledger.keep_headers;
    tool.keep_headers.insert(tool.keep_headers.end(), kept.begin(), kept.end());
    CheckUndoIsStated(draft, i);
    CheckCredentials(draft, i);
    CheckRedact(draft, i);
    CheckFieldsSent(draft, i);
    CheckCaptures(draft, i, "identity", tool.identity);
    if (tool.external_ref) CheckCaptures(draft, i, "external_ref", {*tool.external_ref});
    CheckSameAs(draft, i);
    CheckForbidden(draft, i);
    CheckApproval(draft, i);
    CheckSettle(draft, i);
    CheckSuperseding(draft, i);
    CheckMcpTool(draft, routes, i);
    CheckBefore(draft, routes, i);
    CheckUndo(draft, routes, i);
    NoteUndoes(draft, i);
    CheckWindow(draft, i);
    CheckSharedKeys(draft, i);
    // Among errors they could be the consequence of one, such as a misspelled key_header.
    if (draft.problems.has_errors()) continue;
    WarnAboutPointers(draft, i);
    WarnAboutSlips(draft, i);
    WarnAboutKey(draft, i);
    WarnAboutKeyWithoutBody(draft, i);
    WarnAboutUnknown(draft, i);
    WarnAboutSetting(draft, i);
  }
  WarnAboutCoveredWrites(draft);
}

}  // namespace recourse
