// A flow as operators look at it: its steps with what they did, and what undoing it would do.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/ledger.h"
#include "policy/model/policy.h"

namespace recourse {

// What an undo of the flow means for one step.
enum class StepDoes : std::uint8_t {
  kNothing,  // it had no effect, or that is undone, or may stay
  kSettle,   // first it has to be found out whether it took effect
  kSend,     // its undo request is sent
  kSkip,     // the policy says that nothing has to be undone
  kStop,     // it cannot be undone: a human has to see to it
  kTooOld,   // its tool's undo window is over
};
std::string_view NameOf(StepDoes does);  // "send"

// A place that somebody has changed after a step of ours, as JSON text; unset: it is not there.
struct PlaceDrift {
  std::string place;  // a pointer
  std::optional<std::string> before, ours, now;
};

struct StepView {
  FlowStep step;
  std::optional<Event>
      event;               // that proved its effect, else its first; unset: retention removed it
  std::string undo_class;  // of its tool; empty: its policy has it no more
  StepDoes does = StepDoes::kNothing;
  std::string why;                     // for people; empty where `does` says it all
  std::optional<HttpRequest> request;  // of kSend; credentials are hidden
  std::string base_url;                // where it goes
  bool is_reached = true;              // false: a step that comes before it stops the undo
  // In its backend's words, cut to kSaidBytesMax: why it refused the step, and what it said to the
  // last undo request.
  std::optional<HttpResponse> said{}, undo_said{};
  std::optional<HttpRequest> undo_sent{};  // of a step that is undone; credentials are hidden
  std::vector<PlaceDrift> drift{};         // why its undo was held back
};

struct FlowView {
  FlowState state;
  std::vector<StepView> steps;     // as in `state`
  std::vector<std::size_t> order;  // indexes into `steps` of what an undo comes to, in order
  std::string refused;             // why a human may not have it undone now; empty: he may
};

// The policy of a version, or the one in force when it is lost.
using PolicyOfVersion = std::function<std::shared_ptr<const Policy>(const std::string& version)>;

// The last event of an operation, with its answer.
using LastEventOf = std::function<std::expected<Event, std::string>(std::uint64_t operation)>;

// Reads the steps' events. Blocking; fails when the ledger cannot be read.
Result<FlowView> ViewFlow(Ledger& ledger, const LastEventOf& last_of, const PolicyOfVersion& policy,
                          FlowState state, std::int64_t now_ms);

}  // namespace recourse
