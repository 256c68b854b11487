#include <algorithm>
#include <map>
#include <set>

#include "policy/effects/declared.h"
#include "policy/effects/node_text.h"
#include "policy/import/import_text.h"
#include "policy/import/openapi.h"
#include "policy/import/openapi_backends.h"
#include "policy/import/openapi_proposals.h"
#include "policy/language/loader.h"
#include "policy/model/route_tree.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

// Captures get legal names; a segment that holds more than a capture becomes one as a whole.
std::string PatternOf(const ApiOperation& operation, std::vector<std::string>& notes) {
  std::string out;
  std::string_view rest = operation.path;
  int number = 0;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const auto end = std::min(rest.find('/'), rest.size());
    const std::string_view segment = rest.substr(0, end);
    rest.remove_prefix(end);
    out += '/';
    if (segment.find('{') == std::string_view::npos) {
      out += segment;
      continue;
    }
    ++number;
    const auto open = segment.find('{');
    const auto close = segment.find('}');
    std::string name;
    if (close != std::string_view::npos && close > open) {
      for (const char c : segment.substr(open + 1, close - open - 1)) {
        const bool good =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        name.push_back(good ? c : '_');
      }
    }
    if (open != 0 || close + 1 != segment.size()) {
      notes.push_back("a capture is a whole segment, so " + std::string(segment) + " became one");
    }
    std::string capture = "{" + (name.empty() ? "p" + std::to_string(number) : name) + "}";
    if (out.find(capture) != std::string::npos)
      capture.insert(1, "p" + std::to_string(number) + "_");
    out += capture;
  }
  return out;
}

class OpenApiPolicyWriter {
 public:
  OpenApiPolicyWriter(const std::string& source, ApiDescription& api)
      : source_(source), api_(api), backends_(api) {
    JoinTwins();
    for (ApiOperation& operation : api_.operations) {
      std::vector<std::string> notes = operation.notes;
      calls_.push_back(
          {&operation, backends_.PlaceOf(operation).backend, PatternOf(operation, notes)});
      operation.notes = std::move(notes);
    }
    CollectDeclared();
  }

  std::expected<std::string, std::string> Write() {
    const YamlNode tree = DeclaredTree();
    if (!api_.problems.has_errors()) (void)LoadDeclared(tree, declared_, api_.problems);
    if (api_.problems.has_errors()) return std::unexpected(ErrorLines(api_.problems));
    for (const ApiCall& call : calls_) MakeTools(call);
    // What the loader does not accept is left out, and said so.
    for (;;) {
      std::string text = Text();
      if (!LeaveOutRefused(text, tools_, left_out_)) return text;
    }
  }

 private:
  // An overlay may name what is in a path otherwise than the description: the owner's facts speak
  // of the former.
  void JoinTwins() {
    std::map<std::string, ApiOperation*> declared;
    const auto key_of = [&](const ApiOperation& operation) {
      return std::to_string(backends_.PlaceOf(operation).backend) + ' ' + operation.method + ' ' +
             ShapeOfPath(operation.path);
    };
    for (ApiOperation& operation : api_.operations) {
      operation.path.insert(0, backends_.PlaceOf(operation).prefix);
      if (!operation.declared.empty()) declared.emplace(key_of(operation), &operation);
    }
    for (ApiOperation& operation : api_.operations) {
      const auto twin = declared.find(key_of(operation));
      if (twin == declared.end() || !operation.declared.empty()) continue;
      if (twin->second->declared.empty()) continue;  // it has gone to another twin
      operation.path = twin->second->path;
      operation.declared = std::exchange(twin->second->declared, {});
      twin->second->method.clear();
    }
    std::erase_if(api_.operations,
                  [](const ApiOperation& operation) { return operation.method.empty(); });
  }

  // Names that are declared come before those that are made here.
  void CollectDeclared() {
    for (const ApiOperation& operation : api_.operations) {
      for (const DeclaredTool& tool : operation.declared) names_.insert(tool.name);
    }
    for (ApiCall& call : calls_) {
      ApiOperation& operation = api_.operations[static_cast<std::size_t>(&call - calls_.data())];
      for (DeclaredTool& tool : operation.declared) {
        if (tool.name.empty()) tool.name = NameOf(operation);
        if (tool.backend.empty()) tool.backend = backends_.all()[call.backend].name;
        if (tool.calls.empty()) tool.calls.push_back(operation.method + ' ' + call.pattern);
        AddDeclared(declared_, tool, api_.problems);
      }
    }
    for (DeclaredTool& tool : declared_) {
      tool.facts.members.insert(tool.facts.members.begin(),
                                MemberOf("match", MatchOf(tool, tool.backend, api_.problems)));
    }
  }
  std::string NameOf(const ApiOperation& operation) {
    std::string name = LegalName(operation.id, 100);
    if (name.empty()) name = LegalName(ToLower(operation.method) + operation.path, 100);
    return UniqueName(std::move(name), names_);
  }

  YamlNode DeclaredTree() {
    std::vector<YamlNode::Member> backends, tools;
    for (const ApiBackend& backend : backends_.all()) {
      backends.push_back(MemberOf(
          backend.name, backend.declared ? *backend.declared
                                         : MapNodeOf({MemberOf("url", TextNodeOf(backend.url))})));
    }
    for (const DeclaredTool& tool : declared_) {
      YamlNode facts = tool.facts;
      if (LacksUndo(tool)) facts.members.push_back(MemberOf("undo", TextNodeOf("undecided")));
      tools.push_back({tool.name, tool.place, std::move(facts)});
    }
    return PolicyTreeOf(std::move(backends), std::move(tools));
  }

  void MakeTools(const ApiCall& call) {
    const ApiOperation& operation = *call.operation;
    if (operation.declared.empty()) {
      tools_.push_back(GuessedTool(call));
      return;
    }
    for (const DeclaredTool& one : operation.declared) {
      const auto found = std::ranges::find(declared_, one.name, &DeclaredTool::name);
      const bool is_made = std::ranges::find(tools_, one.name, &MadeTool::name) != tools_.end();
      if (!is_made) tools_.push_back(ToolDeclared(*found, call));
    }
  }
  MadeTool ToolDeclared(const DeclaredTool& tool, const ApiCall& call) const {
    std::string out;
    if (!call.operation->summary.empty()) {
      out += "  # " + CommentText(call.operation->summary) + "\n";
    }
    out += "  " + tool.name + ":  # declared in " + CommentText(api_.problems.NameOf(tool.place)) +
           "\n" + YamlTextOf(tool.facts, 4);
    if (LacksUndo(tool)) out += ProposeUndo(call, calls_).lines;
    return {tool.name, std::move(out), true};
  }

  MadeTool GuessedTool(const ApiCall& call) {
    const ApiOperation& operation = *call.operation;
    MadeTool tool{NameOf(operation), {}};
    std::string& out = tool.text;
    if (!operation.summary.empty()) out += "  # " + CommentText(operation.summary) + "\n";
    out += "  " + tool.name + ":\n";
    for (const std::string& note : operation.notes) {
      out += "    # CHECK: " + CommentText(note) + "\n";
    }
    out += "    match: " +
           QuotedText(operation.method + " " + backends_.all()[call.backend].name + " " +
                      call.pattern) +
           "\n";
    out += IsReadMethod(operation.method) ? "    effect: read\n" : "    effect: write\n";
    if (!IsReadMethod(operation.method)) AddWrite(call, out);
    return tool;
  }

  void AddWrite(const ApiCall& call, std::string& out) {
    const ApiOperation& operation = *call.operation;
    AddIdentity(operation, call.pattern, out);
    const ApiBackend& backend = backends_.all()[call.backend];
    if (!operation.key_headers.empty() && backend.key_header.empty() && !backend.declared) {
      out += "    # CHECK: that the backend de-duplicates on it\n    key_at: " +
             QuotedText("header:" + operation.key_headers.front()) + "\n";
    }
    const Proposal undo = ProposeUndo(call, calls_);
    const std::string ref =
        undo.external_ref.empty() ? operation.answer_ref.value_or("") : undo.external_ref;
    if (!ref.empty()) {
      out += "    # CHECK: where the answer names what was made\n    external_ref: " +
             QuotedText(ref) + "\n";
    }
    out += ProposeProbe(call, calls_) + undo.lines;
  }

  static void AddIdentity(const ApiOperation& operation, const std::string& pattern,
                          std::string& out) {
    if (!operation.has_body) return;
    if (operation.method != "POST" || operation.body_ids.empty()) {
      out +=
          "    # CHECK: the whole body is the key; name the values that make two calls the same, "
          "or say all\n    # identity: [ body#/... ]\n";
      return;
    }
    std::string places;
    for (std::string_view rest = pattern; !rest.empty();) {
      const auto open = rest.find('{');
      if (open == std::string_view::npos) break;
      const auto close = rest.find('}', open);
      places += (places.empty() ? "" : ", ") +
                QuotedText("path." + std::string(rest.substr(open + 1, close - open - 1)));
      rest.remove_prefix(close + 1);
    }
    for (const std::string& pointer : operation.body_ids) {
      places += (places.empty() ? "" : ", ") + QuotedText("body#" + pointer);
    }
    out += "    # CHECK: two calls with equal values here are one call\n    identity: [ " + places +
           " ]\n";
  }

  std::string Text() const {
    std::string out = "# Made from " + CommentText(source_) +
                      " by `recourse policy import openapi`.\n" +
                      "# Go through every line marked CHECK, then run `recourse policy check`.\n"
                      "# `mode: enforce` needs a decision wherever `undecided` stands.\n";
    for (const std::string& note : api_.notes) out += "# CHECK: " + CommentText(note) + "\n";
    for (const std::string& tool : left_out_)
      out += "# CHECK: left out: " + CommentText(tool) + "\n";
    out += "version: 1\nmode: observe\nunlisted: { reads: pass, writes: guard }\nbackends:\n";
    for (const ApiBackend& backend : backends_.all()) {
      if (!backend.note.empty()) out += "  # CHECK: " + CommentText(backend.note) + "\n";
      out += "  " + backend.name + ":\n";
      if (backend.declared) {
        out += YamlTextOf(*backend.declared, 4);
        continue;
      }
      out += "    url: " + QuotedText(backend.url) + "\n";
      if (backend.key_header.empty()) continue;
      out +=
          "    # CHECK: that every write here takes this field and de-duplicates on it\n"
          "    key_header: " +
          QuotedText(backend.key_header) + "\n";
    }
    const bool has_tools =
        std::ranges::any_of(tools_, [](const MadeTool& tool) { return !tool.text.empty(); });
    if (has_tools) out += "tools:\n";
    for (const MadeTool& tool : tools_) out += tool.text;
    return out;
  }

  const std::string& source_;
  ApiDescription& api_;
  const ApiBackends backends_;
  std::vector<ApiCall> calls_;  // of each operation, in their order
  std::vector<DeclaredTool> declared_;
  std::set<std::string> names_;
  std::vector<MadeTool> tools_;
  std::vector<std::string> left_out_;
};

}  // namespace

std::expected<std::string, std::string> PolicyFromOpenApi(const std::string& source,
                                                          ApiDescription api) {
  return OpenApiPolicyWriter(source, api).Write();
}

}  // namespace recourse
