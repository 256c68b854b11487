// What `before` must agree with: the undo that takes of it, the approval that it may ask for.
#include <algorithm>
#include <iterator>

#include "policy/language/policy_builder.h"
#include "policy/model/route_table.h"
#include "policy/template/may_be_null.h"
#include "policy/undo/put_back.h"

namespace recourse {
namespace {

using Source = Selector::Source;

bool IsBefore(const Selector& place) {
  return place.source == Source::kBeforeBody || place.source == Source::kBeforeHeader;
}

bool LiesIn(std::string_view inner, std::string_view outer) {
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

std::vector<Selector> PlacesOfBody(const RequestTemplate& request) {
  RequestTemplate body;
  body.json = request.json;
  body.form = request.form;
  return SelectorsOf(body);
}

// The kept place that was probably meant by one that is not kept; empty: none is near.
std::string NearestKept(const Selector& place, const BeforeRule& rule) {
  std::vector<std::string> pointers;
  for (const Selector& kept : rule.keep) {
    // With words behind it that only `keep` takes.
    if (place.name.starts_with(kept.name + ' ')) return kept.name;
    pointers.push_back(kept.name);
  }
  return NearestWord(place.name, pointers);
}

// Empty, or why the undo cannot have that place.
std::string WhyNotKept(const Selector& place, const BeforeRule& rule) {
  if (place.source == Source::kBeforeHeader) {
    const bool is_field = rule.version && rule.version->source == Source::kHeader;
    if (is_field && EqualsIgnoreCase(rule.version->name, place.name)) return {};
    return "only the field that before.version names is kept" +
           (is_field ? ", before.header." + rule.version->name
                     : ": say version: header." + place.name);
  }
  const bool is_kept = std::ranges::any_of(
      rule.keep, [&](const Selector& kept) { return LiesIn(place.name, kept.name); });
  if (is_kept) return {};
  const std::string meant = NearestKept(place, rule);
  return "before.keep does not name it" +
         (meant.empty() ? "; add body#" + place.name : ", did you mean before.body#" + meant + "?");
}

class BeforeChecks {
 public:
  BeforeChecks(PolicyBuilder& draft, std::size_t index)
      : draft_(draft), index_(index), tool_(draft.policy.tools[index]) {}

  void Run(const RouteTable& routes) {
    if (tool_.settle) RefuseBefore("settle", SelectorsOf(tool_.settle->request));
    const bool asks_before = tool_.settle && tool_.settle->asks_before;
    const bool is_used = CheckUndoPlaces() || asks_before;
    if (asks_before && tool_.before) CheckState();
    if (!tool_.before) {
      // One that cannot be read has been reported.
      if (ComparesAny() && !has_told_absence_ && !draft_.ToolHas(index_, "before")) {
        Error("undo",
              "only_if: unchanged compares with what `before` reads, and there is none: before: { "
              "request: \"GET /issues/{path.id}\", keep: [ body#/title ] }");
      }
      return;
    }
    const YamlNode* const undo = draft_.tool_nodes[index_]->Find("undo");
    if (undo != nullptr && !tool_.undo && undo->text != "none") return;  // reported
    if (!is_used) {
      Error(
          "before",
          "keeps what nothing puts back; use it in `undo`: json: { title: \"{before.body#/title}\" "
          "}, or say only_if: unchanged there");
    }
    const std::vector<const UndoRule*> undos = UndosOf(tool_);
    for (std::size_t i = 0; i < undos.size(); ++i) {
      CheckAllIsBack(*undos[i]);
      CheckPut(*undos[i]);
      WarnAboutOverwriting(*undos[i], i);
    }
    CheckRequest(routes);
    if (tool_.before->missing == BeforeMissing::kApprove && !tool_.approval) {
      Error("before", "missing: approve needs to know who may decide: approval: { by: [..] }");
    }
  }

 private:
  void Error(std::string_view word, std::string message) {
    draft_.problems.Error(draft_.ToolPlace(index_, word), draft_.ToolKey(index_, word),
                          std::move(message));
  }

  void RefuseBefore(std::string_view word, const std::vector<Selector>& places) {
    for (const Selector& place : places) {
      if (IsBefore(place)) Error(word, "{" + place.text + "} is for `undo` only");
    }
  }

  // What `settle: { request: before }` compares.
  void CheckState() {
    const SettleRule& rule = *tool_.settle;
    const YamlNode* const settle = draft_.tool_nodes[index_]->Find("settle");
    const YamlNode* const happened = settle->Find("happened");
    const auto problem = [&](std::string message) {
      draft_.problems.Error(happened != nullptr ? happened->place : settle->place,
                            draft_.ToolKey(index_, "settle") + ".happened", std::move(message));
    };
    for (const Condition& condition : rule.reached) {
      const std::string why = KnowsKept() ? WhyNotKept(condition.left, *tool_.before) : "";
      if (!why.empty()) problem(condition.left.text + ": " + why);
    }
    const bool is_deletion = tool_.methods == std::vector<std::string>{"DELETE"};
    const bool knows_sets = std::ranges::any_of(
        UndosOf(tool_), [&](const UndoRule* undo) { return PutsBack(tool_, *undo); });
    const bool is_as_set = happened != nullptr && happened->text == "as_set";
    if (is_as_set && HasMatch(tool_) && !is_deletion && !knows_sets) {
      problem(
          "no undo shows which of the kept places a call sets; say what holds once it is done: "
          "answer.body#/status == \"VOIDED\"");
    }
    WarnAboutState(rule, settle->place);
  }

  void WarnAboutState(const SettleRule& rule, Place place) {
    const auto warn = [&](std::string_view word, std::string message) {
      draft_.problems.Warn(place, draft_.ToolKey(index_, "settle") + std::string(word),
                           std::move(message));
    };
    using Op = Condition::Op;
    for (const Condition& one : rule.reached) {
      for (const Condition& other : rule.reached) {
        const bool is_same_place = &one < &other && one.left.name == other.left.name;
        if (!is_same_place || one.op != Op::kEqual || other.op != Op::kEqual) continue;
        if (CanonicalJson(one.right) == CanonicalJson(other.right)) continue;
        warn(".happened", "'" + one.text + "' and '" + other.text + "' can never hold both");
      }
      const auto is_same = [&](const Condition& absent) { return absent.text == one.text; };
      if (std::ranges::any_of(rule.absent, is_same)) {
        warn(".absent", "'" + one.text + "' says both, and so proves nothing");
      }
    }
    if (rule.absent_after && rule.absent.empty() && !tool_.before->version) {
      warn(
          ".absent_after",
          "can never be applied: what is not there may have been; name a `version` in `before`, or "
          "say in `absent` which state the call cannot have been followed by");
    }
    const auto probes = [](const UndoRule* undo) { return undo->then_probe; };
    if (rule.absent.empty() && std::ranges::any_of(UndosOf(tool_), probes)) {
      warn(".absent", "is missing: without it then_probe of `undo` is never told that all is gone");
    }
  }

  bool ComparesAny() const {
    return std::ranges::any_of(UndosOf(tool_), &UndoRule::only_if_unchanged);
  }

  // Whether the undo takes anything of it.
  bool CheckUndoPlaces() {
    if (!tool_.undo) return false;
    bool is_used = ComparesAny();
    for (const UndoRule* const undo : UndosOf(tool_)) {
      for (const Selector& place : SelectorsOf(undo->request)) {
        if (IsBefore(place)) is_used = true, CheckKept(place, "{" + place.text + "}");
      }
      // Conditions have no braces.
      for (const Condition& condition : undo->when) {
        if (!IsBefore(condition.left)) continue;
        is_used = true;
        CheckKept(condition.left, "when: " + condition.left.text);
      }
    }
    return is_used;
  }

  void CheckKept(const Selector& place, const std::string& written) {
    if (!tool_.before) {
      if (has_told_absence_ || draft_.ToolHas(index_, "before")) return;  // reported
      has_told_absence_ = true;
      return Error("undo", written +
                               ": the tool has no `before` that would keep it: before: { request: "
                               "\"GET /issues/{path.id}\", keep: [ body#/title ] }");
    }
    if (!KnowsKept()) return;
    if (const std::string why = WhyNotKept(place, *tool_.before); !why.empty()) {
      Error("undo", written + ": " + why);
    }
  }

  // Of a list with a mistake in it that is all that need be said.
  bool KnowsKept() const {
    return !tool_.before->keep.empty() &&
           !draft_.problems.IsMisspelled(draft_.ToolKey(index_, "before") + ".keep");
  }

  // One that puts back part of what is kept says that all is back.
  void CheckAllIsBack(const UndoRule& undo) {
    const std::vector<Selector> places = PlacesOfBody(undo.request);
    const bool has_bad_leaves =
        draft_.problems.IsMisspelled(draft_.ToolKey(index_, "undo") + ".leaves");
    if (std::ranges::none_of(places, IsBefore) || !KnowsKept() || has_bad_leaves) return;
    for (const Selector& kept : tool_.before->keep) {
      const auto reads = [&](const Selector& place) {
        return place.source == Source::kBeforeBody && LiesIn(place.name, kept.name);
      };
      const bool is_left = std::ranges::any_of(
          undo.leaves, [&](const std::string& place) { return LiesIn(kept.name, place); });
      const bool is_meant = std::ranges::any_of(places, [&](const Selector& place) {
        return place.source == Source::kBeforeBody && !WhyNotKept(place, *tool_.before).empty() &&
               NearestKept(place, *tool_.before) == kept.name;
      });
      if (is_left || is_meant || std::ranges::any_of(SelectorsOf(undo.request), reads)) continue;
      std::string_view read = kept.text;
      (void)TakeOff(kOrNull, read);
      const std::string missing(read);
      Error("undo", "puts back only part of what before.keep names: " + missing +
                        " is missing; add \"{before." + missing + "}\", or say leaves: " + missing);
    }
  }

  void CheckRequest(const RouteTable& routes) {
    const RequestTemplate& request = tool_.before->request;
    const auto places = SelectorsOf(request);
    CheckCaptures(draft_, index_, "before", places);
    for (const Selector& place : places) {
      if (IsOfCall(place)) continue;
      Error("before", "{" + place.text +
                          "}: only the call is known before it is sent; use {path.id}, "
                          "{query.name}, {body#/pointer} or {header.Name}");
    }
    if (!HasMatch(tool_)) return;
    const Backend& backend = draft_.policy.backends[tool_.backend];
    if (!request.calls.empty() && backend.is_mcp()) {
      return CheckCall(routes, backend, request.calls);
    }
    if (!request.calls.empty()) return;  // a query
    std::string scratch;
    const auto match = routes.Match(backend, request.method, SamplePath(request), scratch);
    if (match && match->tool != nullptr && match->tool->effect == Effect::kWrite) {
      Error("before", "this request is tool " + match->tool->name + ", a write: it must only read");
    }
  }

  void CheckCall(const RouteTable& routes, const Backend& backend, const std::string& name) {
    const Tool* const read = routes.FindCalledTool(backend, name);
    if (read != nullptr && read->effect == Effect::kRead) return;
    draft_.problems.Error(
        draft_.ToolPlace(index_, "before"), draft_.ToolKey(index_, "before") + ".call",
        read == nullptr ? "no tool of this policy is tools/call " + backend.name + ' ' + name +
                              "; list it with `effect: read`: it must change nothing"
                        : name + " is tool " + read->name + ", a write: it must only read");
  }

  // Whatever that one, or the first for all, says: it is there, or wrong and reported.
  bool SaysOnlyIf(std::size_t at) const {
    const YamlNode* const undo = draft_.tool_nodes[index_]->Find("undo");
    if (undo->kind != YamlNode::Kind::kList) return undo->Find("only_if") != nullptr;
    return undo->items.front().Find("only_if") != nullptr ||
           undo->items[at].Find("only_if") != nullptr;
  }

  // What was there before, over what somebody else has written since. What a DELETE took away,
  // nobody can have changed.
  void WarnAboutOverwriting(const UndoRule& undo, std::size_t at) {
    const bool is_deleted = tool_.methods == std::vector<std::string>{"DELETE"};
    const auto is_value = [](const Selector& one) { return one.source == Source::kBeforeBody; };
    if (undo.only_if_unchanged || SaysOnlyIf(at) || is_deleted ||
        std::ranges::none_of(SelectorsOf(undo.request), is_value)) {
      return;
    }
    draft_.problems.Warn(draft_.ToolPlace(index_, "undo"), draft_.ToolKey(index_, "undo"),
                         "puts back what was there before also where somebody else has changed it "
                         "since, and their change is lost; say only_if: unchanged, or only_if: "
                         "always if that is meant");
  }

  // A PUT replaces the whole: what it does not name is lost, ours, theirs and what was there
  // before.
  void CheckPut(const UndoRule& undo) {
    const RequestTemplate& request = undo.request;
    const bool is_put = request.method == "PUT" && (request.json || !request.form.empty());
    if (!is_put || undo.rest_stays || PutsBackWhole(request)) return;
    if (std::ranges::none_of(PlacesOfBody(request), IsBefore)) return;
    Error(
        "undo",
        "is a PUT, which replaces all, and names only part: what else is there would be lost; put "
        "back the whole, keep: body# and json: \"{before.body#}\", or, if this PUT leaves what it "
        "does not name, say rest: stays");
  }

  // All that the read has shown, or what stands where the backend keeps the thing in it.
  bool PutsBackWhole(const RequestTemplate& request) const {
    if (!request.json) return false;
    const RequestTemplate::Node& root = *request.json;
    const bool is_one = root.kind == Json::Kind::kString && root.text.size() == 1;
    RequestTemplate body;
    body.json = root;
    return std::ranges::any_of(SelectorsOf(body), [&](const Selector& place) {
      return place.source == Source::kBeforeBody && (is_one || place.name.empty());
    });
  }

  PolicyBuilder& draft_;
  const std::size_t index_;
  const Tool& tool_;
  bool has_told_absence_ = false;  // of `before`
};

}  // namespace

void CheckBefore(PolicyBuilder& draft, const RouteTable& routes, std::size_t index) {
  BeforeChecks(draft, index).Run(routes);
}

}  // namespace recourse
