#include "filters/key/named_state.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/key/standing_marks.h"
#include "filters/ledger/model/standing_notes.h"
#include "policy/undo/put_back.h"
#include "proxy/base/json/json_canonical.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

constexpr std::string_view kThingVersion = "recourse-thing-1";

CallValues ValuesOfNamed(const KeyInputs& inputs) {
  CallValues values;
  values.path = &inputs.captures;
  values.query = &inputs.query;
  values.headers = &inputs.request.headers;
  values.body = inputs.body.values();
  return values;
}

// By what `before` asks: tools that read one thing before they write are about that. Of a query the
// variables: each tool selects what it needs.
std::optional<std::string> ThingOf(const Tool& tool, const CallValues& values) {
  const auto asked = Render(tool.before->request, values);
  if (!asked) return std::nullopt;
  const auto body = ParseJson(asked->body);
  if (!body) return asked->target + asked->body;
  const bool is_query = tool.before->request.calls.empty();
  const Json* const variables = is_query ? body->Find("variables") : nullptr;
  const bool has_variables = variables != nullptr && !variables->members.empty();
  return CanonicalJson(has_variables ? *variables : *body);
}

bool LiesWithin(std::string_view inner, std::string_view outer) {
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

class NamedMembers {
 public:
  NamedMembers(const KeyInputs& inputs, Standing& stands) : inputs_(inputs), stands_(stands) {}

  // By the names of what is kept, which tools that keep the same have in common.
  void AddTold(const std::vector<KeptArgument>& arguments) {
    for (const KeptArgument& each : arguments) {
      const Json* const value = AtPointer(inputs_.body.json, each.argument);
      if (value != nullptr) Add("kept " + each.place, CanonicalJson(*value));
    }
  }

  // The same, and what is kept but no argument sets.
  void AddKept(const std::vector<KeptArgument>& arguments) {
    AddTold(arguments);
    // One that is undone by a call of itself leaves alone what that names and it does not.
    const bool undoes_itself = std::ranges::any_of(
        UndosOf(inputs_.tool),
        [&](const UndoRule* undo) { return undo->request.calls == inputs_.body.call_name; });
    for (const Selector& kept : inputs_.tool.before->keep) {
      const auto is_told = [&](const KeptArgument& each) {
        const bool is_in = LiesWithin(each.place, kept.name) || LiesWithin(kept.name, each.place);
        return is_in && (undoes_itself || AtPointer(inputs_.body.json, each.argument) != nullptr);
      };
      if (!std::ranges::any_of(arguments, is_told)) AddUntold(kept.name);
    }
  }

  // All that is no argument for what is kept.
  void AddOthers(const std::vector<KeptArgument>& arguments, const Json& value,
                 const std::string& at) {
    const auto holds = [&](const KeptArgument& each) { return LiesWithin(each.argument, at); };
    const auto is_in = [&](const KeptArgument& each) { return LiesWithin(at, each.argument); };
    if (HasTooMany() || std::ranges::any_of(arguments, is_in) || IsNoArgument(at)) return;
    const bool is_split = at.empty() || std::ranges::any_of(arguments, holds);
    if (!is_split || value.kind != Json::Kind::kObject) {
      return Add("argument " + at, CanonicalJson(value));
    }
    for (const auto& [name, inner] : value.members) {
      AddOthers(arguments, inner, at + '/' + PointerToken(name));
    }
  }

  // Of a call with more of them nothing is told.
  bool HasTooMany() const { return stands_.values.size() > kMembersMax; }

 private:
  // It differs from call to call, whatever they set.
  bool IsNoArgument(const std::string& at) const {
    const Tool& tool = inputs_.tool;
    const bool is_key =
        tool.key && tool.key->at.where == RequestPlace::Where::kBody && tool.key->at.name == at;
    return is_key || std::ranges::find(tool.ignore, at) != tool.ignore.end();
  }

  // What the call sets without an argument for it is told by the whole call.
  void AddUntold(const std::string& kept) {
    const Json* const same = AtPointer(inputs_.body.json, kept);
    Add("kept " + kept, same != nullptr
                            ? CanonicalJson(*same)
                            : inputs_.body.call_name + CanonicalJson(inputs_.body.json));
  }

  void Add(const std::string& name, std::string value) {
    if (HasTooMany()) return;
    const Json text{Json::Kind::kString, std::move(value), {}, {}};
    const MemberDigest member = MemberOf(inputs_.secret, {name, text});
    const bool is_there = std::ranges::find(stands_.values, member) != stands_.values.end();
    if (!is_there) stands_.values.push_back(member);
  }

  const KeyInputs& inputs_;
  Standing& stands_;
};

// `is_whole`: the body tells all that the call says.
void AddNamedMembers(const KeyInputs& inputs, bool is_whole, Standing& stands) {
  const std::vector<KeptArgument> arguments = KeptArguments(inputs.tool);
  NamedMembers members(inputs, stands);
  if (inputs.body.call_name.empty()) {
    members.AddTold(arguments);
  } else {
    members.AddKept(arguments);
  }
  members.AddOthers(arguments, inputs.body.json, {});
  const bool is_listed = is_whole && !members.HasTooMany();
  stands.members = is_listed ? Members::kListed : Members::kUnknown;
  if (!is_listed) stands.values.clear();
}

}  // namespace

Digest AddNamedState(const KeyInputs& inputs, Standing& stands) {
  const Tool& tool = inputs.tool;
  const CallValues values = ValuesOfNamed(inputs);
  const bool sets_back = SetsBack(tool, values);
  const auto thing = sets_back ? ThingOf(tool, values) : std::nullopt;
  if (!thing && !tool.superseded_by_others) return {};
  // With `others` the policy says that to make it again does no harm, as with a PUT.
  stands.kind = tool.superseded_by_others ? WriteKind::kPut : WriteKind::kPatch;
  if (stands.kind == WriteKind::kPatch) AddNamedMembers(inputs, true, stands);
  const std::string tenants = std::to_string(NoteIn(stands, NoteKind::kTenants).value_or(0));
  const std::string name = thing ? std::string() : inputs.body.call_name;
  return inputs.secret.OfParts(
      {kThingVersion, inputs.backend, tenants, name, thing.value_or(std::string())});
}

// A row knows it as a PATCH of that thing, which on its path is a POST nevertheless.
Digest AddPostedState(const KeyInputs& inputs, const Digest& path, Standing& stands) {
  const Tool& tool = inputs.tool;
  const CallBody& body = inputs.body;
  const bool is_read = body.values() != nullptr && body.json.kind == Json::Kind::kObject &&
                       !body.json.members.empty();
  if (stands.kind != WriteKind::kPost || tool.superseded_by_others || !is_read) return path;
  const CallValues values = ValuesOfNamed(inputs);
  const auto thing = SetsBack(tool, values) ? ThingOf(tool, values) : std::nullopt;
  if (!thing) return path;
  stands.kind = WriteKind::kPatch;
  AddNamedMembers(inputs, !body.is_partial(), stands);
  const Mark place = MarkOf(path);
  stands.made.push_back(place);
  stands.ended_by.push_back(NoteOf(NoteKind::kExact, 0));
  stands.ended_by.push_back(MarkOn(place, WriteKind::kPut));
  // What was changed is there no more, and need not be changed back.
  stands.ended_by.push_back(NoteOf(NoteKind::kOwnUndo, 1));
  stands.ended_by.push_back(MarkOn(place, WriteKind::kDelete));
  return inputs.secret.OfParts({kThingVersion, inputs.backend, AsView(path), *thing});
}

}  // namespace recourse
