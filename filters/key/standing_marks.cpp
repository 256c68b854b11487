#include "filters/key/standing_marks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "filters/call/redirect.h"
#include "filters/key/canonical_args.h"
#include "filters/key/door_marks.h"
#include "filters/key/dry_run.h"
#include "filters/key/undo_marks.h"
#include "filters/ledger/model/standing_notes.h"
#include "policy/model/principal.h"
#include "policy/undo/undo_choice.h"
#include "policy/undo/undo_names.h"
#include "policy/uri/opposites.h"
#include "policy/uri/path.h"
#include "proxy/base/http/argument_fields.h"
#include "proxy/base/latest_texts.h"

namespace recourse {
namespace {

constexpr std::string_view kResourceVersion = "recourse-resource-1";
constexpr std::string_view kActionVersion = "recourse-action-1";
constexpr std::string_view kCallVersion = "recourse-call-1";
constexpr std::string_view kToolVersion = "recourse-tool-1";
constexpr std::string_view kMemberVersion = "recourse-member-1";
constexpr std::string_view kTenantVersion = "recourse-tenants-1";
constexpr std::string_view kContentVersion = "recourse-content-1";
constexpr std::string_view kPreconditionVersion = "recourse-precondition-1";

// Verbs of one name that are looked at; hardly any has two.
constexpr int kVerbsMax = 2;

// Of the members of an undo request so many are noted, or none.
constexpr std::size_t kUndoMembersMax = 4;
constexpr int kTakenOnStatus = 202;

// Each thread knows the content of so many calls.
constexpr std::size_t kContents = 1024;

// Parameters that say nothing of what a write is about. Fewer than IsPrincipalParameter knows: what
// may be an argument (`session`) may narrow a DELETE, and rows of earlier versions know these.
constexpr std::string_view kPlainCredentials[] = {"api_key",       "apikey",
                                                  "api-key",       "key",
                                                  "access_token",  "token",
                                                  "auth",          "sig",
                                                  "signature",     "x-amz-signature",
                                                  "auth_token",    "oauth_token",
                                                  "private_token", "x-amz-security-token"};

bool IsPlainCredential(std::string_view name) {
  return std::ranges::find(kPlainCredentials, ToLower(name)) != std::end(kPlainCredentials);
}

// As text; empty: there are none, as in the marks of earlier versions.
std::string TextOf(std::uint64_t tenants) {
  if (tenants == 0) return {};
  return std::string(reinterpret_cast<const char*>(&tenants), sizeof tenants);
}

void AddMark(std::vector<Mark>& marks, const Digest& digest) {
  if (marks.size() < kMarksMax) marks.push_back(MarkOf(digest));
}

// Query and body, without the path and the name that is called. No body and an empty object are
// one.
std::string OtherArguments(const KeyInputs& inputs) {
  static const std::string kNothing;
  const CallBody& body = inputs.body;
  if (!body.call_name.empty()) return inputs.JsonTextWithout(inputs.tool.ignore);
  static const CallBody kNoBody;
  const bool is_empty = body.form == BodyForm::kJson && body.json.kind == Json::Kind::kObject &&
                        body.json.members.empty();
  return CanonicalArgs({kNothing, kNothing, inputs.request.target, inputs.query,
                        is_empty ? kNoBody : body, inputs.JsonTextWithout(inputs.tool.ignore),
                        is_empty ? kNothing : inputs.request.body, inputs.tool.ignore});
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
void AddActions(const KeyInputs& inputs, Standing& stands) {
  const std::uint64_t tenants = NoteIn(stands, NoteKind::kTenants).value_or(0);
  NamedAction action = ActionOf(inputs);
  std::optional<std::string> arguments;  // of a name with a verb
  int verbs = 0;
  for (std::string& word : action.words) {
    const auto opposites = OppositesOf(word);
    if (opposites.empty() || ++verbs > kVerbsMax) continue;
    if (!arguments) arguments = OtherArguments(inputs);
    const std::string verb = std::exchange(word, {});
    std::string thing;
    for (const std::string& each : action.words) AppendPart(thing, each);
    word = verb;
    if (tenants != 0) AppendPart(thing, TextOf(tenants));
    const Sha256Sum done =
        inputs.secret.Begin({kActionVersion, inputs.backend, action.parent, thing, *arguments});
    AddMark(stands.leaves, inputs.secret.OfPartBehind(done, verb));
    stands.ended_by.reserve(kMarksMax);
    for (const std::string_view opposite : opposites) {
      AddMark(stands.ended_by, inputs.secret.OfPartBehind(done, opposite));
    }
  }
}

Digest ToolMark(const HmacKey& secret, const std::string& tool,
                const std::vector<std::string>& names, const Pairs& captures, std::uint64_t tenants,
                bool& has_all) {
  std::string values = TextOf(tenants);
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
  const std::uint64_t tenants = NoteIn(stands, NoteKind::kTenants).value_or(0);
  const auto mark = [&](const std::string& tool, const std::vector<std::string>& captures,
                        bool& has_all) {
    return ToolMark(inputs.secret, tool, captures, inputs.captures, tenants, has_all);
  };
  bool has_all = true;
  if (inputs.tool.supersedes_others) {
    std::vector<std::string> names;
    for (const auto& capture : inputs.captures) names.push_back(capture.first);
    // Of whatever it is about, of the thing that has that, and of that alone.
    std::vector<std::string> holder = names;
    if (!holder.empty()) holder.pop_back();
    for (std::vector<std::string>* const each : {&names, &holder}) std::ranges::sort(*each);
    AddMark(stands.leaves, mark(inputs.tool_name, {}, has_all));
    if (!holder.empty()) AddMark(stands.leaves, mark(inputs.tool_name, holder, has_all));
    if (!names.empty()) AddMark(stands.leaves, mark(inputs.tool_name, names, has_all));
  }
  const std::size_t declared = inputs.tool.superseded_by.size();
  if (declared > 0) stands.ended_by.push_back(NoteOf(NoteKind::kDeclared, declared));
  for (const EndingTool& ending : inputs.tool.superseded_by) {
    const Digest of_same = mark(ending.name, ending.captures, has_all);
    bool is_whole = true;
    AddMark(stands.ended_by, has_all ? of_same : mark(ending.name, {}, is_whole));
  }
}

std::uint32_t Short(const Digest& digest) {
  std::uint32_t value = 0;
  std::memcpy(&value, digest.data(), sizeof value);
  return value;
}

void AddMembers(const KeyInputs& inputs, Standing& stands) {
  const CallBody& body = inputs.body;
  stands.members = Members::kUnknown;
  const bool is_object = body.form == BodyForm::kJson && body.json.kind == Json::Kind::kObject;
  if (!is_object || body.json.members.size() > kMembersMax) return;
  stands.members = Members::kListed;
  for (const auto& member : body.json.members) {
    stands.values.push_back(MemberOf(inputs.secret, member));
  }
}

bool IsEmptyBody(const CallBody& body, const std::string& raw) {
  return raw.empty() || (body.form == BodyForm::kJson && body.json.kind == Json::Kind::kObject &&
                         body.json.members.empty());
}

std::uint64_t NumberOf(const Digest& digest) {
  std::uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return number;
}

// Tells one request to a resource from another one there.
std::uint64_t ContentOf(const HmacKey& secret, const std::string& method, std::string_view text) {
  return NumberOf(secret.OfParts({kContentVersion, method, text}));
}

// A repeat is the content of its first call, and was hashed with that. `args_hash` tells it, where
// that is of all of a body.
std::uint64_t ContentOfCall(const KeyInputs& inputs, const Digest& args_hash) {
  const CallBody& body = inputs.body;
  const std::string& raw = inputs.request.body;
  const bool is_json = body.form == BodyForm::kJson;
  const std::string_view text = IsEmptyBody(body, raw) ? std::string_view()
                                : is_json              ? inputs.JsonText()
                                                       : std::string_view(raw);
  const bool is_told = is_json && inputs.tool.ignore.empty() && body.placed_key.empty();
  const std::string& method = inputs.request.method;
  if (!is_told) return ContentOf(inputs.secret, method, text);
  static constexpr auto kMake = [](std::string_view, const HmacKey& secret, const std::string& of,
                                   std::string_view what) { return ContentOf(secret, of, what); };
  return LatestOf<kMake, sizeof(Digest), kContents>(AsView(args_hash), inputs.secret, method, text);
}

// 0: there are none.
std::uint64_t DigestOf(const HmacKey& secret, const Headers& preconditions) {
  if (preconditions.empty()) return 0;
  std::string text;
  for (const auto& [name, value] : preconditions) {
    AppendPart(text, name);
    AppendPart(text, value);
  }
  return NumberOf(secret.OfParts({kPreconditionVersion, text}));
}

std::optional<Digest> ResourceOfTarget(const HmacKey& secret, const EffectFacts& facts,
                                       std::string_view target) {
  return ResourceOfTarget(secret, facts.backend.name, facts.tenants, target);
}

void AddPlace(const HmacKey& secret, const EffectFacts& facts, std::string_view target,
              Transition& transition) {
  const auto resource = ResourceOfTarget(secret, facts, target);
  if (!resource) return;
  const Mark mark = MarkOf(*resource);
  if (std::ranges::find(transition.made, mark) == transition.made.end()) {
    AddMark(transition.made, *resource);
  }
}

// What the call made, or set, as its answer names it.
void AddPlacesOfAnswer(const HmacKey& secret, const EffectFacts& facts, bool is_taken_on,
                       Transition& transition) {
  if (!transition.external_ref.empty()) {
    std::string place(facts.path);
    while (place.ends_with('/')) place.pop_back();
    AddPlace(secret, facts, place + '/' + PercentEncode(transition.external_ref), transition);
  }
  const std::string* const location =
      facts.answer == nullptr ? nullptr : FindHeader(facts.answer->headers, "Location");
  // Of what is only taken on it names where that can be watched (RFC 9110 15.3.3).
  if (location == nullptr || facts.policy == nullptr || is_taken_on) return;
  if (auto place = PathOnBackend(*facts.policy, facts.backend, facts.path, *location)) {
    AddPlace(secret, facts, *place, transition);
  }
}

// Of what is written to the place of the undo request only that request undoes for certain.
void NoteUndo(const HmacKey& secret, const CallBody& body, const RenderedRequest& undo,
              Transition& transition) {
  auto& notes = transition.ended_by;
  notes.push_back(MarkOn(transition.undo_resource, KindOfMethod(undo.method)));
  const bool is_json = body.form == BodyForm::kJson;
  const std::string text = IsEmptyBody(body, undo.body) ? std::string()
                           : is_json                    ? CanonicalJson(body.json)
                                                        : undo.body;
  notes.push_back(NoteOf(NoteKind::kUndoContent, ContentOf(secret, undo.method, text)));
  const bool has_members = body.form == BodyForm::kJson && body.json.kind == Json::Kind::kObject &&
                           body.json.members.size() <= kUndoMembersMax;
  if (undo.method != "PATCH" || !has_members) return;
  for (const auto& member : body.json.members) {
    notes.push_back(NoteOf(NoteKind::kUndoMember, AsNote(MemberOf(secret, member))));
  }
}

// Servers read these characters of a segment alike, escaped or not (RFC 3986 2.2 leaves it to
// them).
std::string OneSpelling(std::string_view path) {
  constexpr std::string_view kAlike = ":@!$&'()*+,;=";
  std::string spelled, one;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool is_escape = path[i] == '%' && PercentDecode(path.substr(i, 3), one);
    const bool is_alike = is_escape && one.size() == 1 && kAlike.contains(one.front());
    spelled += is_alike ? one.front() : path[i];
    if (is_alike) i += 2;
  }
  return spelled;
}

// The path of a call that has a query, without it.
std::optional<Mark> WholeOf(const KeyInputs& inputs, std::uint64_t tenants) {
  const bool has_query = std::ranges::any_of(
      inputs.query, [](const auto& pair) { return !IsPlainCredential(pair.first); });
  if (!has_query || !inputs.body.call_name.empty()) return std::nullopt;
  return MarkOf(ResourceOf(inputs.secret, inputs.backend, inputs.path, {}, tenants));
}

// What is written to the same path with another query, or with none, may have ended it.
void AddWhole(const KeyInputs& inputs, Standing& stands) {
  const auto whole = WholeOf(inputs, NoteIn(stands, NoteKind::kTenants).value_or(0));
  if (!whole) return;
  std::vector<WriteKind> kinds = EndingKinds(stands);
  if (stands.kind == WriteKind::kPatch) kinds.push_back(WriteKind::kPatch);
  stands.ended_by.push_back(NoteOf(NoteKind::kWhole, kinds.size()));
  for (const WriteKind kind : kinds) stands.ended_by.push_back(MarkOn(*whole, kind));
}

// Where MOVE and COPY read and write (RFC 4918 9.8, 9.9).
struct Transfer {
  Mark source{}, destination{};
};
std::optional<Transfer> TransferOf(const KeyInputs& inputs, std::uint64_t tenants) {
  const HttpRequest& request = inputs.request;
  const bool is_transfer = request.method == "MOVE" || request.method == "COPY";
  const std::string* const field =
      is_transfer ? FindHeader(request.headers, "Destination") : nullptr;
  if (field == nullptr) return std::nullopt;
  std::string_view target = *field;
  if (const auto scheme = target.find("://"); scheme != target.npos) {
    target.remove_prefix(std::min(target.find('/', scheme + 3), target.size()));
  }
  if (!target.starts_with('/')) return std::nullopt;
  const auto place = ResourceOfTarget(inputs.secret, inputs.backend, tenants, target);
  if (!place) return std::nullopt;
  const Digest source =
      ResourceOf(inputs.secret, inputs.backend, inputs.path, inputs.query, tenants);
  return Transfer{MarkOf(source), MarkOf(*place)};
}

// Its answer is true until something else is written to either place.
void AddTransfer(const KeyInputs& inputs, Standing& stands) {
  const auto transfer = TransferOf(inputs, NoteIn(stands, NoteKind::kTenants).value_or(0));
  if (!transfer) return;
  using enum WriteKind;
  for (const WriteKind kind : {kPut, kDelete, kPatch, kPost}) {
    if (kind != kDelete) stands.ended_by.push_back(MarkOn(transfer->source, kind));
    stands.ended_by.push_back(MarkOn(transfer->destination, kind));
  }
}

bool IsPostedState(const Event& dispatching) {
  return dispatching.stands.kind == WriteKind::kPatch && dispatching.method == "POST";
}

// The agent may make the undo request by itself.
void AddUndo(const HmacKey& secret, const EffectFacts& facts, const Event& dispatching,
             Transition& transition) {
  const RenderedRequest& undo = *transition.undo;
  const Tool* const tool =
      facts.policy == nullptr ? nullptr : facts.policy->FindTool(dispatching.tool);
  const OwnUndo own{tool, UndoOf(tool, undo), dispatching};
  const HttpRequest request{undo.method, undo.target, undo.headers, undo.body};
  if (facts.backend.has_endpoint()) {
    const auto body = ReadCallBody(facts.backend, request);
    const bool is_call = body && body->calls_tool();
    if (is_call) NoteUndoCall(secret, facts, own, *body, transition);
    return AddDoorEnds(secret, facts, dispatching, is_call ? &*body : nullptr, transition);
  }
  const auto resource = ResourceOfTarget(secret, facts, undo.target);
  // What sets a value is ended by what sets another one, and by nothing else.
  if (!resource || IsPostedState(dispatching)) return;
  transition.undo_resource = MarkOf(*resource);
  const bool has_reference =
      !transition.external_ref.empty() &&
      undo.target.find(PercentEncode(transition.external_ref)) != std::string::npos;
  const bool names_effect =
      has_reference || (own.rule != nullptr && NamesEffectInTarget(*tool, *own.rule));
  if (!names_effect) {
    const auto body = ReadCallBody(facts.backend, request);
    if (body) NoteUndoRequest(secret, own, *resource, *body, transition);
    return;
  }
  AddPlace(secret, facts, undo.target, transition);
  const Mark place = MarkOn(transition.undo_resource, KindOfMethod(undo.method));
  const auto& known = dispatching.stands.ended_by;
  const bool is_noted = std::ranges::find(known, place) != known.end();
  if (undo.method == "DELETE" || is_noted) return;
  const auto body = ReadCallBody(facts.backend, request);
  NoteUndo(secret, body.value_or(CallBody()), undo, transition);
}

}  // namespace

MemberDigest MemberOf(const HmacKey& secret, const Json::Member& member) {
  const auto& [name, value] = member;
  const std::string text = CanonicalJson(value);
  return {Short(secret.OfParts({kMemberVersion, name})),
          Short(secret.OfParts({kMemberVersion, name, text}))};
}

std::optional<Digest> ResourceOfTarget(const HmacKey& secret, const std::string& backend,
                                       std::uint64_t tenants, std::string_view target) {
  const auto mark = std::min(target.find('?'), target.size());
  std::string scratch;
  const auto form = FormOf(target.substr(0, mark), scratch);
  if (!form) return std::nullopt;
  const Pairs query = mark < target.size() ? ParsePairs(target.substr(mark + 1)) : Pairs();
  return ResourceOf(secret, backend, form->path, query, tenants);
}

Digest CallMark(const HmacKey& secret, const std::string& backend, const CallBody& body,
                std::uint64_t tenants, std::string_view arguments) {
  if (tenants == 0) return secret.OfParts({kCallVersion, backend, body.call_name, arguments});
  return secret.OfParts({kCallVersion, backend, body.call_name, arguments, TextOf(tenants)});
}

std::uint64_t TenantMark(const HmacKey& secret, const std::string& tenants) {
  if (tenants.empty()) return 0;
  return std::max(NumberOf(secret.OfParts({kTenantVersion, tenants})), std::uint64_t{1});
}

Digest ResourceOf(const HmacKey& secret, const std::string& backend, std::string_view path,
                  Pairs query, std::uint64_t tenants) {
  std::string spelled;
  if (path.contains('%')) {
    spelled = OneSpelling(path);
    path = spelled;
  }
  std::erase_if(query, [](const auto& pair) { return IsPlainCredential(pair.first); });
  std::ranges::sort(query);
  std::string text;
  for (const auto& [name, value] : query) {
    AppendPart(text, name);
    AppendPart(text, value);
  }
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (tenants == 0) return secret.OfUsualParts({kResourceVersion, backend, path, text});
  return secret.OfParts({kResourceVersion, backend, path, text, TextOf(tenants)});
}

void AddNotes(const KeyInputs& inputs, std::uint64_t tenants, const Digest& args_hash,
              Standing& stands) {
  const HttpRequest& request = inputs.request;
  if (tenants != 0) stands.ended_by.push_back(NoteOf(NoteKind::kTenants, tenants));
  if (!inputs.body.call_name.empty()) return;
  const std::uint64_t preconditions = DigestOf(inputs.secret, PreconditionsOf(request.headers));
  stands.ended_by.push_back(NoteOf(NoteKind::kPrecondition, preconditions));
  const bool is_removal = request.method == "DELETE";
  const bool is_partial = is_removal && !IsEmptyBody(inputs.body, request.body);
  if (is_partial || MayBeDryRun(request.headers, inputs.query, inputs.body)) {
    stands.ended_by.push_back(NoteOf(NoteKind::kUnproven, 0));
  }
  if (!is_removal) {
    stands.ended_by.push_back(NoteOf(NoteKind::kContent, ContentOfCall(inputs, args_hash)));
  }
  // Its query may narrow what it is about, or say nothing of that.
  const auto whole = WholeOf(inputs, tenants);
  if (whole) stands.leaves.push_back(MarkOn(*whole, stands.kind));
  // What stood at the destination is replaced, and what a MOVE takes is there no more.
  const auto transfer = TransferOf(inputs, tenants);
  if (!transfer) return;
  stands.ended_by.push_back(NoteOf(NoteKind::kExact, 0));
  stands.leaves.push_back(MarkOn(transfer->destination, WriteKind::kDelete));
  if (request.method == "COPY") return;
  stands.leaves.push_back(MarkOn(transfer->source, WriteKind::kDelete));
}

Standing StandingOf(const KeyInputs& inputs, std::uint64_t tenants, const Digest& args_hash) {
  Standing stands;
  const bool is_named = !inputs.body.call_name.empty();
  stands.kind = is_named ? WriteKind::kCall : KindOfMethod(inputs.request.method);
  AddNotes(inputs, tenants, args_hash, stands);
  if (is_named) {
    AddMark(stands.leaves,
            CallMark(inputs.secret, inputs.backend, inputs.body, tenants, inputs.JsonText()));
  }
  // What the policy says comes first: what does not fit into a row is cut off.
  AddTools(inputs, stands);
  AddActions(inputs, stands);
  AddUndoMarks(inputs, stands);
  AddWhole(inputs, stands);
  AddTransfer(inputs, stands);
  AddDoor(inputs, stands);
  if (stands.kind == WriteKind::kPatch) AddMembers(inputs, stands);
  return stands;
}

void AddEffect(EffectFacts facts, const HmacKey& secret, const Event& dispatching,
               Transition& transition) {
  const WriteKind kind = dispatching.stands.kind;
  if (kind == WriteKind::kNone || !MayHaveEffect(transition.to)) return;
  facts.tenants = NoteIn(dispatching.stands, NoteKind::kTenants).value_or(0);
  // What is only taken on has removed nothing yet.
  const bool is_taken_on = facts.answer != nullptr && facts.answer->status == kTakenOnStatus;
  if (is_taken_on && transition.to != Phase::kUncertain) {
    transition.ended_by.push_back(NoteOf(NoteKind::kUnproven, 0));
  }
  if (transition.undo) AddUndo(secret, facts, dispatching, transition);
  const bool has_call = transition.undo && facts.backend.has_endpoint();
  if (!has_call) AddDoorEnds(secret, facts, dispatching, nullptr, transition);
  if (IsIdempotent(kind) || facts.backend.has_endpoint()) return;
  if (kind == WriteKind::kPatch && !IsPostedState(dispatching)) return;
  AddPlacesOfAnswer(secret, facts, is_taken_on, transition);
  if (kind != WriteKind::kPatch) return;
  // That may be a record of the change, so that its end takes nothing back.
  for (const Mark& made : transition.made) {
    transition.ended_by.push_back(MarkOn(made, WriteKind::kDelete));
  }
}

}  // namespace recourse
