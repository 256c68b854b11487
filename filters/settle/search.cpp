#include "filters/settle/search.h"

#include <algorithm>

#include "filters/call/call_values.h"
#include "filters/call/taken_on.h"
#include "filters/settle/absence.h"

namespace recourse {
namespace {

// Whether the value is that text: a number in whatever way it is written.
bool IsText(const Json& value, const std::string& wanted) {
  if (value.kind == Json::Kind::kString) return value.text == wanted;
  if (value.kind == Json::Kind::kNumber) {
    const auto number = ParseJson(wanted);
    return number && number->kind == Json::Kind::kNumber && number->text == value.text;
  }
  return value.is_scalar() && !wanted.empty() && ScalarText(value) == wanted;
}

// What is left of a text whatever case and blanks a server gives it.
std::string Bare(const std::string& text) {
  std::string bare;
  for (const char c : ToLower(text)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) bare += c;
  }
  return bare;
}

bool IsAscii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// In another normal form of Unicode letters have lost their marks, or got them back.
bool IsPartOf(const std::string& part, const std::string& whole) {
  std::size_t at = 0;
  for (const char c : whole) at += at < part.size() && part[at] == c ? 1 : 0;
  return at == part.size();
}

bool IsNearText(const std::string& a, const std::string& b) {
  const std::string left = Bare(a), right = Bare(b);
  if (left.empty() || right.empty()) return false;
  if (left == right) return true;
  return !(IsAscii(a) && IsAscii(b)) && (IsPartOf(left, right) || IsPartOf(right, left));
}

// Whether a server may have made that value of the text.
bool IsNear(const Json& value, const std::string& wanted) {
  if (!value.is_scalar()) return true;  // no text is ever equal to it
  const std::string there = ScalarText(value);
  if (IsNearText(there, wanted)) return true;
  const auto a = ParseJson(there), b = ParseJson(wanted);
  return a && b && a->kind == Json::Kind::kNumber && b->kind == a->kind && a->text == b->text;
}

template <class Fits>
bool Matches(const SearchRule& rule, const std::vector<std::string>& wanted, const Json& element,
             Fits fits) {
  if (wanted.size() != rule.where.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Json* const value = AtPointer(element, rule.where[i].pointer);
    if (value == nullptr || !fits(*value, wanted[i])) return false;
  }
  return true;
}

// Every test has a place in it: the member itself, or the object that would hold it.
bool HasPlaces(const SearchRule& rule, const Json& element) {
  return std::ranges::all_of(rule.where, [&](const SearchRule::Test& test) {
    const auto last = test.pointer.rfind('/');
    if (last == 0) return AtPointer(element, test.pointer) != nullptr;
    return IsObject(AtPointer(element, std::string_view(test.pointer).substr(0, last)));
  });
}

void TakeElement(const SearchRule& rule, const Json& element, Search& search) {
  search.has_elements = true;
  search.knows_place = search.knows_place || HasPlaces(rule, element);
  if (!Matches(rule, search.wanted, element, IsText)) {
    search.has_near = search.has_near || Matches(rule, search.wanted, element, IsNear);
    return;
  }
  std::string match = CanonicalJson(element);
  if (search.matches > 0 && match == search.match) return;
  ++search.matches;
  search.match = std::move(match);
  search.found = element;
  const Json* const name = AtPointer(element, rule.take);
  search.external_ref = name == nullptr ? std::string() : ExternalRefText(*name);
}

// RFC 8288: the target of the link that has the relation; empty: none.
std::string TargetOfNext(std::string_view links) {
  while (!links.empty()) {
    const auto open = links.find('<');
    const auto close = links.find('>', open == std::string_view::npos ? 0 : open);
    if (open == std::string_view::npos || close == std::string_view::npos) return {};
    const std::string_view target = links.substr(open + 1, close - open - 1);
    links.remove_prefix(close + 1);
    const std::string_view parameters = links.substr(0, links.find('<'));
    const std::string lower = ToLower(parameters);
    const bool is_next = lower.find("rel=\"next\"") != std::string::npos ||
                         lower.find("rel=next") != std::string::npos;
    if (is_next) return std::string(target);
  }
  return {};
}

std::string_view PathOf(std::string_view target) { return target.substr(0, target.find('?')); }

// The target of a link to the same backend; nullopt: it leads elsewhere. What asks otherwise than
// by GET only asks at its own path.
std::optional<std::string> OnBackend(const Backend& backend, const HttpRequest& asked,
                                     std::string link) {
  auto target =
      TargetOfLink(backend.scheme + "://" + backend.authority, backend.base_path, std::move(link));
  const bool is_safe = target && (asked.method == "GET" || asked.method == "HEAD" ||
                                  PathOf(*target) == PathOf(asked.target));
  return is_safe ? std::move(target) : std::nullopt;
}

// `asked` with the cursor in its place, instead of the one of the page before.
HttpRequest WithCursor(const SettleRule& rule, HttpRequest asked, const std::string& cursor) {
  const RequestPlace& place = rule.search->cursor;
  if (place.where == RequestPlace::Where::kQuery) {
    TakeFromTarget(place, asked.target);
    asked.target += InsertionInTarget(place, asked.target, cursor).text;
    return asked;
  }
  const bool is_form = !rule.request.form.empty();
  TakeFromBody(place, is_form, asked.body);
  const Insertion put = InsertionInBody(place, asked.body, is_form, cursor);
  asked.body.insert(put.at, put.text);
  return asked;
}

// What the answer has at `next`; nullopt: nothing follows.
std::optional<Json> NextOf(const SearchRule& rule, const CallValues& values) {
  if (!rule.next) return std::nullopt;
  auto value = Select(*rule.next, values);
  if (!value || value->kind == Json::Kind::kNull || value->kind == Json::Kind::kFalse) {
    return std::nullopt;
  }
  if (value->kind != Json::Kind::kString) {
    const bool is_empty = !value->is_scalar() && value->items.empty() && value->members.empty();
    return is_empty ? std::nullopt : std::move(value);
  }
  const bool is_link =
      !rule.cursor.exists() && rule.next->source == Selector::Source::kAnswerHeader;
  if (is_link && value->text.find('<') != std::string::npos)
    value->text = TargetOfNext(value->text);
  return value->text.empty() ? std::nullopt : std::move(value);
}

// What asks for the page that `next` names; nullopt: it names none that may be asked for.
std::optional<HttpRequest> PageAt(const SettleRule& rule, const Backend& backend,
                                  const HttpRequest& asked, const Json& next) {
  if (next.kind != Json::Kind::kString && next.kind != Json::Kind::kNumber) return std::nullopt;
  const std::string text = ScalarText(next);
  if (rule.search->cursor.exists()) return WithCursor(rule, asked, text);
  auto target = OnBackend(backend, asked, text);
  if (!target) return std::nullopt;
  HttpRequest request = asked;
  request.target = std::move(*target);
  return request;
}

}  // namespace

std::optional<HttpRequest> TakePage(const SettleRule& rule, const Backend& backend,
                                    const HttpRequest& asked, const Result<Answer>& result,
                                    Search& search) {
  ++search.pages;
  const bool is_result = result && !result->tells_no_result();
  const std::optional<Json> body =
      is_result && MayShowList(*result) ? ReadAnswerBody(*result) : std::nullopt;
  const Json* const list = body ? AtPointer(*body, rule.happened.name) : nullptr;
  if (!IsArray(list)) {
    // A single thing in place of a list is one of its elements. Another one says nothing of ours.
    if (IsObject(list)) TakeElement(*rule.search, *list, search);
    search.is_unclear = search.matches == 0;
    return std::nullopt;
  }
  for (const Json& element : list->items) TakeElement(*rule.search, element, search);
  CallValues values;
  values.answer_status = result->response.status;
  values.answer_headers = &result->response.headers;
  values.answer_body = &*body;
  const auto next = NextOf(*rule.search, values);
  search.goes_on = next.has_value();
  if (!next || search.pages >= rule.search->pages) return std::nullopt;
  auto request = PageAt(rule, backend, asked, *next);
  if (!request) return std::nullopt;
  search.asked.push_back(asked.target + '\n' + asked.body);
  // What was asked for already would only come again.
  const std::string asks = request->target + '\n' + request->body;
  const bool is_known = std::ranges::find(search.asked, asks) != search.asked.end();
  return is_known ? std::nullopt : std::move(request);
}

ProbeReading JudgeSearch(const SettleRule& rule, const Search& search, const Result<Answer>& last) {
  if (search.matches == 1) {
    return {ProbeVerdict::kPresent, search.external_ref, search.found, rule.search->take};
  }
  // Of several nobody knows which one is the call's.
  if (search.matches > 1 || !last) return {};
  if (search.is_unclear) {
    // It may be no list because it says in another way that there is nothing.
    const bool is_absent = search.pages == 1 && StatesAbsence(rule, *last);
    return is_absent ? ProbeReading{ProbeVerdict::kAbsent, {}} : ProbeReading();
  }
  const bool may_tell = !search.has_elements || (search.knows_place && !search.has_near);
  return may_tell && !search.goes_on && EndsList(*last) ? ProbeReading{ProbeVerdict::kAbsent, {}}
                                                        : ProbeReading();
}

}  // namespace recourse
