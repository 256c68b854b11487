// A call that waited in the ledger, as the chain gets it. Pure.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "filters/call_context.h"
#include "filters/ledger/model/event.h"

namespace recourse {

// The context of the request that `event` keeps; executor and timer are unset. Fails with a line
// for people when `policy` does not route it to the tool and backend that it began with.
std::expected<std::unique_ptr<RequestContext>, std::string> ApprovedCall(
    const Event& event, std::shared_ptr<const Policy> policy);

// Why that call may not be made with this body instead; empty: it may. The body is read as the
// original one was. Of a message only its arguments may be others.
std::string ObjectionToEdit(const Event& event, const std::string& body, const Policy& policy);

}  // namespace recourse
