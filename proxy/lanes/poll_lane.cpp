#include "proxy/lanes/poll_lane.h"

#include "filters/call/poll_token.h"
#include "filters/key/event_answer.h"
#include "filters/ledger/rules/begin_decision.h"
#include "proxy/admin/access/problem.h"
#include "proxy/exchange/poll_answer.h"
#include "proxy/exchange/request_facts.h"

namespace recourse {
namespace {

// What it was told under an earlier name, too.
std::optional<std::uint64_t> ReadPoll(const ServedRequest& request, const std::string& id) {
  const std::string& secret = request.services.ledger_secret;
  auto operation = ReadPollId(secret, id, request.caller.name());
  for (const Caller::Earlier& earlier : request.caller.Earlier(request.policy().callers)) {
    if (!operation) operation = ReadPollId(secret, id, earlier.name);
  }
  return operation;
}

}  // namespace

// Its name is all that it takes, and it decides nothing; whatever else is wrong with it, it looks
// as if there were none.
Task<bool> PollLane::Run(Exchange& exchange) {
  ServedRequest& request = exchange.request;
  const Head& head = request.head;
  if (head.method != "GET" && head.method != "HEAD") {
    co_return co_await Refuse(exchange, ErrorCode::kMethodNotAllowed,
                              "what became of a call can only be asked, with GET", "GET, HEAD");
  }
  if (std::string why = request.caller.WhyNobody(); !why.empty()) {
    co_return co_await Refuse(exchange, ErrorCode::kCallerUnknown, std::move(why));
  }
  const auto operation =
      ReadPoll(request, std::string(request.route.path.substr(kPollPath.size())));
  Result<Event> event = std::unexpected(Error(ErrorCode::kInternal));
  if (operation) event = co_await request.services.ledger->Read(*operation, request.worker.thread);
  const bool is_it = event && IsPollOf(request.services.ledger_secret, request.route.query,
                                       event->operation, event->key);
  if (!is_it || !event->approval) {
    if (operation && !event && event.error().code() != ErrorCode::kInternal) {
      co_return co_await Refuse(exchange, event.error().code(),
                                std::string(event.error().detail()));
    }
    co_return co_await ReplyHere(
        exchange,
        Problem(404, "No such call", "no call of yours that waited for approval has this name"),
        /*understood=*/true);
  }
  const bool may_see =
      MayBeShown(request.Asker(EndToEndFields(head, request.view->fields_read)), event->principal);
  const HttpResponse answer = PollAnswer(*event, may_see);
  const bool kept = co_await ReplyHere(exchange, answer, /*understood=*/true);
  const bool is_told = may_see && event->answer_kept && IsFinalWord(*event) && head.method == "GET";
  if (is_told && !request.record.client_gone && co_await exchange.client.HasTaken()) {
    exchange.client.MarkAnswered(AttemptId::Of(*event));
  }
  co_return kept;
}

}  // namespace recourse
