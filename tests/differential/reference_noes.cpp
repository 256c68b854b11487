// What humans refused, in ReferenceEngine: an equal call is not asked about again.
#include "filters/ledger/rows/earlier_no.h"
#include "filters/ledger/rows/row_codec.h"
#include "tests/differential/reference.h"

namespace recourse {

void ReferenceEngine::NoteNo(std::string_view caller, std::string_view tool,
                             const Digest& args_hash, std::uint64_t operation) {
  index_.PutIntent(KeyOfNo(caller, tool, args_hash), operation);
  index_.PutIntent(KeyOfNo(caller, tool), operation);
}

Result<std::optional<ReferenceEngine::Refused>> ReferenceEngine::FindNo(const Digest& key,
                                                                        Millis expires) {
  const auto operation = index_.FindIntent(key);
  if (!operation) return std::unexpected(operation.error());
  if (!*operation) return std::nullopt;
  auto found = FindByOperation(**operation);
  if (!found) return std::unexpected(found.error());
  if (!*found || (*found)->entry.phase != Phase::kDenied) return std::nullopt;
  const KeyEntry& entry = (*found)->entry;
  auto event = ReadEvent(entry.last_event);
  if (!event) return std::unexpected(event.error());
  // Of a row whose key is missing the time of its last word counts.
  const ApprovalDecision* const no = NoTo(*event);
  if (no == nullptr && !event->is_locked) return std::nullopt;
  const std::int64_t said_ms = no == nullptr ? entry.last_wall_ms : no->wall_ms;
  if (AgeMs(entry.last_event, said_ms, WallMs()) > expires.count()) return std::nullopt;
  return Refused{**found, std::move(*event)};
}

Result<void> ReferenceEngine::HeedNo(NewOperation& call, Ground& ground) {
  const bool asks = ground.decision.kind == Begun::Kind::kFresh && call.approval &&
                    call.event.verdict == ObserveVerdict::kNone;
  if (!asks) return {};
  const Found* const target = ground.target();
  // It goes on with what was approved.
  if (target != nullptr && StandingApproval(call, *target)) return {};
  const Event& event = call.event;
  const auto same =
      FindNo(KeyOfNo(event.caller, event.tool, event.args_hash), call.approval->expires);
  if (!same) return std::unexpected(same.error());
  if (*same) {
    ground.same_intent = Dated((*same)->found);
    ground.decision = {.target = BeginDecision::Target::kSameIntent, .kind = Begun::Kind::kReplay};
    ground.is_refused = true;
    return {};
  }
  const auto other = FindNo(KeyOfNo(event.caller, event.tool), call.approval->expires);
  if (!other) return std::unexpected(other.error());
  if (!*other) return {};
  const ApprovalDecision* const no = NoTo((*other)->event);
  if (no == nullptr) return {};
  std::string& why = call.approval->why;
  why += (why.empty() ? "" : "; ") + TextOfNo((*other)->event, *no);
  return {};
}

}  // namespace recourse
