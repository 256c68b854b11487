#include "filters/key/undo_marks.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/model/standing_notes.h"
#include "policy/template/late_reference.h"
#include "policy/undo/undo_names.h"
#include "proxy/base/hex.h"
#include "proxy/base/json/json_canonical.h"

namespace recourse {
namespace {

constexpr std::string_view kUndoVersion = "recourse-undo-1";
constexpr std::string_view kNamedVersion = "recourse-undo-names-1";

// So many texts of a call may name what it takes back, and so many of an undo request do.
constexpr std::size_t kTextsMax = 6;
constexpr std::size_t kNamesMax = 2;
constexpr std::size_t kTextBytesMax = 1024;

std::string_view AsText(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::uint64_t AsNumber(const Digest& digest) {
  std::uint64_t value = 0;
  std::memcpy(&value, digest.data(), sizeof value);
  return value;
}

// What it is sent to. `resource`: of a request that is no call by name; its tenants are in it.
struct Door {
  std::string_view backend, method, resource, name;
  std::uint64_t tenants = 0;
};

std::uint64_t NameAt(const HmacKey& secret, const Door& door, std::string_view text) {
  const std::string tenants = door.tenants == 0 ? "" : std::to_string(door.tenants);
  return AsNumber(secret.OfParts(
      {kNamedVersion, door.backend, door.method, door.resource, door.name, tenants, text}));
}

// By all that it says, however a JSON body is written.
Digest RequestMark(const HmacKey& secret, std::string_view method, const Digest& resource,
                   const CallBody& body, std::string_view raw) {
  const bool is_read = body.form == BodyForm::kJson || (body.is_form() && !body.is_partial());
  const std::string text = is_read ? CanonicalJson(body.json) : std::string(raw);
  const std::string form = std::to_string(static_cast<int>(body.form));
  return secret.OfParts({kUndoVersion, method, AsText(resource), form, text});
}

void AddTexts(const Json& json, const std::string& name, const std::vector<std::string>& names,
              bool wants_names, std::vector<std::string>& texts) {
  for (const Json& item : json.items) AddTexts(item, name, names, wants_names, texts);
  for (const auto& [member, value] : json.members) {
    AddTexts(value, member, names, wants_names, texts);
  }
  const bool is_text = json.kind == Json::Kind::kString || json.kind == Json::Kind::kNumber;
  const bool is_named = std::ranges::find(names, name) != names.end();
  if (!is_text || is_named != wants_names || texts.size() >= kTextsMax) return;
  std::string text = ScalarText(json);
  const bool is_new = std::ranges::find(texts, text) == texts.end();
  if (is_new && !text.empty() && text.size() <= kTextBytesMax) texts.push_back(std::move(text));
}

// Those first that stand where undo requests say it.
std::vector<std::string> TextsOf(const Json& json, const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  AddTexts(json, {}, names, true, texts);
  AddTexts(json, {}, names, false, texts);
  return texts;
}

void NoteNames(const HmacKey& secret, const Door& door, const OwnUndo& own,
               Transition& transition) {
  if (own.rule == nullptr) return;
  std::vector<std::string> texts = TextsThatName(*own.tool, *own.rule, *transition.undo);
  if (texts.size() > kNamesMax) texts.resize(kNamesMax);
  for (const std::string& text : texts) {
    transition.ended_by.push_back(NoteOf(NoteKind::kMayUndo, NameAt(secret, door, text)));
  }
}

// Of an undo call that names nothing made: what its own arguments name. Another call that names the
// same may take it back too.
void NoteArguments(const HmacKey& secret, const Door& door, const Json& arguments,
                   Transition& transition) {
  std::size_t noted = 0;
  for (const auto& [name, value] : arguments.members) {
    const bool is_text = value.kind == Json::Kind::kString || value.kind == Json::Kind::kNumber;
    if (!is_text || noted == kNamesMax || !(IsNaming(name) || name.ends_with("number"))) continue;
    ++noted;
    transition.ended_by.push_back(
        NoteOf(NoteKind::kMayUndo, NameAt(secret, door, ScalarText(value))));
  }
}

bool IsNoted(const OwnUndo& own, const Mark& mark) {
  const auto& known = own.dispatching.stands.ended_by;
  return std::ranges::find(known, mark) != known.end();
}

// One whose reference nobody knows yet is no request that anybody makes.
bool IsToBeFilled(const OwnUndo& own, const Transition& transition) {
  return LacksReference(*transition.undo, ToHex(own.dispatching.key));
}

bool IsOfOneEffect(const OwnUndo& own) {
  return own.rule != nullptr && NamesEffect(*own.tool, *own.rule);
}

}  // namespace

void AddUndoMarks(const KeyInputs& inputs, Standing& stands) {
  if (inputs.undoes == nullptr || !inputs.undoes->may_be) return;
  const std::uint64_t tenants = NoteIn(stands, NoteKind::kTenants).value_or(0);
  const auto add = [&](const Mark& mark) {
    if (stands.leaves.size() < kMarksMax) stands.leaves.push_back(mark);
  };
  Door door{inputs.backend, {}, {}, inputs.body.call_name, tenants};
  Digest resource{};
  if (inputs.body.call_name.empty()) {
    const std::string& method = inputs.request.method;
    resource = ResourceOf(inputs.secret, inputs.backend, inputs.path, inputs.query, tenants);
    const Digest whole =
        RequestMark(inputs.secret, method, resource, inputs.body, inputs.request.body);
    add(MarkOf(whole));
    add(DoubtMark(AsNumber(whole)));
    door = {inputs.backend, method, AsText(resource), {}, 0};
  }
  const Json* const values = inputs.body.values();
  if (values == nullptr) return;
  for (const std::string& text : TextsOf(*values, inputs.undoes->names)) {
    add(DoubtMark(NameAt(inputs.secret, door, text)));
  }
}

void NoteUndoRequest(const HmacKey& secret, const OwnUndo& own, const Digest& resource,
                     const CallBody& body, Transition& transition) {
  const RenderedRequest& undo = *transition.undo;
  if (IsToBeFilled(own, transition)) return;
  const Digest whole = RequestMark(secret, undo.method, resource, body, undo.body);
  const Mark doubt = NoteOf(NoteKind::kMayUndo, AsNumber(whole));
  if (IsNoted(own, MarkOf(whole)) || IsNoted(own, doubt)) return;
  if (!IsOfOneEffect(own)) {
    transition.ended_by.push_back(doubt);
    return;
  }
  transition.ended_by.push_back(NoteOf(NoteKind::kOwnUndo, 1));
  transition.ended_by.push_back(MarkOf(whole));
  const std::string& backend = own.dispatching.backend;
  NoteNames(secret, {backend, undo.method, AsText(resource), {}, 0}, own, transition);
}

void NoteUndoCall(const HmacKey& secret, const EffectFacts& facts, const OwnUndo& own,
                  const CallBody& body, Transition& transition) {
  if (IsToBeFilled(own, transition)) return;
  const Mark whole =
      MarkOf(CallMark(secret, facts.backend.name, body, facts.tenants, CanonicalJson(body.json)));
  if (IsNoted(own, whole)) return;
  const bool is_of_one = IsOfOneEffect(own);
  if (is_of_one) transition.ended_by.push_back(NoteOf(NoteKind::kOwnUndo, 1));
  transition.ended_by.push_back(whole);
  const Door door{facts.backend.name, {}, {}, body.call_name, facts.tenants};
  if (is_of_one) return NoteNames(secret, door, own, transition);
  // What sets a value is ended by what sets another one, and by nothing else.
  const bool makes = own.dispatching.stands.kind == WriteKind::kCall;
  if (makes) NoteArguments(secret, door, body.json, transition);
}

}  // namespace recourse
