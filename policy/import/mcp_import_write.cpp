#include <algorithm>
#include <set>

#include "policy/effects/node_text.h"
#include "policy/import/import_text.h"
#include "policy/import/mcp_declared.h"
#include "policy/import/mcp_import.h"
#include "policy/language/loader.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

constexpr std::size_t kNamesShown = 4;

std::string Joined(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kNamesShown; ++i) {
    out += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > kNamesShown ? out + ", .." : out;
}

class McpPolicyWriter {
 public:
  McpPolicyWriter(McpServerInfo& server, McpTrust trust) : server_(server), trust_(trust) {
    backend_ = LegalName(server.name, 64);
    if (backend_.empty()) backend_ = "mcp";
  }

  std::expected<std::string, std::string> Write() {
    declared_ = ReadMcpDeclared(server_, backend_);
    if (trust_ == McpTrust::kBelieve && !declared_.problems.empty()) {
      return std::unexpected(Lines(declared_.problems));
    }
    if (trust_ == McpTrust::kBelieve) {
      for (const auto& [tool, name] : declared_.names) names_.insert(name);
    }
    for (const McpToolInfo& tool : server_.tools) MakeTool(tool);
    for (;;) {
      std::string text = Text();
      if (!LeaveOutRefused(text, tools_, left_out_)) return text;
    }
  }

 private:
  static std::string Lines(const std::vector<PolicyProblem>& problems) {
    std::string out;
    for (const PolicyProblem& problem : problems) {
      out += (out.empty() ? "" : "\n") + problem.ToString();
    }
    return out;
  }

  void MakeTool(const McpToolInfo& tool) {
    const DeclaredTool* const declared = DeclaredOf(tool);
    if (declared != nullptr && trust_ == McpTrust::kBelieve) {
      const bool is_made =
          std::ranges::find(tools_, declared->name, &MadeTool::name) != tools_.end();
      if (!is_made) tools_.push_back(ToolDeclared(*declared));
      return;
    }
    const auto problem = CheckMcpName(tool.name);
    if (problem.empty() && !IsMcpGlob(tool.name)) {
      tools_.push_back(ToolOf(tool));
    } else {
      left_out_.push_back(tool.name + ": " +
                          std::string(problem.empty() ? "a name has no star" : problem));
    }
  }
  const DeclaredTool* DeclaredOf(const McpToolInfo& tool) const {
    const auto name = declared_.names.find(tool.name);
    if (name == declared_.names.end()) return nullptr;
    const auto found = std::ranges::find(declared_.tools, name->second, &DeclaredTool::name);
    return found == declared_.tools.end() ? nullptr : &*found;
  }
  static MadeTool ToolDeclared(const DeclaredTool& tool) {
    std::string out =
        "  " + tool.name + ":  # as the server declares\n" + YamlTextOf(tool.facts, 4);
    if (LacksUndo(tool)) {
      Check(out, "name an undo, an approval, or the reason why neither is needed");
      out += "    undo: undecided\n";
    }
    return {tool.name, std::move(out), true};
  }

  // What nobody has decided to believe is there to be read, and not in force.
  void ShowDeclared(const McpToolInfo& tool, std::string& out) const {
    if (!tool.effects) return;
    if (!declared_.problems.empty()) {
      Check(out, "the server declares effects that cannot be read: " +
                     CommentText(declared_.problems.front().ToString()));
      return;
    }
    const DeclaredTool* const declared = DeclaredOf(tool);
    if (declared == nullptr) return;
    Check(out, "the server declares the following, which is not believed: see trust_effects");
    std::string_view rest;
    const std::string text = YamlTextOf(declared->facts, 4);
    for (rest = text; !rest.empty();) {
      const auto end = rest.find('\n');
      out += "    # " + std::string(rest.substr(4, end - 4)) + '\n';
      rest.remove_prefix(end + 1);
    }
  }

  static void Check(std::string& out, std::string_view text) {
    out.append("    # CHECK: ").append(text).push_back('\n');
  }

  MadeTool ToolOf(const McpToolInfo& tool) {
    std::string name = LegalName(tool.name, 100);
    if (name.empty()) name = "tool";
    MadeTool made{UniqueName(std::move(name), names_), {}};
    std::string& out = made.text;
    const std::string about = CommentText(tool.description);
    if (!about.empty()) out += "  # " + about + "\n";
    out += "  " + made.name +
           ":\n    match: " + QuotedText("tools/call " + backend_ + ' ' + tool.name) + "\n";
    ShowDeclared(tool, out);
    if (tool.read_only.value_or(false)) {
      Check(out, "the server says readOnlyHint: true, which is believed here");
      out += "    effect: read\n";
    } else {
      AddWrite(tool, out);
    }
    return made;
  }

  void AddWrite(const McpToolInfo& tool, std::string& out) const {
    Check(out, tool.read_only ? "the server says readOnlyHint: false"
                              : "the server does not say that it only reads, so it is a write");
    out += "    effect: write\n";
    AddIdentity(tool, out);
    if (tool.idempotent.value_or(false)) {
      Check(out, "the server says idempotentHint: true: that a repeat changes nothing more");
    }
    if (tool.destructive.value_or(true)) {
      Check(out,
            std::string(tool.destructive ? "the server says destructiveHint: true"
                                         : "the server does not say that it destroys nothing") +
                "; have a human decide first? approval: { by: [ .. ] }");
    }
    AddUndo(tool, out);
  }

  static void AddIdentity(const McpToolInfo& tool, std::string& out) {
    if (tool.arguments.empty()) return;
    std::string places;
    for (const std::string& id : tool.ids) {
      places += (places.empty() ? "" : ", ") + QuotedText("body#/" + id);
    }
    if (tool.is_within_ids && !tool.ids.empty()) {
      Check(out,
            "it makes or changes something, so equal ids may mean two calls, and all arguments are "
            "the key; name those that make two calls the same");
      out += "    # identity: [ " + places + " ]\n";
      return;
    }
    if (!tool.ids.empty()) {
      Check(out,
            "required arguments that look like ids: calls with equal values here are one call");
      out += "    identity: [ " + places + " ]\n";
      return;
    }
    Check(out, tool.free_texts.empty()
                   ? std::string("all arguments are the key; name those that make two calls the "
                                 "same, or say all")
                   : "texts (" + CommentText(Joined(tool.free_texts)) +
                         ") and no id: a model that rewords them when it repeats the call runs it "
                         "twice; name what makes two calls the same");
    out += "    # identity: [ body#/.. ]\n";
  }

  // What both take is what the call had; one more is what the call has made.
  static std::string ArgumentsOfUndo(const McpToolInfo& tool, const McpToolInfo& undo) {
    std::string text;
    bool has_ref = false;
    for (const std::string& name : undo.required) {
      const bool is_shared = std::ranges::find(tool.arguments, name) != tool.arguments.end();
      if (LegalName(name, 64) != name || (!is_shared && has_ref)) return "{ .. }";
      has_ref = has_ref || !is_shared;
      text += (text.empty() ? " " : ", ") + name + ": \"{" +
              (is_shared ? "body#/" + name : "external_ref") + "}\"";
    }
    return text.empty() ? "{ .. }" : "{" + text + " }";
  }

  // A guess of what takes an effect back is never put in force by itself.
  void AddUndo(const McpToolInfo& tool, std::string& out) const {
    const McpToolInfo* const undo = FindMcpUndo(server_, tool.name);
    if (undo != nullptr) {
      const std::string arguments = ", arguments: " + ArgumentsOfUndo(tool, *undo);
      Check(out, "by their names " + CommentText(undo->name) +
                     " takes this back; what it is called with is a guess, and external_ref is the "
                     "answer's id unless it is given");
      out += "    # undo: { call: " + CommentText(undo->name) + arguments + " }\n";
    }
    Check(out, "name an undo, an approval, or the reason why neither is needed");
    out += "    undo: undecided\n";
  }

  std::string Text() const {
    const std::string version = server_.version.empty() ? "" : ' ' + server_.version;
    std::string out = "# Made from " + CommentText(server_.url) + " (" +
                      CommentText(server_.name + version) + ", MCP " +
                      CommentText(server_.protocol) +
                      ") by `recourse policy import mcp`.\n"
                      "# Go through every line marked CHECK, then run `recourse policy check`.\n"
                      "# `mode: enforce` needs a decision wherever `undecided` stands.\n"
                      "# CHECK: do agents send traceparent? Without it one caller's equal calls "
                      "within 10 minutes\n"
                      "# are one call, whoever it acts for. If two sessions mean two intents, give "
                      "the writes\n"
                      "# `scope: session`, and `flow_rules: { parent: [ session ] }` a flow to "
                      "each session.\n";
    for (const std::string& note : server_.notes) out += "# CHECK: " + CommentText(note) + "\n";
    for (const std::string& tool : left_out_) {
      out += "# CHECK: left out: " + CommentText(tool) + "\n";
    }
    out += "version: 1\nmode: observe\nunlisted: { reads: pass, writes: guard }\nbackends:\n";
    if (IsCalledItself()) AddBackend(out);
    if (trust_ == McpTrust::kBelieve) out += YamlTextOf(MapNodeOf(declared_.backends), 2);
    const bool has_tools =
        std::ranges::any_of(tools_, [](const MadeTool& tool) { return !tool.text.empty(); });
    if (has_tools) out += "tools:\n";
    for (const MadeTool& tool : tools_) out += tool.text;
    return out;
  }

  // Whether all its tools only say what requests they send.
  bool IsCalledItself() const {
    return trust_ == McpTrust::kShow || declared_.backends.empty() ||
           std::ranges::any_of(server_.tools, [&](const McpToolInfo& tool) {
             const DeclaredTool* const declared = DeclaredOf(tool);
             return declared == nullptr || IsOwnCall(*declared);
           });
  }
  void AddBackend(std::string& out) const {
    out += "  " + backend_ + ":\n    url: " + QuotedText(server_.url) +
           "\n    protocol: mcp\n"
           "    # CHECK: under which address do agents reach Recourse? One host and port is one "
           "server.\n"
           "    # hosts: [ \"127.0.0.1:19080\" ]\n"
           "    # CHECK: believe readOnlyHint also of tools that come later and stand not below?\n"
           "    # trust_annotations: true\n";
    if (trust_ == McpTrust::kBelieve) out += "    trust_effects: true\n";
  }

  McpServerInfo& server_;
  const McpTrust trust_;
  McpDeclared declared_;
  std::string backend_;
  std::set<std::string> names_;
  std::vector<MadeTool> tools_;
  std::vector<std::string> left_out_;
};

}  // namespace

std::expected<std::string, std::string> PolicyFromMcp(McpServerInfo server, McpTrust trust) {
  return McpPolicyWriter(server, trust).Write();
}

}  // namespace recourse
