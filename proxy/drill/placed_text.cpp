#include "proxy/drill/placed_text.h"

#include <algorithm>
#include <string_view>

#include "filters/call/call_values.h"
#include "filters/call/upstream_request.h"
#include "policy/graphql/decision/document_key.h"

namespace recourse {
namespace {

bool IsForm(const HttpRequest& request) {
  const std::string* const type = FindHeader(request.headers, "Content-Type");
  return type != nullptr && type->starts_with("application/x-www-form-urlencoded");
}

// A name in a query or a form has these characters only: the drill makes them all up.
std::string PairIn(std::string_view pairs, const std::string& name) {
  while (!pairs.empty()) {
    const auto end = std::min(pairs.find('&'), pairs.size());
    const std::string_view pair = pairs.substr(0, end);
    pairs.remove_prefix(std::min(end + 1, pairs.size()));
    if (pair.starts_with(name + '=')) return std::string(pair.substr(name.size() + 1));
  }
  return {};
}

std::string TextOf(const RequestPlace& place, const HttpRequest& request, bool is_form) {
  if (!place.exists()) return {};
  if (place.is_field()) {
    const std::string* const text = FindHeader(request.headers, place.name);
    return text == nullptr ? std::string() : *text;
  }
  if (place.where == RequestPlace::Where::kQuery) {
    const auto query = std::min(request.target.find('?'), request.target.size() - 1);
    return PairIn(std::string_view(request.target).substr(query + 1), place.name);
  }
  if (is_form) return PairIn(request.body, place.name.substr(1));
  const auto body = ParseJson(request.body);
  if (!body) return {};
  CallValues values;
  values.body = &*body;
  const auto text = TextIn(place, values, request.body);
  return text && *text ? **text : std::string();
}

}  // namespace

std::string TextAt(const RequestPlace& place, const HttpRequest& request) {
  return TextOf(place, request, IsForm(request));
}

HttpRequest WithTextOf(const HttpRequest& got, const RequestPlace& place, HttpRequest wanted) {
  const std::string text = place.is_inside() ? TextAt(place, got) : std::string();
  const bool is_form = IsForm(got);  // what was only rendered has no fields
  if (text.empty() || !TextOf(place, wanted, is_form).empty()) return wanted;
  const RequestPlace at = PlaceIn(place, wanted.body).value_or(place);
  (void)PutIn({{{at, text}}, is_form}, wanted);
  return wanted;
}

}  // namespace recourse
