#include "policy/model/places_read.h"

#include <iterator>

namespace recourse {
namespace {

using Source = Selector::Source;

void Append(std::vector<Selector>& all, std::vector<Selector> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<Selector> PlacesRead(const Tool& tool) {
  std::vector<Selector> places;
  places.reserve(tool.identity.size() + tool.ignore.size() + 8);
  places = tool.identity;
  for (const SameAsRule& rule : tool.same_as) {
    Append(places, rule.identity);
    for (const Condition& condition : rule.when) places.push_back(condition.left);
  }
  if (tool.external_ref) places.push_back(*tool.external_ref);
  if (tool.key && tool.key->at.exists() && !tool.key->at.is_in_document()) {
    places.push_back(tool.key->at.AsSelector());
  }
  if (tool.settle && tool.settle->mark.exists()) {
    places.push_back(tool.settle->mark.AsSelector());
  }
  if (tool.settle) Append(places, SelectorsOf(tool.settle->request));
  if (tool.settled_by) Append(places, SelectorsOf(tool.settled_by->request));
  if (tool.before) Append(places, SelectorsOf(tool.before->request));
  if (tool.undo) {
    for (const UndoRule* const undo : UndosOf(tool)) {
      Append(places, SelectorsOf(undo->request));
      for (const Condition& condition : undo->when) places.push_back(condition.left);
    }
    for (const std::string& name : tool.undo->from_call) {
      places.push_back({Source::kHeader, name, "header." + name});
    }
  }
  for (const Condition& condition : tool.deny) places.push_back(condition.left);
  for (const Condition& condition : tool.allow) places.push_back(condition.left);
  if (tool.approval) {
    for (const Condition& condition : tool.approval->when) places.push_back(condition.left);
  }
  Selector scope;
  scope.name = tool.scope.name;
  if (tool.scope.kind == ScopeRule::Kind::kBody) {
    scope.text = "body#" + scope.name;
    places.push_back(std::move(scope));
  } else if (tool.scope.kind == ScopeRule::Kind::kHeader) {
    scope.source = Source::kHeader;
    scope.text = "header." + scope.name;
    places.push_back(std::move(scope));
  }
  return places;
}

}  // namespace recourse
