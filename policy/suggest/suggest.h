// `recourse policy suggest`: tools of a policy from what observe mode has seen, each word with the
// counts that speak for it. Pure.
#pragma once

#include <string>
#include <vector>

#include "policy/suggest/infer_identity.h"
#include "policy/suggest/infer_links.h"
#include "policy/suggest/seen_tools.h"

namespace recourse {

class Policy;

struct SuggestedTool {
  std::string name;
  SeenTool seen;
  SuggestedIdentity identity;  // of a write
  SuggestedLinks links;        // likewise
  std::string takes_back;      // the tool that it is the undo of
};

// What enforce would make of the writes seen, under the suggestion.
struct SuggestedReplay {
  std::size_t writes = 0, repeats = 0;
  std::size_t refused = 0;  // of the repeats: they differ in what is in the fingerprint only
  std::size_t merged = 0;   // taken for a repeat, and shown to be another intent
};

// How a tool that the policy lists takes the calls that were seen.
struct ListedVerdict {
  std::string name;
  bool is_judged = false;  // no: it looks at what no sighting holds
  std::size_t repeats = 0, caught = 0;
  std::size_t merged = 0;  // other intents that it takes for a repeat
};

struct Suggestion {
  std::size_t calls = 0;
  std::vector<SuggestedTool> tools;      // that the policy does not list yet
  std::size_t listed = 0;                // tools left out because it does
  std::size_t writes = 0, untraced = 0;  // of them: neither a trace nor a key of the agent's
  std::vector<ListedVerdict> judged;     // of those that are listed, the writes
  std::vector<std::string> left_out;     // with the loader's reason
  SuggestedReplay replay;
};

// `seen` is ordered by time. What `policy` lists is taken as it is; without it, what the policy
// listed that was in force then is left out.
Suggestion SuggestTools(const std::vector<Sighting>& seen, const std::vector<KnownOperation>& known,
                        const Policy* policy = nullptr);

// The section `tools`, to stand beside the policy in force in one directory. What the loader
// refuses is left out, and said so.
std::string ToolsText(Suggestion& suggestion);

}  // namespace recourse
