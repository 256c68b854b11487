#include "policy/import/openapi_proposals.h"

#include <algorithm>
#include <array>

#include "policy/import/import_text.h"
#include "policy/uri/opposites.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

constexpr std::size_t kFieldsShown = 6;

// "/orders/{id}" as the path of a template.
std::string TemplatePath(std::string_view pattern) {
  std::string out;
  for (const char c : pattern) {
    out.push_back(c);
    if (c == '{') out += "path.";
  }
  return out;
}

std::string_view LastSegment(std::string_view pattern) {
  return pattern.substr(pattern.rfind('/') + 1);
}
std::string_view ParentOf(std::string_view pattern) {
  return pattern.substr(0, pattern.rfind('/'));
}
bool IsCapture(std::string_view segment) { return segment.starts_with('{'); }

std::string Shown(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kFieldsShown; ++i) {
    out += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > kFieldsShown ? out + ", .." : out;
}

std::string FlowText(std::string_view name, const std::string& value) {
  return QuotedText(name) + ": " + QuotedText(value);
}

// What is put in force, and what is only shown.
std::string InForce(const std::string& why, const std::vector<std::string>& lines) {
  std::string out = "    # CHECK: " + CommentText(why) + "\n";
  for (const std::string& line : lines) out += "    " + line + "\n";
  return out;
}
std::string AsComment(const std::string& why, const std::vector<std::string>& lines) {
  std::string out = "    # CHECK: " + CommentText(why) + "\n";
  for (const std::string& line : lines) out += "    # " + line + "\n";
  return out;
}

class Neighbourhood {
 public:
  Neighbourhood(const ApiCall& call, const std::vector<ApiCall>& all) : call_(call), all_(all) {}

  Proposal Undo() const {
    const std::string& method = call_.operation->method;
    if (method == "PATCH" || method == "PUT") return PutBack();
    if (method == "DELETE") return Restore();
    if (method != "POST") return {};
    if (Proposal found = Opposite(); !found.lines.empty()) return found;
    if (const ApiCall* const removal = Find("DELETE", call_.pattern + "/{}")) {
      return Removal(*removal);
    }
    if (Proposal found = Withdrawal(); !found.lines.empty()) return found;
    return IsCapture(LastSegment(call_.pattern)) ? PutBack() : Proposal{};
  }

  std::string Probe() const {
    const ApiOperation& operation = *call_.operation;
    if (operation.method != "POST" || operation.has_form) return {};
    for (const std::string& pointer : operation.body_ids) {
      const std::string name = pointer.substr(1);
      const ApiCall* const list = Find("GET", call_.pattern);
      if (list != nullptr && list->operation->query.contains(name) &&
          list->operation->answer_list) {
        return AsComment(
            "GET " + list->pattern + " can be asked for " + name +
                "; if one value of it is one thing, that finds a lost answer",
            {"settle: { request: " +
                 QuotedText("GET " + TemplatePath(call_.pattern) + '?' + name + "={body#" +
                            pointer + '}') +
                 ",",
             "  happened: " + QuotedText("answer.body#" + *list->operation->answer_list + "/0/id") +
                 " }"});
      }
      const ApiCall* const one = Find("GET", call_.pattern + "/{}");
      if (one != nullptr && LastSegment(one->pattern) == '{' + name + '}') {
        return AsComment(
            "GET " + one->pattern + " is asked by the " + name +
                " that the agent chose; if a second one is refused, that finds a lost "
                "answer",
            {"settle: { request: " +
                 QuotedText("GET " + TemplatePath(call_.pattern) + "/{body#" + pointer + '}') + ",",
             "  happened: " + QuotedText("answer.body#" + pointer) + " }"});
      }
    }
    return {};
  }

 private:
  // A call of the same server by that method, whose path is equal but for the names in it.
  const ApiCall* Find(std::string_view method, std::string_view pattern) const {
    const std::string shape = ShapeOfPath(pattern);
    const auto found = std::ranges::find_if(all_, [&](const ApiCall& other) {
      return other.backend == call_.backend && other.operation->method == method &&
             ShapeOfPath(other.pattern) == shape;
    });
    return found == all_.end() ? nullptr : &*found;
  }
  const ApiCall* FindWrite(std::string_view pattern) const {
    for (const std::string_view method : {"POST", "PUT", "PATCH"}) {
      if (const ApiCall* const found = Find(method, pattern)) return found;
    }
    return nullptr;
  }

  // By what its answer tells of the name in that path: an id in the place of a number names another
  // thing, or nothing, which looks as if all were done.
  Proposal Removal(const ApiCall& removal) const {
    const std::string_view segment = LastSegment(removal.pattern);
    const std::string capture(segment.substr(1, segment.size() - 2));
    const std::string line =
        "undo: { request: " +
        QuotedText("DELETE " + TemplatePath(call_.pattern) + "/{external_ref}") +
        ", done: [ 2xx, 404 ] }";
    const std::set<std::string>& members = call_.operation->answer_members;
    for (const std::string& name : {capture, capture.substr(capture.rfind('_') + 1)}) {
      if (name == "id" || !members.contains(name)) continue;
      return {InForce("that this takes the effect back, by the " + name + " that the answer tells",
                      {line}),
              true, "answer.body#/" + PointerToken(name)};
    }
    if (LooksLikeIdName(capture)) {
      return {InForce("that this takes the effect back, and that {external_ref} is the id it wants",
                      {line}),
              true};
    }
    return {AsComment("DELETE " + removal.pattern +
                          " takes this back; where does the answer tell " + capture +
                          "? name it in external_ref",
                      {line})};
  }

  // What GET shows of what this changes is put back.
  Proposal PutBack() const {
    const ApiOperation& operation = *call_.operation;
    if (const ApiCall* const removal = Find("DELETE", call_.pattern);
        removal != nullptr && operation.method == "PUT" && !operation.has_body) {
      return {InForce("that DELETE of the same path takes this back, where it was not so before",
                      {"undo: { request: " + QuotedText("DELETE " + TemplatePath(call_.pattern)) +
                       ", done: [ 2xx, 404 ] }"}),
              true};
    }
    const ApiCall* const read = Find("GET", call_.pattern);
    if (read == nullptr || operation.body_members.empty()) return {};
    std::vector<std::string> kept, unseen;
    for (const std::string& name : operation.body_members) {
      (read->operation->answer_members.contains(name) ? kept : unseen).push_back(name);
    }
    if (kept.empty()) return {};
    const std::vector<std::string> lines = PutBackLines(kept);
    if (!unseen.empty()) {
      return {AsComment("GET " + read->pattern + " does not show " + Shown(unseen) +
                            ", which this can change too: what becomes of it?",
                        lines)};
    }
    if (!operation.body_secrets.empty()) {
      const std::vector<std::string> secrets(operation.body_secrets.begin(),
                                             operation.body_secrets.end());
      return {AsComment("GET " + read->pattern + " may show asterisks for " + Shown(secrets) +
                            ", which then would be put back: what becomes of it?",
                        lines)};
    }
    if (operation.has_form) {
      return {
          AsComment("GET " + read->pattern +
                        " shows all that this can change; a form cannot put back what was empty",
                    lines)};
    }
    return {InForce("that GET " + read->pattern +
                        " shows all that this changes, as this call takes it, and tells nobody",
                    lines),
            true};
  }
  std::vector<std::string> PutBackLines(const std::vector<std::string>& names) const {
    const std::string path = TemplatePath(call_.pattern);
    std::string keep, body;
    for (const std::string& name : names) {
      const std::string place = "body#/" + PointerToken(name);
      keep += (keep.empty() ? "" : ", ") + QuotedText(place);
      body += (body.empty() ? "" : ", ") + FlowText(name, "{before." + place + '}');
    }
    std::vector<std::string> lines{
        "before:",
        "  request: " + QuotedText("GET " + path),
        "  keep: [ " + keep + " ]",
        "undo:",
        "  request: " + QuotedText(call_.operation->method + ' ' + path),
        std::string(call_.operation->has_form ? "  form: { " : "  json: { ") + body + " }",
        "  only_if: unchanged",
        "  repeatable: true"};
    if (call_.operation->method == "PUT") lines.emplace_back("  rest: stays");
    return lines;
  }

  // A neighbour that brings back what was deleted.
  Proposal Restore() const {
    for (const std::string_view verb :
         {"restore", "undelete", "unarchive", "untrash", "recover", "unremove", "reactivate"}) {
      const ApiCall* const found = FindWrite(call_.pattern + '/' + std::string(verb));
      if (found != nullptr)
        return By(*found, TemplatePath(call_.pattern) + '/' + std::string(verb));
    }
    const ApiCall* const read = Find("GET", call_.pattern);
    const ApiCall* const making = Find("POST", ParentOf(call_.pattern));
    if (read == nullptr || making == nullptr || !IsCapture(LastSegment(call_.pattern))) return {};
    return {AsComment(
        "POST " + making->pattern +
            " makes it again from what GET shows before, under another id: is that "
            "what is wanted?",
        {"before: { request: " + QuotedText("GET " + TemplatePath(call_.pattern)) +
             ", keep: [ .. ] }",
         "undo: { request: " + QuotedText("POST " + TemplatePath(ParentOf(call_.pattern))) +
             ", json: { .. } }"})};
  }

  // close and reopen of one thing.
  Proposal Opposite() const {
    const std::string_view last = LastSegment(call_.pattern);
    const std::string parent(ParentOf(call_.pattern));
    if (IsCapture(last) || !IsCapture(LastSegment(parent))) return {};
    for (const std::string_view verb : UndosOf(last)) {
      const ApiCall* const found = FindWrite(parent + '/' + std::string(verb));
      if (found != nullptr) return By(*found, TemplatePath(parent) + '/' + std::string(verb));
    }
    return {};
  }

  // What was made is canceled where it cannot be deleted.
  Proposal Withdrawal() const {
    for (const std::string_view verb :
         {"cancel", "void", "revoke", "withdraw", "expire", "archive", "close", "deactivate"}) {
      const ApiCall* const found = FindWrite(call_.pattern + "/{}/" + std::string(verb));
      if (found == nullptr) continue;
      return By(*found, TemplatePath(call_.pattern) + "/{external_ref}/" + std::string(verb));
    }
    return {};
  }

  Proposal By(const ApiCall& undo, const std::string& path) const {
    const std::string line =
        "undo: { request: " + QuotedText(undo.operation->method + ' ' + path) + " }";
    const std::string name = undo.operation->method + ' ' + undo.pattern;
    if (!undo.operation->body_members.empty() && !undo.operation->body_ids.empty()) {
      return {
          AsComment("by its name " + name + " takes this back; what is its body to be?", {line})};
    }
    return {InForce("that " + name + " takes this back, by its name, and answers 2xx when it has",
                    {line}),
            true};
  }

  const ApiCall& call_;
  const std::vector<ApiCall>& all_;
};

}  // namespace

Proposal ProposeUndo(const ApiCall& call, const std::vector<ApiCall>& all) {
  Proposal proposal = Neighbourhood(call, all).Undo();
  if (proposal.is_decided) return proposal;
  proposal.lines +=
      "    # CHECK: name an undo, an approval, or the reason why neither is needed\n"
      "    undo: undecided\n";
  return proposal;
}

std::string ProposeProbe(const ApiCall& call, const std::vector<ApiCall>& all) {
  return Neighbourhood(call, all).Probe();
}

}  // namespace recourse
