#include <set>

#include "policy/import/import_text.h"
#include "policy/suggest/suggest.h"
#include "policy/suggest/tool_verdict.h"

namespace recourse {
namespace {

std::string CountOf(std::size_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

void AddComment(std::string& out, const std::string& text) {
  out += "    # " + CommentText(text) + "\n";
}

std::string PlaceList(const std::vector<std::string>& places) {
  std::string out;
  for (const std::string& place : places) out += (out.empty() ? "" : ", ") + QuotedText(place);
  return "[ " + out + " ]";
}

void WriteIdentity(const SuggestedIdentity& identity, std::string& out) {
  AddComment(out, CountOf(identity.calls, "call") + ", " + CountOf(identity.intents, "intent") +
                      ", " + CountOf(identity.repeats, "repeat") + ". Identity: " + identity.why);
  for (const std::string& doubt : identity.doubts) AddComment(out, "CHECK: " + doubt);
  if (identity.is_all && identity.is_decided) out += "    identity: all\n";
  if (identity.identity.empty()) return;
  out += "    identity: " + PlaceList(identity.identity) + "\n";
  if (!identity.ignore.empty()) {
    AddComment(out, "new with every attempt");
    out += "    ignore: " + PlaceList(identity.ignore) + "\n";
  }
  for (const std::string& place : identity.reworded) {
    AddComment(out, place +
                        " was worded anew in repeats: with other words one is refused (422), "
                        "unless you say on_mismatch: replay");
  }
}

std::string MembersText(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out;
  for (const auto& [member, value] : members) {
    out += (out.empty() ? " " : ", ") + QuotedText(member) + ": " + QuotedText(value);
  }
  return out;
}

void WritePutBack(const SuggestedPutBack& put_back, const std::string& method, std::string& out) {
  std::vector<std::string> kept;
  std::vector<std::pair<std::string, std::string>> members;
  for (const std::string& member : put_back.members) {
    kept.push_back("body#/" + member);
    members.emplace_back(member, "{before.body#/" + member + "}");
  }
  if (kept.empty()) kept.emplace_back("body#");
  AddComment(out, CountOf(put_back.shown, "read") + " showed what a call had set");
  out += "    before: { request: " + QuotedText("GET " + put_back.path) +
         ", keep: " + PlaceList(kept) + " }\n";
  out += "    undo: { request: " + QuotedText(method + " " + put_back.path) + ", json: " +
         (members.empty() ? QuotedText("{before.body#}") : "{" + MembersText(members) + " }") +
         ", only_if: unchanged, repeatable: true }\n";
}

void WriteUndo(const SuggestedTool& tool, std::string& out) {
  const SuggestedLinks& links = tool.links;
  const bool is_mcp = tool.seen.IsMcp();
  for (const std::string& other : links.other_undos) AddComment(out, "candidate: " + other);
  if (links.put_back) return WritePutBack(*links.put_back, tool.seen.method, out);
  if (!links.undo && !tool.takes_back.empty()) {
    AddComment(out, "CHECK: it is an undo, so nothing undoes it");
    out += "    undo: none\n    reason: " + QuotedText("it takes back " + tool.takes_back) + "\n";
    return;
  }
  if (!links.undo) {
    out += "    # CHECK: name an undo, an approval, or the reason why neither is needed\n";
    out += links.other_undos.empty() ? "    undo: undecided  # no call seen takes it back\n"
                                     : "    undo: undecided\n";
    return;
  }
  const SuggestedUndo& undo = *links.undo;
  std::string line =
      "took back " + std::to_string(undo.taken_back) + " of " + std::to_string(undo.of);
  if (undo.gone > 0) line += "; " + CountOf(undo.gone, "read") + " then found nothing";
  AddComment(out, line);
  if (undo.is_guess) {
    AddComment(out, "CHECK: that this takes back all of it, and is no end that it comes to anyway");
  }
  out += (is_mcp ? "    undo: { call: " : "    undo: { request: ") + QuotedText(undo.request);
  if (!undo.body.empty() || (undo.is_json && !is_mcp)) {
    out += is_mcp ? ", arguments: {" : undo.is_form ? ", form: {" : ", json: {";
    out += MembersText(undo.body) + " }";
  }
  if (is_mcp) {
    out += " }\n";
    return;
  }
  // RFC 9110 9.2.2: a DELETE may be sent twice.
  out += undo.is_delete ? ", done: [ 2xx, 404 ], repeatable: true }\n" : ", done: [ 2xx ] }\n";
}

std::string QuestionOf(const SuggestedProbe& probe, bool is_mcp) {
  if (is_mcp) {
    return "call: " + QuotedText(probe.request) + ", arguments: {" + MembersText(probe.arguments) +
           " }";
  }
  return "request: " + QuotedText(probe.request);
}

std::string SettleText(const SuggestedProbe& probe, bool is_mcp) {
  const std::string asks = "settle: { " + QuestionOf(probe, is_mcp) + ", happened: ";
  if (probe.where.empty()) return asks + QuotedText(probe.happened) + " }";
  return asks + "{ in: " + QuotedText(probe.happened) + ", where: " + PlaceList(probe.where) +
         ", take: " + QuotedText(probe.take) + " } }";
}

// One that asks for a part of the identity alone may find what another call made.
void WriteProbe(const SuggestedTool& tool, const SuggestedProbe& probe, std::string& out) {
  const std::string settle = SettleText(probe, tool.seen.IsMcp());
  const std::string found = "found what was made after " + CountOf(probe.found, "intent");
  if (probe.IsSure(tool.identity)) {
    AddComment(out, found + "; CHECK: add absent_after when you know how late a request may act");
    out += "    " + settle + "\n";
  } else {
    AddComment(out, "CHECK: " + found + ", and may find another call's with the same " +
                        probe.asks_for.front() + "; if there is none, take it:");
    out += "    # " + settle + "\n";
  }
}

void WriteLinks(const SuggestedTool& tool, std::string& out) {
  const SuggestedLinks& links = tool.links;
  if (!links.ref.place.empty()) {
    AddComment(out, "came back in later calls from " + std::to_string(links.ref.came_back) +
                        " of " + CountOf(links.ref.answers, "answer"));
    out += "    external_ref: " + QuotedText(links.ref.place) + "\n";
  } else if (!links.ref.undecided.empty()) {
    AddComment(out, "external_ref: not decided: " + links.ref.undecided);
  }
  if (links.probe) WriteProbe(tool, *links.probe, out);
  WriteUndo(tool, out);
}

std::string ToolTextOf(const SuggestedTool& tool) {
  const SeenTool& seen = tool.seen;
  std::string out = "  " + tool.name + ":\n";
  out += "    match: " + QuotedText(seen.Match()) + "\n";
  if (seen.IsRead()) {
    AddComment(out, CountOf(seen.calls.size(), "call"));
  }
  if (const std::string_view doubt = EffectDoubtOf(seen); !doubt.empty()) {
    AddComment(out, "CHECK: " + std::string(doubt));
  }
  if (seen.IsRead()) return out + "    effect: read\n";
  out += "    effect: write\n";
  WriteIdentity(tool.identity, out);
  WriteLinks(tool, out);
  return out;
}

}  // namespace

std::string ToolsText(Suggestion& suggestion) {
  std::vector<MadeTool> tools;
  std::string backends = "version: 1\nmode: observe\nbackends:\n";
  std::set<std::string> named;
  for (const SuggestedTool& tool : suggestion.tools) {
    tools.push_back({tool.name, ToolTextOf(tool)});
    if (named.insert(tool.seen.backend).second) {
      backends += "  " + tool.seen.backend + ": { url: \"http://" + "b" +
                  std::to_string(named.size()) +
                  (tool.seen.IsMcp() ? ".invalid\", protocol: mcp }\n" : ".invalid\" }\n");
    }
  }
  for (;;) {
    std::string text;
    for (const MadeTool& tool : tools) text += tool.text;
    if (!text.empty()) text.insert(0, "tools:\n");
    if (!text.empty() && LeaveOutRefused(backends + text, tools, suggestion.left_out)) continue;
    std::string head =
        "# Made from " + CountOf(suggestion.calls, "call") +
        " that observe mode saw, by `recourse policy suggest`.\n"
        "# Each line stands on the counts above it. CHECK marks what they leave open.\n";
    if (const std::string line = UntracedLine(suggestion); !line.empty()) {
      head += "# CHECK: " + line + "\n";
    }
    for (const std::string& tool : suggestion.left_out) {
      head += "# CHECK: left out: " + CommentText(tool) + "\n";
    }
    return head + "version: 1\n" + text;
  }
}

}  // namespace recourse
