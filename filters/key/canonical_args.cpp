#include "filters/key/canonical_args.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

std::vector<std::size_t> AllOf(const Pairs& pairs) {
  std::vector<std::size_t> all(pairs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

// Those of `chosen`, by name; pairs of one name keep their order.
void AppendPairs(std::string& out, const Pairs& pairs, std::vector<std::size_t> chosen) {
  std::sort(chosen.begin(), chosen.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(pairs[a].first, a) < std::tie(pairs[b].first, b);
  });
  AppendPart(out, std::to_string(chosen.size()));
  for (const std::size_t index : chosen) {
    AppendPart(out, pairs[index].first);
    AppendPart(out, pairs[index].second);
  }
}

void AppendPairs(std::string& out, const Pairs& pairs) { AppendPairs(out, pairs, AllOf(pairs)); }

std::vector<std::size_t> WithoutIgnored(const Pairs& pairs,
                                        const std::vector<std::string>& ignore) {
  std::vector<std::size_t> kept = AllOf(pairs);
  if (ignore.empty()) return kept;
  std::erase_if(kept, [&](std::size_t index) { return IsIgnored(pairs[index].first, ignore); });
  return kept;
}

void AppendQuery(std::string& out, const CallArgs& args) {
  const auto mark = args.target.find('?');
  const std::string_view raw =
      mark == std::string::npos ? std::string_view() : std::string_view(args.target).substr(mark);
  if (HasMalformedEscape(raw)) {
    AppendPart(out, "raw");
    AppendPart(out, raw);
    return;
  }
  AppendPart(out, "pairs");
  AppendPairs(out, args.query);
}

void AppendParts(std::string& out, const std::vector<BodyPart>& parts) {
  AppendPart(out, std::to_string(parts.size()));
  for (const BodyPart& part : parts) {
    AppendPairs(out, part.headers);
    AppendPart(out, part.content);
  }
}

void AppendBody(std::string& out, const CallArgs& args) {
  switch (args.body.form) {
    case BodyForm::kNone:
      AppendPart(out, "none");
      return;
    case BodyForm::kJson:
      AppendPart(out, "json");
      if (!args.body.call_name.empty()) AppendPart(out, args.body.call_name);
      AppendPart(out, args.json);
      return;
    case BodyForm::kForm:
      AppendPart(out, "form");
      AppendPairs(out, args.body.pairs, WithoutIgnored(args.body.pairs, args.ignore));
      return;
    case BodyForm::kMultipart:
      AppendPart(out, "multipart");
      AppendParts(out, args.body.parts);
      return;
    case BodyForm::kRaw:
      AppendPart(out, "raw");
      AppendPart(out, args.body.raw_type);
      AppendPart(out, args.raw_body);
      return;
  }
}

}  // namespace

bool IsIgnored(std::string_view name, const std::vector<std::string>& ignore) {
  return !ignore.empty() && std::ranges::find(ignore, "/" + PointerToken(name)) != ignore.end();
}

std::string CanonicalArgs(const CallArgs& args) {
  std::string out;
  // Mostly as long as the body: bodies are written without needless blanks.
  out.reserve(args.raw_body.size() + args.target.size() + args.path.size() + 256);
  AppendPart(out, args.method);
  AppendPart(out, args.path);
  AppendQuery(out, args);
  AppendBody(out, args);
  return out;
}

}  // namespace recourse
