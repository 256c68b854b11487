// What is told of calls in observe mode, beside the stream.
#pragma once

#include <optional>
#include <string_view>

#include "policy/model/call_refusal.h"
#include "proxy/exchange/served_request.h"
#include "proxy/net/message/body_decoder.h"

namespace recourse {

// The call is observed, unless too many are; it is what its route says, and what enforce would have
// refused it for.
void StartObservation(ServedRequest& request, const std::optional<CallRefusal>& refusal);

// A call, read or write, is seen for `recourse policy suggest`.
void StartTap(ServedRequest& request);

// A piece of the body of a call that is observed. True: it was the last one, and route.judge has to
// look at the whole.
[[nodiscard]] bool TakeObserved(ServedRequest& request, const BodyDecoder::Piece& piece);

// The body has said what a call to an endpoint is. False: it only asks, and is not observed any
// more.
bool ObserveAs(ServedRequest& request, const Tool* tool, Effect effect);

// What enforce would have said to a call that is not observed.
void NoteRefusal(ServedRequest& request, std::string_view path, const CallRefusal& refusal);

// Of a form that streams by: enforce would have cut it off there.
void NoteFormOverride(ServedRequest& request, std::string_view reason);

}  // namespace recourse
