#include <fmt/core.h>

#include <algorithm>

#include "policy/explain/explain.h"
#include "policy/language/loader.h"
#include "policy/model/route_table.h"
#include "policy/model/tool_names.h"
#include "policy/undo/undo_class.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {
namespace {

constexpr int kGood = 0;
constexpr int kTestFailed = 1;
constexpr int kUsage = 2;
constexpr int kInvalidPolicy = 3;

std::string_view EffectName(Effect effect) { return effect == Effect::kRead ? "read" : "write"; }

std::string Count(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void PrintErrors(const LoadedPolicy& loaded, std::ostream& out) {
  for (const PolicyProblem& problem : loaded.problems) {
    if (problem.severity == PolicyProblem::Severity::kError) out << problem.ToString() << '\n';
  }
}

std::string DurationText(Millis duration) {
  static constexpr std::pair<std::int64_t, std::string_view> kUnits[] = {
      {86'400'000, "d"}, {3'600'000, "h"}, {60'000, "m"}, {1'000, "s"}, {1, "ms"}};
  for (const auto& [unit, name] : kUnits) {
    if (duration.count() % unit == 0) return fmt::format("{}{}", duration.count() / unit, name);
  }
  return {};
}

std::string CredentialsText(const std::vector<SecretHeader>& secrets,
                            const std::vector<std::string>& from_call) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  for (const SecretHeader& secret : secrets) {
    add(secret.token ? secret.name + ": a token of " + secret.token->backend.authority +
                           ", kept until it ends"
                     : secret.name + " from " + secret.file + ", read when it is sent");
  }
  for (const std::string& name : from_call) add(name + " of the agent's call, kept sealed");
  return out;
}

std::string SettledByText(const SettledByRule& rule) {
  std::string text = rule.request.source + " until ";
  for (const Condition& condition : rule.until) {
    text += (&condition == rule.until.data() ? "" : " and ") + condition.text;
  }
  return text + ", unknown after " + DurationText(rule.deadline);
}

std::string SearchText(const SearchRule& search, const std::string& list) {
  std::string text = ", searched in " + list + " for";
  for (const SearchRule::Test& test : search.where) {
    text += (&test == search.where.data() ? " " : " and ") + test.text;
  }
  return text + fmt::format(" (at most {}), named by {}",
                            Count(static_cast<std::size_t>(search.pages), "page"), search.take);
}

std::string StateText(const SettleRule& rule) {
  std::string text = ", compared with what was read before: happened when ";
  if (rule.reached.empty()) text += "what the call sets";
  for (const Condition& condition : rule.reached) {
    text += (&condition == rule.reached.data() ? "" : " and ") + condition.text;
  }
  return text + " has come to hold";
}

std::string SettleText(const SettleRule& rule) {
  std::string text = rule.request.source;
  if (rule.search) text += SearchText(*rule.search, rule.happened.text);
  if (rule.asks_before) text += StateText(rule);
  if (rule.mark.exists()) text += ", marked at " + rule.mark.AsSelector().text;
  for (const Condition& condition : rule.absent) text += ", absent when " + condition.text;
  return text;
}

constexpr std::string_view kBodyRule =
    "a body is read whole and has at most 8 MiB; a larger one is refused (413)";

std::string RepeatText(const Policy& policy, const Tool& tool) {
  std::string text;
  const auto add = [&text](const std::vector<Condition>& conditions) {
    for (const Condition& one : conditions) text += (text.empty() ? "" : ", or ") + one.text;
  };
  add(tool.repeat_if);
  add(policy.backends[tool.backend].repeat_if);
  return text.empty() ? text : text + ": a failure may be repeated";
}

void DescribeBefore(const BeforeRule& rule, DescribedLines& lines) {
  std::string kept;
  for (const Selector& place : rule.keep) kept += (kept.empty() ? "" : ", ") + place.text;
  lines.emplace_back("before", rule.request.source + ", read before it is sent");
  lines.emplace_back("",
                     "keeps " + kept + (rule.version ? "; version: " + rule.version->text : ""));
  const std::string_view then = rule.missing == BeforeMissing::kRefuse ? "it is refused"
                                : rule.missing == BeforeMissing::kApprove
                                    ? "a human is asked first"
                                    : "it is sent, and cannot "
                                      "be undone";
  lines.emplace_back("", fmt::format("if that cannot be read: {}", then));
  const bool is_tag = rule.version && rule.version->source == Selector::Source::kHeader;
  lines.emplace_back(
      "", fmt::format("what others write between the two, where the call sets it, is lost{}",
                      is_tag ? ", unless If-Match keeps the call from it" : ""));
}

std::string DoneText(const UndoRule& undo) {
  std::string text = undo.done.ToString();
  for (const Condition& when : undo.done_if) text += (text.empty() ? "" : " or ") + when.text;
  return text;
}

// Where the key of a write goes, and what its backend promises of it.
std::string KeyAtText(const KeyRule& rule) {
  std::string text = rule.at.is_field() ? "header " + rule.at.name : rule.at.AsSelector().text;
  if (!rule.form.is_plain()) text += " as " + rule.form.Text();
  text += rule.lives == Millis(0) ? ", under which nothing is sent again"
                                  : ", honoured for " + DurationText(rule.lives);
  for (const Condition& hit : rule.hit) text += "; known there when " + hit.text;
  if (rule.answers_latest) text += "; its answers tell the newest state";
  if (rule.new_after_failure) text += "; a new one after a failure";
  return text;
}

void DescribeUndo(const Tool& tool, const UndoRule& undo, DescribedLines& lines) {
  const auto line = [&lines](std::string_view name, std::string_view value) {
    lines.emplace_back(name, value);
  };
  std::string choice;
  for (const Condition& one : undo.when) choice += (choice.empty() ? " when " : " and ") + one.text;
  line("undo", undo.request.source + choice);
  const std::string_view repeat = undo.repeatable == Repeatable::kYes     ? "may be repeated"
                                  : undo.repeatable == Repeatable::kByKey ? "may be repeated by key"
                                                                          : "is not repeated";
  line("", fmt::format("done: {}; while its outcome is unknown it {}; at most {}",
                       undo.request.calls.empty() || !tool.mutations.empty()
                           ? DoneText(undo)
                           : "a result without isError",
                       repeat, Count(static_cast<std::size_t>(undo.attempts_max), "attempt")));
  std::string whens;
  for (const Condition& when : undo.done_when) whens += (whens.empty() ? "" : " or ") + when.text;
  if (!whens.empty()) line("", "and only when " + whens);
  if (const std::string text = CredentialsText(undo.secrets, undo.from_call); !text.empty()) {
    line("", "credentials: " + text);
  }
  if (undo.settled_by) line("", "taken on, it runs: " + SettledByText(*undo.settled_by));
  if (undo.then_probe) line("", "and only when settle then states that nothing is there");
  if (undo.key && undo.key->at.exists()) line("", "its own key: " + KeyAtText(*undo.key));
  if (undo.only_if_unchanged) {
    line("", "only if nobody has changed what the call left; else a human decides");
  }
  std::string left;
  for (const std::string& place : undo.leaves) left += (left.empty() ? "" : ", body#") + place;
  if (!left.empty()) line("", "does not put back body#" + left);
  if (undo.rest_stays) line("", "this PUT leaves what it does not name");
  if (MakesNewId(tool)) line("", "made again under a new id");
  if (undo.window) line("", "of a finished flow within " + DurationText(*undo.window));
}

void DescribeFlow(const Policy& policy, const Tool& tool, DescribedLines& lines) {
  const auto line = [&lines](std::string_view name, std::string_view value) {
    lines.emplace_back(name, value);
  };
  const Flow* const flow = policy.FlowOf(tool);
  if (flow != nullptr) {
    std::string text = flow->name;
    if (flow->ends_with)
      text += "; complete when " + policy.tools[*flow->ends_with].name + " succeeds";
    if (flow->canceled_by)
      text += "; undone when " + policy.tools[*flow->canceled_by].name + " succeeds";
    if (flow->deadline) {
      const std::string_view then = flow->on_deadline == OnDeadline::kUndo   ? "undone"
                                    : flow->on_deadline == OnDeadline::kKeep ? "kept"
                                                                             : "for a human";
      text += fmt::format("; unfinished after {}: {}", DurationText(*flow->deadline), then);
    }
    if (flow->irreversible_asks) text += "; what nothing undoes asks a human first";
    line("flow", text);
  }
  if (tool.breaks_flow != BreaksFlow::kNever) {
    std::string text = tool.breaks_flow == BreaksFlow::kOnFailure
                           ? "on_failure: its failure has the flow undone"
                           : "on_unknown: its failure or unknown outcome has the flow undone";
    if (!tool.not_executed.empty()) {
      text += "; " + tool.not_executed.ToString() + " (not_executed) waits for a repeat";
    }
    line("breaks_flow", std::move(text));
  }
  if (!tool.declared.empty()) {
    line("declared", "taken over from what its server declared, " + tool.declared.substr(0, 15) +
                         "; what it declares later is told, and not in force");
  }
  if (tool.pivot) {
    line("pivot", flow != nullptr && flow->undo_before_pivot
                      ? "undone like the others, as the flow says undo_before_pivot"
                      : "what came before it, and itself, is not undone without a human");
  }
}

void DescribeWriteRules(const Policy& policy, const Tool& tool, DescribedLines& lines) {
  const auto line = [&lines](std::string_view name, std::string_view value) {
    lines.emplace_back(name, value);
  };
  line("body", kBodyRule);
  const KeyRule& key = KeyRuleOf(tool, policy.backends[tool.backend]);
  if (key.at.exists()) line("key at", KeyAtText(key));
  DescribeFlow(policy, tool, lines);
  if (tool.on_error == OnError::kNotExecuted) {
    line("on_error", tool.mutations.empty()
                         ? "an answer with isError proves that nothing happened"
                         : "an answer with errors proves that nothing happened, also of its undo");
  }
  if (tool.answer != AnswerForm::kByType) {
    line("answer", tool.answer == AnswerForm::kStream
                       ? "passed on as it comes, its end when the outcome is durable"
                       : "passed on whole, when the outcome is durable");
  }
  if (tool.settle) line("settle", SettleText(*tool.settle));
  if (tool.settled_by) line("settled_by", SettledByText(*tool.settled_by));
  if (tool.before) DescribeBefore(*tool.before, lines);
  if (const auto text = RepeatText(policy, tool); !text.empty()) line("repeat_if", text);
  for (const Condition& twin : tool.happened_if) {
    line("happened_if",
         twin.text + ": what is sent again may have been refused for that; settle tells");
  }
  for (const UndoRule* const undo : UndosOf(tool)) DescribeUndo(tool, *undo, lines);
  if (!tool.undo) {
    line("undo", tool.reason.empty() ? "none" : "none: " + tool.reason);
  }
  line("class", UndoClassName(UndoClassOf(tool)));
  for (const Condition& denied : tool.deny) line("deny", denied.text);
  for (const Condition& allowed : tool.allow) line("allow", "only " + allowed.text);
  if (tool.approval) {
    std::string by;
    for (const std::string& name : tool.approval->by) by += (by.empty() ? "" : ", ") + name;
    if (tool.approval->needs > 1) by = fmt::format("{} of {}", tool.approval->needs, by);
    for (const Condition& condition : tool.approval->when) by += ", when " + condition.text;
    if (tool.approval->only_suspected) by += ", when suspected";
    line("approval", "by " + by);
    const std::string credentials = CredentialsText(tool.approval->secrets, {});
    if (!credentials.empty()) line("", "credentials: " + credentials);
    if (!tool.approval->summary_text.empty()) line("", "summary: " + tool.approval->summary_text);
  }
}

std::string OnMismatchText(const Tool* tool) {
  switch (tool == nullptr ? OnMismatch::kReject : tool->on_mismatch) {
    case OnMismatch::kReject:
      return "the same key with another one is refused";
    case OnMismatch::kReplay:
      return "the same key with another one is answered from the log";
    case OnMismatch::kAsk:
      return "the same key with another one is for a human to judge";
  }
  return {};
}

// By its name or path.
bool IsUpload(const Tool& tool) {
  const auto says_so = [](const std::string& text) {
    return ToLower(text).find("upload") != std::string::npos;
  };
  return tool.effect == Effect::kWrite &&
         (says_so(tool.name) || std::ranges::any_of(tool.patterns, says_so));
}

void PrintExplanation(const Policy& policy, const Explanation& explained, std::ostream& out) {
  for (const auto& [name, text] : Describe(policy, explained)) {
    out << fmt::format("{:<12} {}\n", name, text);
  }
}

// Why the test fails, or empty.
std::string Compare(const PolicyTest& test, const Explanation& got) {
  const std::string tool = got.tool != nullptr ? got.tool->name : "unlisted";
  const std::string refused =
      got.refused.empty() ? "" : " (refused: " + got.refused + ", " + got.reason + ")";
  if (test.refused && *test.refused != got.refused) {
    return fmt::format("expected refused: {}, got {}", *test.refused,
                       got.refused.empty() ? "no refusal" : got.refused + ", " + got.reason);
  }
  if (test.tool && (got.path.empty() || *test.tool != tool)) {
    return fmt::format("expected tool: {}, got {}{}", *test.tool, got.path.empty() ? "none" : tool,
                       refused);
  }
  if (test.effect && (got.path.empty() || *test.effect != EffectName(got.effect))) {
    return fmt::format("expected effect: {}, got {}{}", *test.effect,
                       got.path.empty() ? "none" : EffectName(got.effect), refused);
  }
  if (test.approval && *test.approval == got.approval.empty()) {
    return fmt::format(
        "expected approval: {}, got {}", *test.approval,
        got.approval.empty() ? "none is needed" + refused : "one is needed: " + got.approval);
  }
  for (const std::string& expected : test.key_parts) {
    const bool found = std::any_of(got.key.begin(), got.key.end(), [&](const KeyPart& part) {
      return part.name == expected || "request." + part.name == expected;
    });
    if (found) continue;
    std::string parts;
    for (const KeyPart& part : got.key) parts += (parts.empty() ? "" : ", ") + part.name;
    return fmt::format("expected {} in the key, which is made of: {}", expected,
                       parts.empty() ? "nothing" : parts);
  }
  return {};
}

std::string RunTest(const Policy& policy, const PolicyTest& test,
                    const ArgumentsReader& read_arguments) {
  ExplainedCall call;
  call.method = test.method;
  call.backend = test.backend;
  call.target = test.target;
  call.headers = test.headers;
  call.body = test.body;
  return Compare(test, Explain(policy, call, read_arguments));
}

namespace explanation_members {

struct Explained {
  const Policy& policy;
  const Explanation& of;
};
constexpr JsonMember<Explained> kMembers[] = {
    member::Text<[](const Explained& it) -> std::string_view { return it.policy.version; }>(
        "policy_version"),
    member::Text<[](const Explained& it) -> std::string_view { return it.of.refused; }>(
        "refused", "Why the call would be refused; empty: it would not"),
    member::Text<[](const Explained& it) {
      return it.of.tool == nullptr ? std::string_view() : it.of.tool->name;
    }>("tool"),
    member::Text<[](const Explained& it) {
      return it.of.backend == nullptr ? std::string_view() : it.of.backend->name;
    }>("backend"),
    member::Word<[](const Explained& it) { return EffectName(it.of.effect); }>("effect", "Effect"),
    member::Text<[](const Explained& it) -> std::string_view { return it.of.path; }>("path"),
    member::Text<[](const Explained& it) -> std::string_view { return it.of.reason; }>("reason"),
    member::Pairs<[](const Explained& it) { return Describe(it.policy, it.of); }>("lines"),
};

}  // namespace explanation_members
}  // namespace

std::string_view BodyRuleOf(const Tool& tool) {
  return IsUpload(tool) ? kBodyRule : std::string_view();
}

DescribedLines Describe(const Policy& policy, const Explanation& explained) {
  DescribedLines lines;
  const auto line = [&lines](std::string_view name, std::string_view value) {
    lines.emplace_back(name, value);
  };
  if (explained.backend != nullptr) {
    const Backend& backend = *explained.backend;
    line("backend", fmt::format("{} ({}{}://{}{})", backend.name,
                                backend.is_mcp()       ? "MCP, "
                                : backend.is_graphql() ? "GraphQL, "
                                                       : "",
                                backend.scheme, backend.authority,
                                backend.has_endpoint() ? backend.endpoint : backend.base_path));
    if (const auto text = CredentialsText(backend.secrets, {}); !text.empty()) {
      line("credentials", text + "; the agent's own go no further");
    }
    if (policy.routes->Intercepts(backend)) {
      line("intercept", "TLS of agents to it ends here: they see a certificate of the pod's CA");
    }
  }
  if (explained.tool != nullptr && !explained.tool->secrets.empty()) {
    line("credentials", "of the tool: " + CredentialsText(explained.tool->secrets, {}) +
                            "; the agent's own go no further");
  }
  if (!explained.mcp_tool.empty())
    line("call", std::string(explained.backend->is_graphql() ? kMutation : kToolsCall) + ' ' +
                     explained.mcp_tool);
  if (!explained.path.empty()) {
    line("path", explained.path);
    line("tool", explained.tool == nullptr ? "unlisted" : explained.tool->name);
    line("effect", EffectName(explained.effect));
  }
  if (!explained.refused.empty()) line("refused", explained.refused);
  if (!explained.approval.empty()) line("waits", "for a human: " + explained.approval);
  line("why", explained.reason);
  std::string_view label = "key";
  for (const KeyPart& part : explained.key) {
    line(label, fmt::format("{:<22} {}", part.name, part.source));
    label = "";
  }
  if (!explained.fingerprint.empty()) {
    line("fingerprint", explained.fingerprint + "; " + OnMismatchText(explained.tool));
  }
  if (!explained.flow.empty()) line("in flow", explained.flow);
  if (explained.tool != nullptr && explained.effect == Effect::kWrite) {
    DescribeWriteRules(policy, *explained.tool, lines);
  }
  for (const std::string& note : explained.notes) line("note", note);
  return lines;
}

std::string ExplanationJson(const Policy& policy, const Explanation& explained) {
  return ObjectText([&](JsonObject& json) {
    WriteMembers(json, explanation_members::kMembers, {policy, explained});
  });
}

JsonShape ExplanationShape() { return {"Explanation", "", DocsOf(explanation_members::kMembers)}; }

int RunPolicyExplain(const std::string& path, const std::string& call, const Headers& headers,
                     const std::string& body, ExplainForm form, std::ostream& out,
                     const ArgumentsReader& read_arguments) {
  ExplainedCall parsed;
  if (!ParseCall(call, parsed)) {
    out << "the call cannot be read; accepted: " << kCallForms << '\n';
    return kUsage;
  }
  const LoadedPolicy loaded = LoadPolicy(path);
  if (!loaded.ok()) {
    PrintErrors(loaded, out);
    return kInvalidPolicy;
  }
  parsed.headers = headers;
  parsed.body = body;
  const Explanation explained = Explain(*loaded.policy, parsed, read_arguments);
  if (form == ExplainForm::kJson) {
    out << ExplanationJson(*loaded.policy, explained) << "\n";
  } else {
    PrintExplanation(*loaded.policy, explained, out);
  }
  return kGood;
}

int RunPolicyTest(const std::string& path, std::ostream& out,
                  const ArgumentsReader& read_arguments) {
  const LoadedPolicy loaded = LoadPolicy(path);
  if (!loaded.ok()) {
    PrintErrors(loaded, out);
    return kInvalidPolicy;
  }
  std::size_t failed = 0;
  for (const PolicyTest& test : loaded.policy->tests) {
    const std::string problem = RunTest(*loaded.policy, test, read_arguments);
    failed += problem.empty() ? 0 : 1;
    out << fmt::format("{} line {}: {} {} {}{}\n", problem.empty() ? "ok    " : "FAILED", test.line,
                       test.method, test.backend, test.target,
                       problem.empty() ? "" : ": " + problem);
  }
  out << fmt::format("{}, {} failed\n", Count(loaded.policy->tests.size(), "test"), failed);
  return failed == 0 ? kGood : kTestFailed;
}

}  // namespace recourse
