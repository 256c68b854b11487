#include "policy/suggest/tool_verdict.h"

#include <algorithm>
#include <array>

#include "policy/import/import_text.h"
#include "policy/uri/opposites.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, 8> kAsks{"search",  "query",    "lookup", "find",
                                                "preview", "validate", "get",    "list"};

constexpr std::array<std::string_view, 9> kChanges{
    "cancel", "delete", "remove", "send", "create", "update", "approve", "reset", "confirm"};

template <std::size_t N>
bool IsCalledLike(const SeenTool& tool, const std::array<std::string_view, N>& words) {
  if (tool.segments.empty()) return false;
  const auto has = [&](const std::string& word) {
    return std::ranges::find(words, word) != words.end();
  };
  if (tool.IsMcp()) return std::ranges::any_of(WordsOf(tool.segments.front()), has);
  return has(tool.segments.back());
}

constexpr std::string_view kNotDecided = "not decided: ";

// "7 of 25".
std::string PartOf(std::size_t part, std::size_t whole) {
  return std::to_string(part) + " of " + std::to_string(whole);
}

std::string Counted(std::size_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

void JudgeIdentity(const SuggestedIdentity& identity, ToolVerdict& verdict) {
  if (!identity.doubts.empty()) {
    // Each alone, as what is too long is cut.
    for (const std::string& doubt : identity.doubts) {
      verdict.open.push_back("identity (" + doubt + ")");
    }
    return;
  }
  if (!identity.is_decided) {
    std::string_view why = identity.why;
    if (why.starts_with(kNotDecided)) why.remove_prefix(kNotDecided.size());
    verdict.open.push_back("identity (" + std::string(why) + ")");
    return;
  }
  verdict.holds.push_back((identity.identity.empty() ? "the whole call tells " : "identity of ") +
                          Counted(identity.intents, "intent") + ", " +
                          Counted(identity.repeats, "repeat"));
}

void JudgeLinks(const SuggestedTool& tool, ToolVerdict& verdict) {
  const SuggestedLinks& links = tool.links;
  if (links.put_back) {
    verdict.holds.push_back("undo puts back what GET showed before; " +
                            std::to_string(links.put_back->shown) + " reads showed what was set");
  } else if (links.undo) {
    auto& to = links.undo->is_guess ? verdict.open : verdict.holds;
    to.push_back("undo " + links.undo->request + " of " +
                 PartOf(links.undo->taken_back, links.undo->of) +
                 (links.undo->is_guess ? ", if that takes it back" : ""));
  } else if (!tool.takes_back.empty()) {
    verdict.open.push_back("undo: none, as it takes back " + tool.takes_back);
  } else {
    verdict.open.push_back("undo undecided, as " + (links.other_undos.empty()
                                                        ? std::string("no call seen takes it back")
                                                        : links.other_undos.front()));
    verdict.must_decide = true;
  }
  if (!links.probe) return;
  const std::string found = "probe found " + std::to_string(links.probe->found);
  if (links.probe->IsSure(tool.identity)) {
    verdict.holds.push_back(found);
    verdict.open.emplace_back("absent_after of its probe");
  } else {
    verdict.open.push_back(found);
  }
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : "; ") + CommentText(part);
  return out;
}

}  // namespace

std::string_view EffectDoubtOf(const SeenTool& seen) {
  if (seen.IsRead()) {
    if (seen.IsMcp()) return "the server says readOnlyHint: true, which is believed here";
    return IsCalledLike(seen, kChanges)
               ? "it is called like a change; if it is one, say effect: write"
               : "";
  }
  return (seen.method == "POST" || seen.IsMcp()) && IsCalledLike(seen, kAsks)
             ? "it is called like a question; if it changes nothing, say effect: read"
             : "";
}

ToolVerdict VerdictOf(const SuggestedTool& tool) {
  ToolVerdict verdict;
  verdict.holds.push_back((tool.seen.IsRead() ? "read, " : "write, ") +
                          std::to_string(tool.seen.calls.size()) +
                          (tool.seen.calls.size() == 1 ? " call" : " calls"));
  if (!tool.seen.IsRead()) {
    JudgeIdentity(tool.identity, verdict);
    JudgeLinks(tool, verdict);
  }
  if (const auto doubt = EffectDoubtOf(tool.seen); !doubt.empty()) verdict.open.emplace_back(doubt);
  return verdict;
}

std::string UntracedLine(const Suggestion& suggestion) {
  if (suggestion.untraced == 0) return {};
  return PartOf(suggestion.untraced, suggestion.writes) +
         " writes had no trace: what came again after its answer cannot be told from a new call; "
         "send traceparent, or see without_trace (proxy/docs/agents.md)";
}

std::string VerdictLines(const Suggestion& suggestion) {
  std::size_t width = 0;
  for (const SuggestedTool& tool : suggestion.tools) width = std::max(width, tool.name.size());
  std::string out;
  for (const SuggestedTool& tool : suggestion.tools) {
    const ToolVerdict verdict = VerdictOf(tool);
    const std::string open = verdict.open.empty() ? "" : "; OPEN: " + Joined(verdict.open);
    out += "  " + tool.name + std::string(width - tool.name.size() + 2, ' ') +
           Joined(verdict.holds) + open + "\n";
  }
  for (const ListedVerdict& tool : suggestion.judged) {
    out += "  " + tool.name + "  listed";
    if (!tool.is_judged) out += "; its identity cannot be judged by what was seen";
    if (tool.is_judged) {
      out += "; catches " + PartOf(tool.caught, tool.repeats) + " repeats, takes " +
             Counted(tool.merged, "other intent") + " for one";
    }
    out += "\n";
  }
  for (const std::string& tool : suggestion.left_out) {
    out += "  left out: " + CommentText(tool) + "\n";
  }
  return out;
}

}  // namespace recourse
