#include "proxy/admin/api/operation_api.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/access/problem.h"
#include "proxy/admin/api/order_word.h"
#include "proxy/admin/api/query_params.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/admin/views/pod_names.h"

namespace recourse {
namespace {

// Its error is an answer for people.
std::expected<HumanWord, HttpResponse> ReadHumanWord(const HttpRequest& request,
                                                     const Operator& who) {
  const auto word = ReadOrderWord(request.body, who);
  if (!word) return std::unexpected(Problem(400, "Bad body", word.error()));
  const auto bad = [](std::string_view why) {
    return std::unexpected(Problem(400, "Bad body", why));
  };
  if (word->as != "happened" && word->as != "absent") {
    return bad("'" + word->as + "' is no value for as; accepted: happened, absent");
  }
  if (word->step != 0) return bad("'step' is for the steps of flows");
  if (word->as == "absent" && !word->external_ref.empty()) {
    return bad("'external_ref' is for what happened");
  }
  if (word->reason.empty()) {
    return std::unexpected(
        Problem(400, "No reason", "say why, for the log: {\"reason\": \"...\"}"));
  }
  return HumanWord{.happened = word->as == "happened",
                   .external_ref = word->external_ref,
                   .reason = ReasonOf(*word)};
}

}  // namespace

HttpResponse OperationApi::Handle(const AccessControl::Visit& visit, const HttpRequest& request) {
  std::uint64_t number = 0;
  if (!ParseId(admin_paths::PlaceIn(visit.endpoint->path, visit.path), number)) {
    return Problem(400, "Bad operation", "an operation is named by its number");
  }
  // People read the number off a list of events.
  const auto event = parts_.ledger.Find(number);
  if (!event) return NoLedger(event.error().detail());
  if (!*event) {
    return Problem(404, "No such operation",
                   fmt::format("no operation that was sent has the number {}", PrintRowId(number)));
  }
  if ((*event)->verdict != ObserveVerdict::kNone) {
    return Problem(409, "Not settled",
                   fmt::format("operation {} was made in observe mode; nothing waits for it",
                               PrintRowId((*event)->operation)));
  }
  auto word = ReadHumanWord(request, visit.who);
  if (!word) return word.error();
  if (parts_.is_observing()) {
    return Problem(409, "Not done", "observe mode leaves operations as they are");
  }
  word->operation = (*event)->operation;
  word->key = (*event)->key;
  const auto settled = parts_.flows.SettleBy(*word);
  if (!settled) return Problem(409, "Not settled", settled.error());
  std::string body;
  PodNames pods(parts_.ledger);
  AppendEvent(body, *settled, &pods);
  return JsonAnswer(std::move(body));
}

}  // namespace recourse
