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

  // By the names of what is kept, which tools that keep the same have in common. What the call
  // sets without an argument for it is told by the whole call.
  void AddKept(const std::vector<KeptArgument>& arguments) {
    for (const KeptArgument& each : arguments) {
      const Json* const value = AtPointer(inputs_.body.json, each.argument);
      if (value != nullptr) Add("kept " + each.place, CanonicalJson(*value));
    }
    for (const Selector& kept : inputs_.tool.before->keep) {
      const bool has_argument = std::ranges::any_of(arguments, [&](const KeptArgument& each) {
        return LiesWithin(each.place, kept.name) || LiesWithin(kept.name, each.place);
      });
      if (has_argument) continue;
      const Json* const same = AtPointer(inputs_.body.json, kept.name);
      Add("kept " + kept.name, same != nullptr
                                   ? CanonicalJson(*same)
                                   : inputs_.body.call_name + CanonicalJson(inputs_.body.json));
    }
  }

  void AddOthers(const std::vector<KeptArgument>& arguments) {
    for (const auto& [name, value] : inputs_.body.json.members) {
      const std::string place = '/' + PointerToken(name);
      const bool is_kept = std::ranges::any_of(
          arguments, [&](const KeptArgument& each) { return LiesWithin(each.argument, place); });
      if (!is_kept) Add("argument " + name, CanonicalJson(value));
    }
  }

 private:
  void Add(const std::string& name, std::string value) {
    const Json text{Json::Kind::kString, std::move(value), {}, {}};
    const MemberDigest member = MemberOf(inputs_.secret, {name, text});
    const bool is_there = std::ranges::find(stands_.values, member) != stands_.values.end();
    if (!is_there) stands_.values.push_back(member);
  }

  const KeyInputs& inputs_;
  Standing& stands_;
};

void AddNamedMembers(const KeyInputs& inputs, Standing& stands) {
  const std::vector<KeptArgument> arguments = KeptArguments(inputs.tool);
  NamedMembers members(inputs, stands);
  members.AddKept(arguments);
  members.AddOthers(arguments);
  const bool has_room = stands.values.size() <= kMembersMax;
  stands.members = has_room ? Members::kListed : Members::kUnknown;
  if (!has_room) stands.values.clear();
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
  if (stands.kind == WriteKind::kPatch) AddNamedMembers(inputs, stands);
  const std::string tenants = std::to_string(NoteIn(stands, NoteKind::kTenants).value_or(0));
  const std::string name = thing ? std::string() : inputs.body.call_name;
  return inputs.secret.OfParts(
      {kThingVersion, inputs.backend, tenants, name, thing.value_or(std::string())});
}

}  // namespace recourse
