#include "filters/settle/search.h"

#include <algorithm>

#include "filters/call/call_values.h"
#include "filters/settle/absence.h"
#include "proxy/base/json/json_span.h"

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

bool Matches(const SearchRule& rule, const std::vector<std::string>& wanted, const Json& element) {
  if (wanted.size() != rule.where.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Json* const value = AtPointer(element, rule.where[i].pointer);
    if (value == nullptr || !IsText(*value, wanted[i])) return false;
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

// The target of a link to the same backend; nullopt: it leads elsewhere.
std::optional<std::string> OnBackend(const Backend& backend, std::string link) {
  const std::string root = backend.scheme + "://" + backend.authority;
  if (link.starts_with(root + "/")) link.erase(0, root.size());
  const bool is_path = link.starts_with('/') && !link.starts_with("//");
  const bool is_inside = link.starts_with(backend.base_path + "/");
  const bool is_plain = std::ranges::all_of(link, [](char c) { return c > 0x20 && c < 0x7f; }) &&
                        link.find_first_of("#\\") == std::string::npos &&
                        link.find("..") == std::string::npos;
  return is_path && is_inside && is_plain ? std::optional(std::move(link)) : std::nullopt;
}

// `asked` with the cursor in its place, instead of the one of the page before.
HttpRequest WithCursor(const SearchRule& rule, HttpRequest asked, const std::string& cursor) {
  if (rule.cursor.where == RequestPlace::Where::kBody) {
    if (const auto old = FindJsonSpan(asked.body, rule.cursor.name)) {
      std::string text;
      AppendJsonString(text, cursor);
      asked.body.replace(old->at, old->size, text);
    } else {
      const Insertion put = InsertionInBody(rule.cursor, asked.body, false, cursor);
      asked.body.insert(put.at, put.text);
    }
    return asked;
  }
  const auto mark = asked.target.find('?');
  if (mark != std::string::npos) {
    Pairs pairs = ParsePairs(std::string_view(asked.target).substr(mark + 1));
    std::erase_if(pairs, [&](const auto& pair) { return pair.first == rule.cursor.name; });
    asked.target.resize(mark);
    for (const auto& [name, value] : pairs) {
      asked.target += asked.target.size() == mark ? '?' : '&';
      asked.target += PercentEncode(name) + '=' + PercentEncode(value);
    }
  }
  asked.target += InsertionInTarget(rule.cursor, asked.target, cursor).text;
  return asked;
}

std::optional<std::string> NextOf(const SearchRule& rule, const CallValues& values) {
  if (!rule.next) return std::nullopt;
  const auto value = Select(*rule.next, values);
  if (!value || !value->is_scalar()) return std::nullopt;
  std::string text = ScalarText(*value);
  const bool is_link =
      !rule.cursor.exists() && rule.next->source == Selector::Source::kAnswerHeader;
  if (is_link && text.find('<') != std::string::npos) text = TargetOfNext(text);
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

}  // namespace

std::optional<HttpRequest> TakePage(const SettleRule& rule, const Backend& backend,
                                    const HttpRequest& asked, const Result<Answer>& result,
                                    Search& search) {
  ++search.pages;
  // What an MCP server says otherwise is about the call, or its session.
  const bool is_result = result && (!result->of_mcp_call || result->mcp == McpKind::kResult);
  const std::optional<Json> body =
      is_result && MayShowList(*result) ? ReadAnswerBody(*result) : std::nullopt;
  const Json* const list = body ? AtPointer(*body, rule.happened.name) : nullptr;
  if (!IsArray(list)) {
    search.is_unclear = true;
    return std::nullopt;
  }
  for (const Json& element : list->items) {
    search.has_elements = true;
    search.knows_place = search.knows_place || HasPlaces(*rule.search, element);
    if (!Matches(*rule.search, search.wanted, element)) continue;
    ++search.matches;
    const Json* const name = AtPointer(element, rule.search->take);
    search.external_ref = name == nullptr ? std::string() : ExternalRefText(*name);
  }
  if (search.pages >= rule.search->pages) return std::nullopt;
  CallValues values;
  values.answer_status = result->response.status;
  values.answer_headers = &result->response.headers;
  values.answer_body = &*body;
  const auto next = NextOf(*rule.search, values);
  if (!next) return std::nullopt;
  if (rule.search->cursor.exists()) return WithCursor(*rule.search, asked, *next);
  auto target = OnBackend(backend, *next);
  if (!target) return std::nullopt;
  HttpRequest request = asked;
  request.target = std::move(*target);
  return request;
}

ProbeReading JudgeSearch(const SettleRule& rule, const Search& search, const Result<Answer>& last) {
  if (search.matches == 1) return {ProbeVerdict::kPresent, search.external_ref};
  // Of several nobody knows which one is the call's.
  if (search.matches > 1 || !last) return {};
  if (search.is_unclear) {
    // It may be no list because it says in another way that there is nothing.
    const bool is_absent = search.pages == 1 && StatesAbsence(rule, *last);
    return is_absent ? ProbeReading{ProbeVerdict::kAbsent, {}} : ProbeReading();
  }
  const bool may_tell = !search.has_elements || search.knows_place;
  return may_tell && EndsList(*last) ? ProbeReading{ProbeVerdict::kAbsent, {}} : ProbeReading();
}

}  // namespace recourse
