// `before`: the read that keeps what a write is about to change.
#include <algorithm>

#include "policy/language/load_rules.h"
#include "policy/language/place_problem.h"
#include "policy/template/may_be_null.h"

namespace recourse {
namespace {

using Source = Selector::Source;

constexpr std::string_view kKeepHelp =
    "accepted: places in the body of its answer: keep: [ body#/title, body#/labels ]; one that it "
    "may lack: \"body#/note or null\"";
constexpr std::string_view kVersionHelp =
    "accepted: a place of its answer that every change alters: header.ETag, body#/updated_at";

bool IsGood(const Selector& place, bool may_be_header) {
  return place.source == Source::kBody || (may_be_header && place.source == Source::kHeader);
}

// The answer is meant without saying so: title, answer.body#/title, ETag. Empty: nobody knows.
std::string Meant(std::string_view text, bool may_be_header) {
  for (const std::string_view side : {"answer.", "before."}) {
    if (text.starts_with(side)) text.remove_prefix(side.size());
  }
  if (text == "*") return "body#";
  std::string meant(text);
  if (IsToken(text) && !text.contains('.')) {
    const bool is_header = may_be_header && (EqualsIgnoreCase(text, "ETag") || text.contains('-'));
    meant.insert(0, is_header ? "header." : "body#/");
  } else if (!ParseSelector(text)) {
    meant = PlaceMeant(text, Reads::kRequest);
  }
  const auto place = ParseSelector(meant);
  return place && IsGood(*place, may_be_header) ? meant : std::string();
}

// The answer's own places are written as a message's are.
std::optional<Selector> ReadPlace(const LocatedText& text, bool may_be_header,
                                  std::string_view help, Problems& problems) {
  auto place = ParseSelector(text.text);
  if (!place || !IsGood(*place, may_be_header)) {
    const std::string meant = Meant(text.text, may_be_header);
    problems.Error(
        text.place, text.key,
        (meant.empty() ? std::string() : "did you mean '" + meant + "'?; ") + std::string(help));
    return std::nullopt;
  }
  WarnAboutPointer(text, *place, problems);
  return std::move(*place);
}

// With one that is wrong the undo is not blamed for what is not kept.
void ReadKeep(MapReader& map, BeforeRule& rule) {
  if (map.Need("keep", "what the undo needs of it: keep: [ body#/title, body#/labels ]") ==
      nullptr) {
    return;
  }
  for (const LocatedText& item : map.Texts("keep")) {
    std::string_view text = item.text;
    const bool may_be_null = TakeOff(kOrNull, text);
    auto place =
        ReadPlace({std::string(text), item.place, item.key}, false, kKeepHelp, map.problems());
    if (!place) {
      map.problems().Misspelled(map.KeyOf("keep"));
      continue;
    }
    if (may_be_null) place->text += kOrNull;
    if (std::ranges::any_of(rule.keep,
                            [&](const Selector& one) { return one.name == place->name; })) {
      map.problems().Error(item.place, item.key, item.text + " is named twice");
    } else {
      rule.keep.push_back(std::move(*place));
    }
  }
}

// Only a text or a number is compared, and no object that holds what is kept is one.
void WarnAboutObject(MapReader& map, const BeforeRule& rule) {
  if (!rule.version || rule.version->source != Source::kBody) return;
  const std::string inside = rule.version->name + '/';
  const bool is_object =
      rule.version->name.empty() || std::ranges::any_of(rule.keep, [&](const Selector& kept) {
        return kept.name.starts_with(inside);
      });
  if (!is_object) return;
  map.problems().Warn(map.PlaceOf("version"), map.KeyOf("version"),
                      rule.version->text +
                          " is never a text or a number, so nothing is compared by it; " +
                          std::string(kVersionHelp));
}

// The fields around an MCP message tell nothing of what its tool read.
void ReadVersion(MapReader& map, const Speaks& speaks, BeforeRule& rule) {
  const auto text = map.Text("version");
  if (!text) return;
  rule.version = ReadPlace({*text, map.PlaceOf("version"), map.KeyOf("version")},
                           speaks.kind != Speaks::Kind::kMcp, kVersionHelp, map.problems());
  WarnAboutObject(map, rule);
}

}  // namespace

std::optional<BeforeRule> ReadBefore(MapReader& tool, const Speaks& speaks) {
  static constexpr std::pair<std::string_view, BeforeMissing> kMissing[] = {
      {"refuse", BeforeMissing::kRefuse},
      {"approve", BeforeMissing::kApprove},
      {"go_on", BeforeMissing::kGoOn}};
  const YamlNode* const node = tool.Get("before");
  if (node == nullptr) return std::nullopt;
  MapReader map(*node, tool.KeyOf("before"), tool.problems(),
                "{ request: \"GET /issues/{path.id}\", keep: [ body#/title, body#/labels ] }");
  auto request = ReadOwnRequest(map, speaks, Effect::kRead,
                                "a read of what the write changes: request: \"GET "
                                "/issues/{path.id}\"");
  BeforeRule rule;
  ReadKeep(map, rule);
  ReadVersion(map, speaks, rule);
  rule.missing = map.OneOf("missing", kMissing).value_or(rule.missing);
  map.Finish();
  if (!request) return std::nullopt;
  if (request->calls.empty() && request->method != "GET") {
    tool.problems().Error(map.PlaceOf("request"), map.KeyOf("request"),
                          "is GET: it reads, and its answer has a body");
  }
  rule.request = std::move(*request);
  return rule;
}

}  // namespace recourse
