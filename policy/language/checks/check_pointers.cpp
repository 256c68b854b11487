// Places that no call and no answer can have, as far as the policy itself shows.
#include <algorithm>
#include <string_view>

#include "policy/graphql/request.h"
#include "policy/language/place_problem.h"
#include "policy/language/policy_builder.h"

namespace recourse {
namespace {

using Source = Selector::Source;

constexpr std::string_view kAnswerData = "/data/";

bool LiesAt(std::string_view pointer, std::string_view with) {
  return pointer.starts_with(with) &&
         (pointer.size() == with.size() || pointer[with.size()] == '/');
}

// What a request of our own asks a GraphQL server for; nullopt: it is no document.
std::optional<GraphqlShape> OwnShapeOf(const RequestTemplate& request) {
  if (request.calls.empty() || !request.json || request.json->members.empty()) return std::nullopt;
  const auto& [name, document] = request.json->members.front();
  if (name != "query" || document.text.empty()) return std::nullopt;
  return ShapeOfOwnDocument(document.text.front().literal);
}

class PointerChecks {
 public:
  PointerChecks(PolicyBuilder& draft, std::size_t index)
      : draft_(draft),
        index_(index),
        tool_(draft.policy.tools[index]),
        backend_(draft.policy.backends[tool_.backend]) {}

  void Run() {
    for (const Selector& place : tool_.identity) OfCall("identity", place);
    if (tool_.external_ref) Any("external_ref", *tool_.external_ref);
    for (const auto& [word, conditions] : {std::pair("success_when", &tool_.success_when),
                                           {"failed_when", &tool_.failed_when},
                                           {"happened_if", &tool_.happened_if}}) {
      for (const Condition& condition : *conditions) OfAnswer(word, condition.left.name, condition);
    }
    Settle();
    Before();
    if (tool_.settled_by) SettledBy("settled_by", *tool_.settled_by);
    for (const UndoRule* const undo : UndosOf(tool_)) Undo(*undo);
  }

 private:
  void Warn(std::string_view word, std::string message) {
    draft_.problems.Warn(draft_.ToolPlace(index_, word), draft_.ToolKey(index_, word),
                         std::move(message));
  }

  void Any(std::string_view word, const Selector& place) {
    if (place.source == Source::kAnswerBody) OfAnswer(word, place.name);
    OfCall(word, place);
  }

  // Arguments have their own names, whatever is around them in the message.
  void OfCall(std::string_view word, const Selector& place) {
    if (place.source != Source::kBody || !tool_.is_named()) return;
    const bool is_around = backend_.is_graphql() ? LiesAt(place.name, "/variables")
                                                 : LiesAt(place.name, "/params/arguments");
    if (!is_around) return;
    Warn(word, place.text + " will hardly ever match: body# of a call by name is its arguments; " +
                   "leave out what is around them");
  }

  void OfAnswer(std::string_view word, std::string_view name, const Condition& condition) {
    if (condition.left.source == Source::kAnswerBody) OfAnswer(word, name);
  }

  // The envelope of an answer is not looked at, or is always the same.
  void OfAnswer(std::string_view word, std::string_view pointer) {
    if (!tool_.is_named() || pointer.empty()) return;
    const std::string place = "answer.body#" + std::string(pointer);
    if (backend_.is_graphql()) {
      static constexpr std::string_view kMembers[] = {"/data", "/errors", "/extensions"};
      if (std::ranges::none_of(kMembers, [&](auto one) { return LiesAt(pointer, one); })) {
        Warn(word, place + " can never match: a GraphQL answer has data, errors and extensions");
      }
    } else if (LiesAt(pointer, "/structuredContent") ||
               LiesAt(pointer, "/result/structuredContent")) {
      Warn(word, place +
                     " will hardly ever match: answer.body# of an MCP server is its "
                     "structuredContent, or its first text that is JSON");
    }
  }

  // What a document of the policy does not ask for, its answer has not.
  void Selected(std::string_view word, const std::optional<GraphqlShape>& shape,
                std::string_view pointer) {
    OfAnswer(word, pointer);
    if (!shape || !pointer.starts_with(kAnswerData)) return;
    std::string_view rest = pointer.substr(kAnswerData.size());
    const auto end = std::min(rest.find('/'), rest.size());
    if (rest.substr(0, end) == shape->key && Selects(*shape, rest.substr(end))) return;
    Warn(word, "answer.body#" + std::string(pointer) +
                   " can never match: the document does not select it");
  }

  void Selected(std::string_view word, const std::optional<GraphqlShape>& shape,
                const std::vector<Condition>& conditions) {
    for (const Condition& condition : conditions) {
      if (condition.left.source == Source::kAnswerBody) Selected(word, shape, condition.left.name);
    }
  }

  // Their placeholders; those of conditions and lists of places were looked at one by one.
  void Places(std::string_view word, const RequestTemplate& request) {
    for (const Selector& place : SelectorsOf(request)) {
      WarnAboutPointer({{}, draft_.ToolPlace(index_, word), draft_.ToolKey(index_, word)}, place,
                       draft_.problems);
      Any(word, place);
    }
  }

  void Settle() {
    if (!tool_.settle) return;
    const SettleRule& rule = *tool_.settle;
    Places("settle", rule.request);
    const auto shape = OwnShapeOf(rule.request);
    Selected("settle", shape, rule.absent);
    Selected("settle", shape, rule.reached);
    if (rule.happened.source != Source::kAnswerBody) return;
    Selected("settle", shape, rule.happened.name);
    if (!rule.search) return;
    for (const SearchRule::Test& test : rule.search->where) {
      Selected("settle", shape, rule.happened.name + "/0" + test.pointer);
    }
    Selected("settle", shape, rule.happened.name + "/0" + rule.search->take);
    const auto& next = rule.search->next;
    if (next && next->source == Source::kAnswerBody) Selected("settle", shape, next->name);
  }

  void Before() {
    if (!tool_.before) return;
    Places("before", tool_.before->request);
    const auto shape = OwnShapeOf(tool_.before->request);
    for (const Selector& place : tool_.before->keep) Selected("before", shape, place.name);
    const auto& version = tool_.before->version;
    if (version && version->source == Source::kBody) Selected("before", shape, version->name);
  }

  void SettledBy(std::string_view word, const SettledByRule& rule) {
    Places(word, rule.request);
    Selected(word, OwnShapeOf(rule.request), rule.until);
  }

  void Undo(const UndoRule& undo) {
    Places("undo", undo.request);
    const auto shape = OwnShapeOf(undo.request);
    Selected("undo", shape, undo.done_if);
    Selected("undo", shape, undo.done_when);
    for (const Condition& condition : undo.when) Any("undo", condition.left);
    if (undo.settled_by) SettledBy("undo", *undo.settled_by);
  }

  PolicyBuilder& draft_;
  const std::size_t index_;
  const Tool& tool_;
  const Backend& backend_;
};

}  // namespace

void WarnAboutPointers(PolicyBuilder& draft, std::size_t index) {
  if (HasMatch(draft.policy.tools[index])) PointerChecks(draft, index).Run();
}

}  // namespace recourse
