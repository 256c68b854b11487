#include "filters/settle/settle_recorder.h"

#include "filters/call/stored_call.h"
#include "filters/flow_effect.h"
#include "filters/key/standing_marks.h"
#include "filters/settle/human_word.h"
#include "proxy/base/crash_point.h"

namespace recourse {

void SettleRecorder::NoteEffect(const Event& uncertain, const Policy* policy,
                                Transition& transition) const {
  const Backend* const backend =
      policy == nullptr ? nullptr : FindBackend(*policy, uncertain.backend);
  if (backend == nullptr || uncertain.undoes != 0) return;
  AddEffect({policy, *backend, uncertain.path}, secret_, uncertain, transition);
}

Task<Result<Event>> SettleRecorder::Record(const Event& uncertain, const Policy* policy,
                                           Transition transition) {
  const Tool* const tool =
      uncertain.is_step && policy != nullptr ? policy->FindTool(uncertain.tool) : nullptr;
  if (tool != nullptr) transition.flow = FlowEffectOf(*policy, *tool, transition.to);
  NoteEffect(uncertain, policy, transition);
  const bool breaks_flow = transition.flow && transition.flow->to == FlowPhase::kBreaking;
  Result<Event> recorded = co_await parts_.ledger.Record(std::move(transition), parts_.executor);
  if (recorded && breaks_flow && parts_.breaks_flow) parts_.breaks_flow(*recorded);
  co_return recorded;
}

Task<std::expected<Event, std::string>> SettleRecorder::RecordWord(
    HumanWord word, Event last, std::shared_ptr<const Policy> policy,
    std::optional<Transition::FlowEffect> effect) {
  using Answer = std::expected<Event, std::string>;
  if (std::string objection = ObjectionToSettling(word, last); !objection.empty()) {
    co_return Answer(std::unexpected(std::move(objection)));
  }
  auto transition = TransitionOf(word, last, policy.get());
  if (!transition) co_return Answer(std::unexpected(transition.error()));
  if (effect) transition->flow = std::move(effect);
  NoteEffect(last, policy.get(), *transition);
  RC_CRASH_POINT("k28");
  auto recorded = co_await parts_.ledger.Record(std::move(*transition), parts_.executor);
  if (!recorded) co_return Answer(std::unexpected(std::string(recorded.error().detail())));
  RC_CRASH_POINT("k29");
  co_return Answer(std::move(*recorded));
}

Task<Result<Event>> SettleRecorder::RecordLate(const Event& absent, const Policy* policy,
                                               Transition transition) {
  transition.from = absent.phase;
  NoteEffect(absent, policy, transition);
  co_return co_await parts_.ledger.Record(std::move(transition), parts_.executor);
}

}  // namespace recourse
