#include <algorithm>
#include <map>
#include <set>

#include "policy/import/import_text.h"
#include "policy/import/openapi.h"
#include "policy/language/loader.h"
#include "policy/model/route_tree.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

constexpr std::string_view kPlaceholder = "http://change-me.invalid";

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
  OpenApiPolicyWriter(const std::string& source, const ApiDescription& api)
      : source_(source), api_(api) {
    NameBackends();
    for (const ApiOperation& operation : api_.operations) {
      if (operation.method == "DELETE") deletes_.insert({operation.server, operation.path});
    }
    for (const ApiOperation& operation : api_.operations) tools_.push_back(ToolOf(operation));
  }

  // What the loader does not accept is left out, and said so.
  std::string Write() {
    for (;;) {
      std::string text = Text();
      if (!LeaveOutRefused(text, tools_, left_out_)) return text;
    }
  }

 private:
  void NameBackends() {
    std::set<std::string> taken;
    for (const std::string& server : api_.servers) {
      const bool is_url = server.starts_with("http://") || server.starts_with("https://");
      std::string name = LegalName(backends_.empty() ? ToLower(api_.title) : HostOf(server), 64);
      if (name.empty()) name = "api";
      std::string url = is_url ? server : std::string(kPlaceholder) + server;
      while (url.ends_with('/')) url.pop_back();
      const std::string probe = "version: 1\nbackends: { b: { url: " + QuotedText(url) + " } }\n";
      const bool is_good = LoadPolicyText("p", probe).ok();
      Backend backend{
          UniqueName(std::move(name), taken), is_good ? url : std::string(kPlaceholder), {}};
      if (!is_url || !is_good) {
        backend.note = "the description names no usable address (" + server + "); write the url";
      }
      backends_.push_back(std::move(backend));
    }
    std::vector<std::map<std::string, int>> headers(backends_.size());
    for (const ApiOperation& operation : api_.operations) {
      for (const std::string& name : operation.key_headers) ++headers[operation.server][name];
    }
    for (std::size_t i = 0; i < backends_.size(); ++i) {
      const auto most =
          std::ranges::max_element(headers[i], {}, [](const auto& entry) { return entry.second; });
      if (most != headers[i].end()) backends_[i].key_header = most->first;
    }
  }
  static std::string HostOf(std::string_view url) {
    const auto start = url.find("://");
    if (start == std::string_view::npos) return {};
    url.remove_prefix(start + 3);
    return std::string(url.substr(0, url.find_first_of(":/")));
  }

  MadeTool ToolOf(const ApiOperation& operation) {
    std::vector<std::string> notes = operation.notes;
    const std::string pattern = PatternOf(operation, notes);
    std::string name = LegalName(operation.id, 100);
    if (name.empty()) name = LegalName(ToLower(operation.method) + operation.path, 100);
    MadeTool tool{UniqueName(name, names_), {}};
    std::string& out = tool.text;
    if (!operation.summary.empty()) out += "  # " + CommentText(operation.summary) + "\n";
    out += "  " + tool.name + ":\n";
    for (const std::string& note : notes) out += "    # CHECK: " + CommentText(note) + "\n";
    out += "    match: " +
           QuotedText(operation.method + " " + backends_[operation.server].name + " " + pattern) +
           "\n";
    out += IsReadMethod(operation.method) ? "    effect: read\n" : "    effect: write\n";
    if (!IsReadMethod(operation.method)) AddWrite(operation, pattern, out);
    return tool;
  }

  void AddWrite(const ApiOperation& operation, const std::string& pattern, std::string& out) {
    AddIdentity(operation, pattern, out);
    if (operation.answer_ref) {
      out += "    # CHECK: where the answer names what was made\n    external_ref: " +
             QuotedText(*operation.answer_ref) + "\n";
    }
    if (operation.method == "POST" && HasDelete(operation)) {
      out +=
          "    # CHECK: that this takes the effect back, and that {external_ref} is the id it "
          "wants\n    undo: { request: " +
          QuotedText("DELETE " + UndoPath(pattern)) + ", done: [ 2xx, 404 ] }\n";
      return;
    }
    out +=
        "    # CHECK: name an undo, an approval, or the reason why neither is needed\n"
        "    undo: undecided\n";
  }

  static void AddIdentity(const ApiOperation& operation, const std::string& pattern,
                          std::string& out) {
    if (!operation.has_body) return;
    if (operation.method != "POST" || operation.body_ids.empty()) {
      out +=
          "    # CHECK: the whole body is the key; name the values that make two calls the same, "
          "if there are any\n    # identity: [ body#/... ]\n";
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

  // DELETE of a thing in the collection that the POST adds to.
  bool HasDelete(const ApiOperation& operation) const {
    return std::ranges::any_of(deletes_, [&](const auto& entry) {
      const auto& [server, path] = entry;
      if (server != operation.server || !path.starts_with(operation.path + "/{")) return false;
      return path.find('/', operation.path.size() + 1) == std::string::npos && path.ends_with('}');
    });
  }
  static std::string UndoPath(std::string_view pattern) {
    std::string out;
    for (const char c : pattern) {
      out.push_back(c);
      if (c == '{') out += "path.";
    }
    return out + "/{external_ref}";
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
    for (const Backend& backend : backends_) {
      if (!backend.note.empty()) out += "  # CHECK: " + CommentText(backend.note) + "\n";
      out += "  " + backend.name + ":\n    url: " + QuotedText(backend.url) + "\n";
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

  struct Backend {
    std::string name, url, note, key_header{};
  };

  const std::string& source_;
  const ApiDescription& api_;
  std::vector<Backend> backends_;
  std::set<std::pair<std::size_t, std::string>> deletes_;
  std::set<std::string> names_;
  std::vector<MadeTool> tools_;
  std::vector<std::string> left_out_;
};

}  // namespace

std::string PolicyFromOpenApi(const std::string& source, const ApiDescription& api) {
  return OpenApiPolicyWriter(source, api).Write();
}

}  // namespace recourse
