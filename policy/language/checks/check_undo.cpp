// What an undo rule must agree with elsewhere in the policy.
#include <algorithm>

#include "policy/graphql/key_argument.h"
#include "policy/language/policy_builder.h"
#include "policy/model/approval_need.h"
#include "policy/model/endpoint.h"
#include "policy/model/route_table.h"
#include "policy/model/tool_names.h"
#include "policy/uri/path.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

using Source = Selector::Source;

// Whether some values make that path of it. Both begin with '/'.
bool MayBePath(const RequestTemplate& request, std::string_view path) {
  for (const auto& segment : request.path) {
    if (!path.starts_with('/')) return false;
    path.remove_prefix(1);
    const std::string_view wanted = path.substr(0, path.find('/'));
    path.remove_prefix(wanted.size());
    std::string literal;
    bool has_value = false;
    for (const auto& piece : segment) {
      literal += piece.literal;
      has_value = has_value || piece.selector.has_value();
    }
    if (!has_value && FoldPath(literal) != FoldPath(wanted)) return false;
  }
  return path.empty() || path == "/";
}

// The server whose endpoint the request is, or would be with some values; nullptr: none.
const Backend* EndpointOf(const Policy& policy, const RequestTemplate& request,
                          const Backend& backend) {
  const std::string& base = backend.base_path;
  for (const Backend& other : policy.backends) {
    if (!other.has_endpoint() || !IsSameServer(other, backend)) continue;
    const std::string_view endpoint = other.endpoint;
    const bool may_be =
        EndpointPathOf(other, base + SamplePath(request)) != EndpointPath::kOther ||
        (endpoint.starts_with(base) && MayBePath(request, endpoint.substr(base.size())));
    if (may_be) return &other;
  }
  return nullptr;
}

// The document of an undo is fixed text.
std::string_view WhyNoKeyInDocument(const RequestTemplate& request, const RequestPlace& at) {
  if (request.calls.empty() || !request.json || request.json->members.empty()) {
    return "only a request with `graphql` has a document";
  }
  const auto& [name, document] = request.json->members.front();
  if (name != "query") return "only a request with `graphql` has a document";
  const auto place = FindGraphqlKey(document.text.front().literal, at.name, at.argument);
  if (!place) return place.error();
  const bool is_taken = place->text || !place->variable.empty();
  return is_taken ? "the request has that place already" : std::string_view();
}

// A key that is written into an undo request needs a body there, and nothing in its place.
void CheckKeyInside(PolicyBuilder& draft, std::size_t index, const RequestTemplate& request,
                    const RequestPlace& at) {
  if (!at.is_inside()) return;
  const auto error = [&](std::string message) {
    draft.problems.Error(draft.ToolPlace(index, "undo"), draft.ToolKey(index, "undo") + ".key_at",
                         std::move(message));
  };
  const auto names = [&](const auto& pairs, std::string_view name) {
    return std::ranges::any_of(pairs, [name](const auto& pair) { return pair.first == name; });
  };
  const std::string first =
      MemberName(std::string_view(at.name).substr(1, std::string_view(at.name).find('/', 1) - 1));
  if (at.is_in_document()) {
    if (const auto why = WhyNoKeyInDocument(request, at); !why.empty()) error(std::string(why));
  } else if (!request.calls.empty()) {
    error("a call by name has room for a key in its header only");
  } else if (at.where == RequestPlace::Where::kQuery) {
    if (names(request.query, at.name)) error("the request has that place already");
  } else if (request.json && request.json->kind == Json::Kind::kObject) {
    if (names(request.json->members, first)) error("the request has that place already");
  } else if (request.form.empty()) {
    error("the request has no body that is an object or a form, so no key can be written there");
  } else if (names(request.form, first)) {
    error("the request has that place already");
  }
}

void CheckMethodAndKey(PolicyBuilder& draft, std::size_t index, const UndoRule& undo) {
  const Tool& tool = draft.policy.tools[index];
  const Backend& backend = draft.policy.backends[tool.backend];
  const auto error = [&](std::string message) {
    draft.problems.Error(draft.ToolPlace(index, "undo"), draft.ToolKey(index, "undo"),
                         std::move(message));
  };
  const KeyRule& rule = KeyRuleOfUndo(&undo, backend);
  if (undo.repeatable == Repeatable::kByKey && !rule.at.exists()) {
    error("`repeatable: by_key` needs a backend with key_header or key_at; " + backend.name +
          " has none; say false, or true if a second one does no harm");
  }
  if (undo.request.method == "GET" || undo.request.method == "HEAD") {
    error("a GET or HEAD takes nothing back");
  }
  const auto is_key = [&](const std::string& name) { return rule.at.IsField(name); };
  const auto& headers = undo.request.headers;
  if (std::any_of(headers.begin(), headers.end(), [&](const auto& h) { return is_key(h.first); }) ||
      std::any_of(undo.secrets.begin(), undo.secrets.end(),
                  [&](const SecretHeader& secret) { return is_key(secret.name); })) {
    error(rule.at.name + " is the backend's key_header: an undo request gets a key of its own");
  }
  CheckKeyInside(draft, index, undo.request, rule.at);
  if (undo.then_probe && !draft.HasSettle(index)) {
    error(
        "then_probe asks by the tool's `settle` whether the effect is gone, and there is none: "
        "settle: { request: \"GET /orders?client_ref={body#/client_ref}\", happened: "
        "answer.body#/items/0/id }");
  }
}

// The tool that the undo request would be as an agent's call, or nullptr.
const Tool* ToolOf(const RequestTemplate& request, const Backend& backend,
                   const RouteTable& routes) {
  if (!request.calls.empty()) return routes.FindCalledTool(backend, request.calls);
  std::string scratch;
  const auto match = routes.Match(backend, request.method, SamplePath(request), scratch);
  return match ? match->tool : nullptr;
}

// An undo request goes to the backend directly. What it would be as a call tells whether it can
// stand alone: nobody approves it. That the tool has an undo of its own is no matter: of opposites
// (pin and unpin) each undoes the other.
void CheckRoute(PolicyBuilder& draft, const RouteTable& routes, std::size_t index,
                const RequestTemplate& request) {
  const Tool& tool = draft.policy.tools[index];
  const Backend& backend = draft.policy.backends[tool.backend];
  const auto error = [&](std::string message) {
    draft.problems.Error(draft.ToolPlace(index, "undo"), draft.ToolKey(index, "undo"),
                         std::move(message));
  };
  const Backend* const endpoint =
      request.calls.empty() ? EndpointOf(draft.policy, request, backend) : nullptr;
  if (endpoint != nullptr) {
    error("this path is the endpoint of " + endpoint->name +
          ", or may become it; only a tool that is called by its name is undone by such a call");
  }
  const Tool* const called = ToolOf(request, backend, routes);
  if (called == nullptr && !request.calls.empty()) {
    draft.problems.Warn(draft.ToolPlace(index, "undo"),
                        draft.ToolKey(index, "undo") + (backend.is_mcp() ? ".call" : ".graphql"),
                        "no tool of this policy is " +
                            std::string(backend.is_mcp() ? kToolsCall : kMutation) + ' ' +
                            backend.name + ' ' + request.calls +
                            "; is it spelled so? List it with `effect: write`");
  }
  if (called == nullptr) return;
  // What puts a call back that a human has approved needs no word of its own.
  const bool puts_back = called == &tool && tool.before;
  if (AsksAboutCalls(*called) && !puts_back) {
    error("this request is tool " + called->name +
          ", which needs approval; an undo runs without a human");
  } else if (called->effect == Effect::kRead && !request.calls.empty()) {
    error("this request is tool " + called->name + ", a read, which takes nothing back");
  }
}

void CheckUndoWindow(PolicyBuilder& draft, std::size_t index) {
  const std::optional<Millis>& window = draft.policy.tools[index].undo->window;
  if (!window || *window <= draft.policy.ledger.retention) return;
  draft.problems.Error(draft.ToolPlace(index, "undo"), draft.ToolKey(index, "undo") + ".window",
                       "is longer than ledger.retention: the undo request is forgotten before; "
                       "accepted: up to the retention");
}

// It is asked when nothing but the step's row and the answer to its undo are there.
void CheckSettledBy(PolicyBuilder& draft, std::size_t index, const SettledByRule& rule) {
  const auto places = SelectorsOf(rule.request);
  CheckCaptures(draft, index, "undo", places);
  for (const Selector& place : places) {
    const bool is_known = place.source == Source::kPath || place.source == Source::kExternalRef ||
                          place.source == Source::kKey || place.source == Source::kAnswerBody ||
                          place.source == Source::kAnswerHeader;
    if (is_known) continue;
    draft.problems.Error(draft.ToolPlace(index, "undo"),
                         draft.ToolKey(index, "undo") + ".settled_by",
                         "{" + place.text +
                             "} is not known by then; use {path.name}, {external_ref}, or "
                             "{answer.body#/pointer} of the answer to the undo");
  }
}

// Unknown steps are settled without the call: what the settle request does not carry is gone.
void WarnAboutSettledCredentials(PolicyBuilder& draft, std::size_t index, const UndoRule& undo) {
  const Tool& tool = draft.policy.tools[index];
  if (!tool.settle) return;
  const auto selectors = SelectorsOf(undo.request);
  const bool waits = std::any_of(selectors.begin(), selectors.end(), [](const Selector& selector) {
    return selector.source == Source::kExternalRef || selector.source == Source::kAnswerBody ||
           selector.source == Source::kAnswerHeader;
  });
  if (!waits) return;
  for (const std::string& name : undo.from_call) {
    const auto& headers = tool.settle->request.headers;
    if (std::any_of(headers.begin(), headers.end(),
                    [&name](const auto& header) { return EqualsIgnoreCase(header.first, name); })) {
      continue;
    }
    draft.problems.Warn(draft.ToolPlace(index, "settle"), draft.ToolKey(index, "settle"),
                        "is sent without " + name +
                            ", and the undo of a write that it settles would be, too; add "
                            "headers: { " +
                            name + ": \"{header." + name + "}\" }, or take the undo's " +
                            "credentials from a file");
  }
}

// By its name: how much of something.
bool IsQuantity(std::string_view pointer) {
  static constexpr std::string_view kNames[] = {"amount", "count", "price", "quantity",
                                                "sum",    "total", "units", "value"};
  const std::string name = ToLower(pointer.substr(pointer.rfind('/') + 1));
  return std::ranges::any_of(kNames, [&](std::string_view one) { return name.contains(one); });
}

// The backend may have taken another value than the one that was asked for.
void WarnAboutTwoSources(PolicyBuilder& draft, std::size_t index, const UndoRule& undo) {
  const Tool& tool = draft.policy.tools[index];
  const auto read = SelectorsOf(undo.request);
  for (const Selector& selector : read) {
    if (selector.source != Source::kAnswerBody || !IsQuantity(selector.name)) continue;
    const auto is_twin = [&](const Selector& other) {
      return other.source == Source::kBody && other.name == selector.name;
    };
    if (std::any_of(read.begin(), read.end(), is_twin) ||
        std::any_of(tool.identity.begin(), tool.identity.end(), is_twin)) {
      draft.problems.Warn(draft.ToolPlace(index, "undo"), draft.ToolKey(index, "undo"),
                          selector.text + " may be another value than body#" + selector.name +
                              ", which the call asked for; make sure that the undo takes back "
                              "what was really done");
    }
  }
}

// A segment that is the same for every call; empty: it has a value.
std::string FixedSegment(const RequestTemplate::Text& segment) {
  std::string literal;
  for (const auto& piece : segment) {
    if (piece.selector) return {};
    literal += piece.literal;
  }
  return literal;
}

// "/v1/orders/{external_ref}": orders.
std::string CollectionOf(const RequestTemplate& request) {
  std::string collection, last;
  for (const auto& segment : request.path) {
    if (const std::string fixed = FixedSegment(segment); !fixed.empty()) {
      last = fixed;
    } else {
      collection = last;
    }
  }
  return collection;
}

bool HasSegment(std::string_view path, std::string_view segment) {
  return (std::string(path) + '/').contains('/' + std::string(segment) + '/');
}

// A backend says 404 of a misspelled path too, and the undo would be over with nothing undone.
void WarnAboutMisspelledPath(PolicyBuilder& draft, std::size_t index, const UndoRule& undo) {
  const Tool& tool = draft.policy.tools[index];
  const std::string collection = CollectionOf(undo.request);
  if (!undo.done.Contains(404) || undo.then_probe || !undo.request.calls.empty()) return;
  if (collection.empty() || tool.is_named()) return;
  const bool is_known = std::ranges::any_of(draft.policy.tools, [&](const Tool& other) {
    return other.backend == tool.backend &&
           std::ranges::any_of(other.patterns, [&](const std::string& pattern) {
             return HasSegment(pattern, collection);
           });
  });
  const bool is_read = (tool.settle && HasSegment(SamplePath(tool.settle->request), collection)) ||
                       (tool.before && HasSegment(SamplePath(tool.before->request), collection));
  if (is_known || is_read) return;
  draft.problems.Warn(draft.ToolPlace(index, "undo"), draft.ToolKey(index, "undo") + ".request",
                      "no path of a tool, of `settle` or of `before` has '" + collection +
                          "', and with 404 in `done` a misspelled path would pass for undone; is "
                          "it spelled so?");
}

}  // namespace

std::string SamplePath(const RequestTemplate& request) {
  std::string path;
  for (const auto& segment : request.path) {
    path += '/';
    for (const auto& piece : segment) path += piece.selector ? kAnyValue : piece.literal;
  }
  return path;
}

void CheckUndo(PolicyBuilder& draft, const RouteTable& routes, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  if (!tool.undo || !HasMatch(tool)) return;
  for (const UndoRule* const undo : UndosOf(tool)) {
    std::vector<Selector> places = SelectorsOf(undo->request);
    for (const Condition& condition : undo->when) places.push_back(condition.left);
    CheckCaptures(draft, index, "undo", places);
    CheckMethodAndKey(draft, index, *undo);
    CheckRoute(draft, routes, index, undo->request);
    if (undo->settled_by) CheckSettledBy(draft, index, *undo->settled_by);
    WarnAboutSettledCredentials(draft, index, *undo);
    WarnAboutTwoSources(draft, index, *undo);
    WarnAboutMisspelledPath(draft, index, *undo);
  }
  CheckUndoWindow(draft, index);
}

}  // namespace recourse
