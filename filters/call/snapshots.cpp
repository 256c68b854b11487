#include "filters/call/snapshots.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "filters/call/call_values.h"
#include "filters/call/current.h"
#include "policy/template/may_be_null.h"
#include "policy/template/own_terms.h"
#include "policy/undo/own_part.h"
#include "policy/undo/put_back.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::string_view kData = "/data/";

// Where `keep` and `version` look in an answer.
CallValues PlacesOf(const CallValues& answered) {
  CallValues values;
  values.headers = answered.answer_headers;
  values.body = answered.answer_body;
  return values;
}

std::string VersionIn(const BeforeRule& rule, const CallValues& places) {
  const auto value = rule.version ? Select(*rule.version, places) : std::nullopt;
  std::string version = value ? ScalarText(*value) : std::string();
  const bool is_tag = rule.version && IsEntityTag(*rule.version) && places.headers != nullptr;
  const std::string* const coding =
      is_tag ? FindHeader(*places.headers, "Content-Encoding") : nullptr;
  return coding == nullptr ? version : VersionByTag(version, *coding);
}

// nullopt: a place that must be there is absent, or all of them are more than may be put into a
// request. `as_written` is the text of the body, if it is known: numbers are kept as they stand in
// it.
std::optional<Snapshot> Keep(const BeforeRule& rule, const CallValues& places,
                             std::string_view& why, std::string_view as_written = {}) {
  Snapshot state;
  std::size_t bytes = 0;
  for (const Selector& place : rule.keep) {
    auto value = Select(place, places);
    if (!value && IsOrNull(place)) value.emplace();
    if (!value) {
      why = place.text;
      return std::nullopt;
    }
    std::string text;
    const bool fits = AppendJson(text, *value);
    const auto span = as_written.empty() ? std::nullopt : FindJsonSpan(as_written, place.name);
    if (fits && span) text = PlainJsonText(as_written.substr(span->at, span->size));
    bytes += text.size();
    if (!fits || bytes > limits::kRenderedRequestBytesMax) return std::nullopt;
    state.places.emplace_back(place.name, std::move(text));
  }
  state.version = VersionIn(rule, places);
  if (state.version.size() > limits::kExternalRefBytesMax) state.version.clear();
  return state;
}

// What an update leaves of an object: what it does not name stays, however deep, or in it itself.
void MergeInto(Json& whole, const Json& sets, bool is_deep) {
  if (!IsObject(&whole) || !IsObject(&sets)) {
    whole = sets;
    return;
  }
  for (const Json::Member& member : sets.members) {
    const auto at = std::ranges::find(whole.members, member.first, &Json::Member::first);
    if (at == whole.members.end()) {
      whole.members.push_back(member);
    } else if (is_deep) {
      MergeInto(at->second, member.second, is_deep);
    } else {
      at->second = member.second;
    }
  }
}

std::optional<Json> Updated(const std::string& before, const Json& sets, bool is_deep) {
  auto whole = ParseJson(before);
  if (!whole || !IsObject(&*whole) || !IsObject(&sets)) return std::nullopt;
  MergeInto(*whole, sets, is_deep);
  return std::move(*whole);
}

bool MayPass(int status) {
  return status >= 500 || status == 408 || status == 425 || status == 429 || status == 202;
}

// In the backend's own words: a gateway says so of what it does not route.
bool IsGone(const Answer& answer, const std::optional<Json>& body) {
  if (!answer.body_complete || answer.over_cap) return false;
  return answer.response.body.empty() || (body && IsOfTheBackend(answer));
}

}  // namespace

std::expected<Snapshot, Unread> ReadSnapshot(const BeforeRule& rule, const Result<Answer>& answer,
                                             bool may_be_gone) {
  const auto unread = [](std::string why, bool may_pass) {
    return std::unexpected(Unread{std::move(why), may_pass});
  };
  if (!answer) {
    const std::string_view detail = answer.error().detail();
    return unread(detail.empty() ? "no answer came" : std::string(detail), true);
  }
  const int status = answer->response.status;
  if (answer->tells_no_result()) {
    return unread("the server did not answer with a result", true);
  }
  if (IsOld(*answer)) return unread("the answer is an old one, from a cache", true);
  const std::optional<Json> body = ReadAnswerBody(*answer);
  const bool is_gone = status == 404 || status == 410;
  if (may_be_gone && is_gone && IsGone(*answer, body)) return Snapshot{.is_gone = true};
  const bool is_whole = status >= 200 && status <= 299 && status != 202 && status != 203;
  if (!is_whole || status == 206) {
    return unread(fmt::format("the backend answered {}", status), MayPass(status));
  }
  if (answer->over_cap) return unread("the answer is too large", false);
  if (!body) return unread("the answer is not a whole JSON text", !answer->body_complete);
  CallValues places;
  places.headers = &answer->response.headers;
  places.body = &*body;
  const bool is_as_written = !answer->message && !IsEncoded(answer->response.headers);
  std::string_view absent;
  auto state = Keep(rule, places, absent,
                    is_as_written ? std::string_view(answer->response.body) : std::string_view());
  // What is null may be so for the error: of a field that failed some tell both.
  const auto has_null = [](const Header& place) { return place.second.contains("null"); };
  if (state && TellsError(*body) && std::ranges::any_of(state->places, has_null)) {
    return unread("the answer tells of an error, and null where `keep` looks", false);
  }
  if (state) return std::move(*state);
  return unread(absent.empty() ? fmt::format("what `keep` names is larger than {} KiB",
                                             limits::kRenderedRequestBytesMax / 1024)
                               : fmt::format("the answer has nothing at {}", absent),
                false);
}

Snapshot PlannedState(const Tool& tool, const Snapshot& before, std::string_view method,
                      const CallValues& call) {
  if (method == "DELETE") return Snapshot{.is_gone = true};
  Snapshot planned = before;
  planned.version.clear();
  if (call.body == nullptr || call.body->kind != Json::Kind::kObject) return planned;
  const bool is_put = method == "PUT", replaces = ReplacesWhole(tool, method);
  std::vector<KeptArgument> sets = KeptArguments(tool);
  for (const Selector& place : tool.before->keep) sets.push_back({place.name, place.name});
  for (const auto& [argument, kept] : sets) {
    const Json* const value = AtPointer(*call.body, argument);
    const auto place = std::ranges::find(planned.places, kept, &Header::first);
    std::string text;
    const bool is_set = value != nullptr && place != planned.places.end();
    if (!is_set) continue;
    // Such a PUT replaces what it names.
    const bool is_update = is_put ? !replaces && kept.empty() && argument.empty() : true;
    const auto whole = is_update ? Updated(place->second, *value, !is_put) : std::nullopt;
    if (AppendJson(text, whole ? *whole : *value)) place->second = std::move(text);
  }
  return planned;
}

Snapshot StateLeft(const Tool& tool, Snapshot planned, const CallValues& answered) {
  if (planned.is_gone) return planned;
  const BeforeRule& rule = *tool.before;
  const CallValues places = PlacesOf(answered);
  std::string_view absent;
  if (auto shown = Keep(rule, places, absent)) return std::move(*shown);
  planned.version = VersionIn(rule, places);
  if (answered.answer_body == nullptr) return planned;
  for (const std::string& mutation : tool.mutations) {
    for (auto& [pointer, kept] : planned.places) {
      if (!pointer.starts_with(kData)) continue;
      const Json* const value = AtPointer(
          *answered.answer_body, std::string(kData) + mutation + pointer.substr(kData.size() - 1));
      std::string text;
      if (value != nullptr && AppendJson(text, *value)) kept = std::move(text);
    }
  }
  return planned;
}

bool IsEntityTag(const Selector& version) {
  return version.source == Selector::Source::kHeader && EqualsIgnoreCase(version.name, "ETag");
}

bool ReadsWhatIsWritten(std::string_view read, std::string_view path, std::string_view target) {
  return read == path || read == target;
}

std::string VersionToFind(const Tool& tool, const StateKept& state, const HttpRequest& call,
                          std::string_view path, const CallValues& values) {
  const auto& version = tool.before->version;
  const bool is_tag = version && IsEntityTag(*version) && IsStrongTag(TagOf(state.before.version));
  // As its undo asks: so the policy knows a backend that takes it.
  const bool asks = std::ranges::any_of(
      UndosOf(tool), [](const UndoRule* undo) { return undo->only_if_unchanged; });
  const bool changes = call.method == "PATCH" || call.method == "PUT" || call.method == "DELETE";
  if (!is_tag || !asks || !changes || tool.is_named() || state.request.method != "GET" ||
      !ReadsWhatIsWritten(state.request.target, path, call.target)) {
    return {};
  }
  for (const char* const own : {"If-Match", "If-None-Match", "If-Unmodified-Since", "If"}) {
    if (FindHeader(call.headers, own) != nullptr) return {};
  }
  // Else a refusal could not be told from one that came after the call had been made.
  if (!ShowsUnmade(tool, call.method, values, state.before, state.before)) return {};
  return std::string(TagOf(state.before.version));
}

std::string VersionTold(const BeforeRule& rule, const Answer& answer) {
  const std::optional<Json> body = ReadAnswerBody(answer);
  CallValues places;
  places.headers = &answer.response.headers;
  places.body = body ? &*body : nullptr;
  return VersionIn(rule, places);
}

HttpRequest SnapshotRequest(const RenderedRequest& request, const Backend& backend) {
  HttpRequest out{request.method, backend.base_path + request.target, request.headers,
                  request.body};
  DropTerms(out.headers);
  SetHeader(out.headers, "Accept-Encoding", "identity");
  SetHeader(out.headers, "Cache-Control", "no-cache");
  return out;
}

}  // namespace recourse
