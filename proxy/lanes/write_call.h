// What writes have in common, however their clients speak of them: a body that is read whole, the
// call that the filters get, and what the log says of it.
#pragma once

#include <functional>
#include <string>

#include "filters/filter.h"
#include "proxy/exchange/body_reservation.h"
#include "proxy/exchange/exchange.h"

namespace recourse {

// Fails with kRequestTooLarge, kOverloaded when there is no room for what has come of it,
// kRequestTimeout (also when the client broke off) or kMalformedRequest: what is left of the body
// is taken after the refusal then. Where the reply is cut, the client cannot be told so.
Task<Result<std::string>> ReadWholeBody(Exchange& exchange, BodyReservation& room);

// The body of a POST to an endpoint, where it says what the call is; the query and the head stay at
// hand. Fails likewise; `too_large` says what may have at most 8 MiB.
Task<Result<std::string>> ReadEndpointBody(Exchange& exchange, BodyReservation& room,
                                           std::string_view too_large);

// The call of the request as its route has it, with these fields, without its body. Before that is
// read.
void FillContext(ServedRequest& request, Headers fields, RequestContext& context);

// What its client is told of an outcome.
WriteAnswer ToAnswer(Result<Outcome> outcome);

// What log and metrics say of it.
void NoteWrite(ServedRequest& request, const RequestContext& context, const WriteAnswer& answer);

// An answer has gone out, which is that of `answered` if it is one of a backend. True: the
// connection may serve another request, as `kept` says unless the client has left. `mark` marks
// that the client has it; false: it heeds none any more.
using MarkTaken = std::function<bool(ClientSide& client, AttemptId answered)>;
Task<bool> EndWrite(Exchange& exchange, bool kept, std::optional<AttemptId> answered,
                    const MarkTaken& mark = {});

}  // namespace recourse
