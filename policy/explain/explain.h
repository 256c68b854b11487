// What a policy does with a call, in words: `recourse policy explain | test`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "policy/language/loader.h"
#include "policy/model/call_refusal.h"
#include "policy/model/policy.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {

// A call as given on the command line or in the `tests:` section.
struct ExplainedCall {
  std::string method;
  std::string authority;  // as in Host; empty when `backend` is given
  std::string backend;    // name of a backend; empty when `authority` is given
  // Path and query; of the methods "tools/call" and "mutation" the name that is called.
  std::string target;
  Headers headers;
  std::string body;        // of a call by name its arguments, or empty
  std::string document{};  // of a mutation: the whole body, if that is known
};

struct KeyPart {
  std::string name;    // caller, tool, trace, ..., intent, body#/pointer, args
  std::string source;  // where its value comes from, with the value when the call shows it
};

// What the policy makes of one call. A pure function of both.
struct Explanation {
  std::string refused;   // slug of the refusal, or empty
  std::string reason;    // why it is refused, or why this tool and effect
  std::string approval;  // why a human is asked first, or empty
  const Backend* backend = nullptr;
  const Tool* tool = nullptr;  // nullptr: unlisted
  Effect effect = Effect::kWrite;
  std::string path;          // canonical
  std::string flow;          // of a write without a trace: which one it belongs to, in words
  std::string mcp_tool;      // the name that is called; empty: it is no call by name
  std::vector<KeyPart> key;  // of a keyed write, in the order in which they enter the key
  std::string fingerprint;   // what it holds, in words; empty when nothing is keyed
  std::vector<std::string> notes;
};
// How the proxy reads the arguments of a call, and why it would refuse them. That is not known
// here; unset: JSON and forms are read, and nothing is said against them.
struct ExplainedArguments {
  std::optional<CallRefusal> refusal;
  std::optional<Json> values;  // as CallValues has them
  bool is_form = false;
};
// `mcp_tool` as in Explanation.
using ArgumentsReader = std::function<ExplainedArguments(
    const Tool& tool, const ExplainedCall& call, const Pairs& query, const std::string& mcp_tool)>;
Explanation Explain(const Policy& policy, const ExplainedCall& call,
                    const ArgumentsReader& read_arguments = {});

// What it comes to, for people: a name and a text for each line. A line with an empty name belongs
// to the one before it. Of a tool that writes it tells the tool's rules too. Names no secret: those
// are in files that the policy names.
using DescribedLines = std::vector<std::pair<std::string, std::string>>;
DescribedLines Describe(const Policy& policy, const Explanation& explained);

// The same as a JSON object, for programs.
std::string ExplanationJson(const Policy& policy, const Explanation& explained);
JsonShape ExplanationShape();

// What an upload has to keep to; empty: the tool takes none.
std::string_view BodyRuleOf(const Tool& tool);

// False: `text` is none of "METHOD http://host/path", "METHOD backend /path", "CONNECT host:port",
// "tools/call backend NAME".
inline constexpr std::string_view kCallForms =
    "\"POST http://host/path\", \"POST backend /path\", \"tools/call backend NAME\", \"mutation "
    "backend FIELD\" or \"CONNECT host:port\"";
bool ParseCall(const std::string& text, ExplainedCall& call);

// The subcommands. They return the exit code: 0 good, 1 a test failed, 2 the call cannot be read,
// 3 the policy is invalid.
enum class ExplainForm : std::uint8_t { kText, kJson };
int RunPolicyExplain(const std::string& path, const std::string& call, const Headers& headers,
                     const std::string& body, ExplainForm form, std::ostream& out,
                     const ArgumentsReader& read_arguments = {});
int RunPolicyTest(const std::string& path, std::ostream& out,
                  const ArgumentsReader& read_arguments = {});

}  // namespace recourse
