#include "proxy/admin/api/process_api.h"

#include <chrono>
#include <optional>
#include <utility>

#include "proxy/admin/access/problem.h"
#include "proxy/admin/api/process_json.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

HttpResponse LevelAnswer() { return JsonAnswer(LogLevelJson(LeastLogLevel())); }

// Nothing is being worked on. What waits for a human is not waited for, nor an unknown outcome that
// nobody settles. `work` was read before `stats`: what is settled may break a flow.
bool IsSettled(const ProcessApi::Work& work, const LedgerStats& stats, Mode mode) {
  if (work.connections > 0 || work.writes > 0 || work.approved > 0) return false;
  // In observe mode nothing of the ledger is ever settled or undone.
  return mode == Mode::kObserve || ((work.settling == 0 || stats.uncertain == 0) &&
                                    stats.running == 0 && stats.flows_breaking == 0);
}

}  // namespace

HttpResponse ProcessApi::Handle(const AccessControl::Visit& visit, const HttpRequest& request) {
  const std::string_view at = visit.endpoint->path;
  if (at == admin_paths::kDrain) return Drain(visit.who);
  if (at == admin_paths::kStatus) return Status();
  return request.method == "PUT" ? ChangeLevel(request.body, visit.who) : LevelAnswer();
}

HttpResponse ProcessApi::ChangeLevel(const std::string& body, const Operator& who) {
  const auto json = ParseJson(body);
  const bool is_level = json && json->members.size() == 1 && json->members.front().first == "level";
  const auto level = is_level ? LogLevelFromName(json->members.front().second.text) : std::nullopt;
  if (!level) {
    return Problem(
        400, "Bad body",
        "the body must be a JSON object such as {\"level\": \"debug\"}; accepted: debug, "
        "info, warn, error");
  }
  parts_.note(who, "log-level." + std::string(NameOf(*level)));
  SetLogLevel(*level);
  return LevelAnswer();
}

HttpResponse ProcessApi::Drain(const Operator& who) {
  const Work work = parts_.work();
  if (!work.is_ready && !work.is_draining) {
    return Problem(503, "Not now", "the process is still starting; ask again in a moment");
  }
  if (!work.is_draining) parts_.note(who, "drain");
  parts_.drain();
  return Status();
}

HttpResponse ProcessApi::Status() const {
  const Work work = parts_.work();
  const LedgerStats stats = parts_.ledger.Stats();
  const auto policy = parts_.reloader.versions().Current();
  const auto up = parts_.clock.Now() - began_;
  return JsonAnswer(
      StatusJson({.work = work,
                  .stats = stats,
                  .policy = *policy,
                  .reloader = parts_.reloader,
                  .ledger = parts_.ledger,
                  .is_settled = IsSettled(work, stats, policy->mode),
                  .started = Rfc3339Millis(ToUnixMillis(started_)),
                  .up_s = std::chrono::duration_cast<std::chrono::seconds>(up).count()}));
}

}  // namespace recourse
