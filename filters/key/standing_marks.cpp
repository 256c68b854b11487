#include "filters/key/standing_marks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "filters/call/redirect.h"
#include "filters/key/canonical_args.h"
#include "policy/uri/opposites.h"
#include "policy/uri/path.h"
#include "proxy/base/json/json_canonical.h"

namespace recourse {
namespace {

constexpr std::string_view kResourceVersion = "recourse-resource-1";
constexpr std::string_view kActionVersion = "recourse-action-1";
constexpr std::string_view kCallVersion = "recourse-call-1";
constexpr std::string_view kToolVersion = "recourse-tool-1";
constexpr std::string_view kMemberVersion = "recourse-member-1";

// Verbs of one name that are looked at; hardly any has two.
constexpr int kVerbsMax = 2;

void AddMark(std::vector<Mark>& marks, const Digest& digest) {
  if (marks.size() < kMarksMax) marks.push_back(MarkOf(digest));
}

// Query and body, without the path and the name that is called. No body and an empty object are
// one.
std::string OtherArguments(const KeyInputs& inputs) {
  static const std::string kNothing;
  const CallBody& body = inputs.body;
  std::string text;
  if (!body.call_name.empty()) {
    AppendCanonicalJson(text, body.json, inputs.tool.ignore);
    return text;
  }
  static const CallBody kNoBody;
  const bool is_empty = body.form == BodyForm::kJson && body.json.kind == Json::Kind::kObject &&
                        body.json.members.empty();
  return CanonicalArgs({kNothing, kNothing, inputs.request.target, inputs.query,
                        is_empty ? kNoBody : body, is_empty ? kNothing : inputs.request.body,
                        inputs.tool.ignore});
}

struct NamedAction {
  std::string parent;  // the path before its last segment
  std::vector<std::string> words;
};

NamedAction ActionOf(const KeyInputs& inputs) {
  if (!inputs.body.call_name.empty()) return {{}, WordsOf(inputs.body.call_name)};
  std::string_view path = inputs.path;
  while (path.ends_with('/')) path.remove_suffix(1);
  const auto slash = path.rfind('/');
  if (slash == path.npos) return {};
  return {std::string(path.substr(0, slash)), WordsOf(path.substr(slash + 1))};
}

// A verb of the name leaves a mark, and those of its opposites on the same thing end it.
// `arguments`: OtherArguments; empty: not made yet.
void AddActions(const KeyInputs& inputs, std::string arguments, Standing& stands) {
  NamedAction action = ActionOf(inputs);
  int verbs = 0;
  for (std::string& word : action.words) {
    const auto opposites = OppositesOf(word);
    if (opposites.empty() || ++verbs > kVerbsMax) continue;
    if (arguments.empty()) arguments = OtherArguments(inputs);
    const std::string verb = std::exchange(word, {});
    std::string thing;
    for (const std::string& each : action.words) AppendPart(thing, each);
    word = verb;
    const Sha256Sum done =
        inputs.secret.Begin({kActionVersion, inputs.backend, action.parent, thing, arguments});
    AddMark(stands.leaves, inputs.secret.OfPartBehind(done, verb));
    for (const std::string_view opposite : opposites) {
      AddMark(stands.ended_by, inputs.secret.OfPartBehind(done, opposite));
    }
  }
}

Digest ToolMark(const HmacKey& secret, const std::string& tool,
                const std::vector<std::string>& names, const Pairs& captures, bool& has_all) {
  std::string values;
  has_all = true;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(captures, name, &Pairs::value_type::first);
    has_all = has_all && found != captures.end();
    AppendPart(values, name);
    AppendPart(values, found == captures.end() ? std::string() : found->second);
  }
  return secret.OfParts({kToolVersion, tool, values});
}

// As `superseded_by` says.
void AddTools(const KeyInputs& inputs, Standing& stands) {
  stands.by_others = inputs.tool.superseded_by_others;
  bool has_all = true;
  if (inputs.tool.supersedes_others) {
    std::vector<std::string> names;
    for (const auto& capture : inputs.captures) names.push_back(capture.first);
    std::ranges::sort(names);
    AddMark(stands.leaves, ToolMark(inputs.secret, inputs.tool_name, {}, inputs.captures, has_all));
    if (!names.empty()) {
      AddMark(stands.leaves,
              ToolMark(inputs.secret, inputs.tool_name, names, inputs.captures, has_all));
    }
  }
  for (const EndingTool& ending : inputs.tool.superseded_by) {
    const Digest of_same =
        ToolMark(inputs.secret, ending.name, ending.captures, inputs.captures, has_all);
    bool is_whole = true;
    AddMark(
        stands.ended_by,
        has_all ? of_same : ToolMark(inputs.secret, ending.name, {}, inputs.captures, is_whole));
  }
}

std::uint32_t Short(const Digest& digest) {
  std::uint32_t value = 0;
  std::memcpy(&value, digest.data(), sizeof value);
  return value;
}

void AddMembers(const KeyInputs& inputs, Standing& stands) {
  const CallBody& body = inputs.body;
  if (body.form != BodyForm::kJson || body.json.kind != Json::Kind::kObject) return;
  stands.members = Members::kUnknown;
  if (body.json.members.size() > kMembersMax) return;
  stands.members = Members::kListed;
  for (const auto& [name, value] : body.json.members) {
    const std::string text = CanonicalJson(value);
    stands.values.push_back({Short(inputs.secret.OfParts({kMemberVersion, name})),
                             Short(inputs.secret.OfParts({kMemberVersion, name, text}))});
  }
}

// A call by name, by that and all its arguments.
Digest CallMark(const HmacKey& secret, const std::string& backend, const CallBody& body,
                std::string_view arguments) {
  return secret.OfParts({kCallVersion, backend, body.call_name, arguments});
}

std::optional<Digest> ResourceOfTarget(const HmacKey& secret, const Backend& backend,
                                       std::string_view target) {
  const auto mark = std::min(target.find('?'), target.size());
  std::string scratch;
  const auto form = FormOf(target.substr(0, mark), scratch);
  if (!form) return std::nullopt;
  const Pairs query = mark < target.size() ? ParsePairs(target.substr(mark + 1)) : Pairs();
  return ResourceOf(secret, backend.name, form->path, query);
}

void AddPlace(const HmacKey& secret, const EffectFacts& facts, std::string_view target,
              Transition& transition) {
  const auto resource = ResourceOfTarget(secret, facts.backend, target);
  if (!resource) return;
  const Mark mark = MarkOf(*resource);
  if (std::ranges::find(transition.made, mark) == transition.made.end()) {
    AddMark(transition.made, *resource);
  }
}

// The agent may make the undo request by itself. A path that does not name the effect undoes one or
// another, as its body says, which nobody compares.
void AddUndo(const HmacKey& secret, const EffectFacts& facts, Transition& transition) {
  const RenderedRequest& undo = *transition.undo;
  if (facts.backend.has_endpoint()) {
    const HttpRequest request{undo.method, undo.target, undo.headers, undo.body};
    const auto body = ReadCallBody(facts.backend, request);
    if (body && body->calls_tool()) {
      AddMark(transition.ended_by,
              CallMark(secret, facts.backend.name, *body, CanonicalJson(body->json)));
    }
    return;
  }
  const auto resource = ResourceOfTarget(secret, facts.backend, undo.target);
  if (!resource) return;
  transition.undo_resource = MarkOf(*resource);
  const bool names_effect =
      !transition.external_ref.empty() &&
      undo.target.find(PercentEncode(transition.external_ref)) != std::string::npos;
  if (!names_effect) return;
  AddPlace(secret, facts, undo.target, transition);
  if (undo.method == "DELETE") return;
  transition.ended_by.push_back(MarkOn(transition.undo_resource, KindOfMethod(undo.method)));
}

}  // namespace

Digest ResourceOf(const HmacKey& secret, const std::string& backend, std::string_view path,
                  Pairs query) {
  std::erase_if(query, [](const auto& pair) { return IsPrincipalParameter(pair.first); });
  std::ranges::sort(query);
  std::string text;
  for (const auto& [name, value] : query) {
    AppendPart(text, name);
    AppendPart(text, value);
  }
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return secret.OfUsualParts({kResourceVersion, backend, path, text});
}

Standing StandingOf(const KeyInputs& inputs) {
  Standing stands;
  const bool is_named = !inputs.body.call_name.empty();
  stands.kind = is_named ? WriteKind::kCall : KindOfMethod(inputs.request.method);
  std::string arguments;
  if (is_named) {
    AppendCanonicalJson(arguments, inputs.body.json, {});
    AddMark(stands.leaves, CallMark(inputs.secret, inputs.backend, inputs.body, arguments));
    if (!inputs.tool.ignore.empty()) arguments.clear();
  }
  AddActions(inputs, std::move(arguments), stands);
  AddTools(inputs, stands);
  if (stands.kind == WriteKind::kPatch) AddMembers(inputs, stands);
  return stands;
}

void AddEffect(const EffectFacts& facts, const HmacKey& secret, const Event& dispatching,
               Transition& transition) {
  const WriteKind kind = dispatching.stands.kind;
  if (kind == WriteKind::kNone || !MayHaveEffect(transition.to)) return;
  if (transition.undo) AddUndo(secret, facts, transition);
  if (IsIdempotent(kind) || kind == WriteKind::kPatch || facts.backend.has_endpoint()) return;
  if (!transition.external_ref.empty()) {
    std::string place(facts.path);
    while (place.ends_with('/')) place.pop_back();
    AddPlace(secret, facts, place + '/' + PercentEncode(transition.external_ref), transition);
  }
  const std::string* const location =
      facts.answer == nullptr ? nullptr : FindHeader(facts.answer->headers, "Location");
  if (location == nullptr || facts.policy == nullptr) return;
  if (auto place = PathOnBackend(*facts.policy, facts.backend, facts.path, *location)) {
    AddPlace(secret, facts, *place, transition);
  }
}

}  // namespace recourse
