// Finds what the rules ask for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "filters/ledger/engine/admission.h"
#include "filters/ledger/engine/ledger_state.h"
#include "filters/ledger/replay_counts.h"
#include "filters/ledger/rules/known.h"
#include "filters/ledger/rules/refusal_pace.h"
#include "proxy/base/check.h"

namespace recourse {

// One thread at a time.
class LedgerLookup final : FactFinder {
 public:
  explicit LedgerLookup(LedgerState& state) : state_(state), admission_(state) {}

  // What the rule decides by what is found for it.
  template <class Rule>
  auto Judge(const Rule& rule) -> Result<typename std::invoke_result_t<Rule, Known&>::value_type>;
  Admission& admission() { return admission_; }
  const Admission& admission() const { return admission_; }

 private:
  void Begin(Known& known);
  void Find(const Subject& subject, Known& known) override;
  Result<std::optional<FoundOperation>> LookUp(const OperationOf& asked);
  Result<std::optional<ApprovalState>> LookUp(const ApprovalOf& asked);
  Result<std::vector<ApprovalState>> LookUp(const ApprovalsIn& asked);
  Result<std::optional<FlowState>> LookUp(const FlowNumbered& asked);
  Result<FlowNamed::Fact> LookUp(const FlowNamed& asked);
  Result<Event> LookUp(const EventAt& asked);
  Result<EventFront> LookUp(const FrontOf& asked);
  Result<std::optional<std::uint64_t>> LookUp(const IntentOf& asked);
  Result<std::optional<std::uint64_t>> LookUp(const MarkSince& asked);
  Result<bool> LookUp(const RoomFor& asked);
  Result<std::optional<FoundOperation>> LookUp(const KeyAt& asked);
  Result<std::optional<std::uint32_t>> LookUp(const GenerationOf& asked);
  Result<AnswerAt::Fact> LookUp(const AnswerAt& asked);
  static Result<bool> LookUp(const OthersWait& asked);
  Result<std::vector<OpenWritesAt::Open>> LookUp(const OpenWritesAt& asked);
  Result<std::int64_t> LookUp(const AgeOf& asked);
  Result<bool> LookUp(const KeyIsOver& asked);
  Result<FenceAt::Fact> LookUp(const FenceAt& asked);
  Result<std::optional<Millis>> LookUp(const TryOf& asked);
  Result<int> LookUp(const ReplaysOf& asked);
  Result<std::optional<Error>> LookUp(const AdmissionOf& asked);
  // Corrects the wall time of its state by what is known of jumps.
  void Date(KeyEntry& entry) const;

  LedgerState& state_;
  Admission admission_;
  RefusalPace refusals_;
  ReplayCounts replays_;
  std::string row_;  // reused
};

template <class Rule>
auto LedgerLookup::Judge(const Rule& rule)
    -> Result<typename std::invoke_result_t<Rule, Known&>::value_type> {
  // Small facts, and few: most verbs need no more than this.
  std::array<std::byte, 2048> bytes;
  std::pmr::monotonic_buffer_resource room(bytes.data(), bytes.size());
  Known known(&room);
  Begin(known);
  auto judged = rule(known);
  if (judged) return std::move(*judged);
  RC_CHECK(std::holds_alternative<Error>(judged.error()));  // nothing is left to be asked for
  return std::unexpected(std::get<Error>(judged.error()));
}

}  // namespace recourse
