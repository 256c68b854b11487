// From a call to what the ledger is asked about it: key, probe and rules.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "filters/call/call_values.h"
#include "filters/call_context.h"
#include "filters/key/key.h"
#include "filters/ledger/ledger.h"
#include "proxy/base/crypto/sha256.h"
#include "proxy/base/random.h"

namespace recourse {

struct PreparedCall {
  std::shared_ptr<const CallBody> body;
  DerivedKey key{};
  NewOperation operation{};
  // Of a step: whether anything names its flow, which else is one of this step alone.
  std::optional<bool> shares_flow{};
};

// The tool that rules the call: the matched one, or what rules unlisted writes.
const Tool& ToolOf(const RequestContext& context);

// Fills `call`, which is empty. Fails as ReadCallBody, DeriveKey and ObjectionTo do, and with
// kMalformedRequest for a Recourse-Flow that cannot be read. RefusalDetail puts the failure into
// words. Pure.
Result<void> PrepareCall(const RequestContext& context, const HmacKey& secret, PreparedCall& call);

// Gives the operation its request to keep, where it can be sent again to find out what became of
// it: the backend de-duplicates by key, and there is no probe to ask. The ledger decides on the
// key, so a placeholder stands for it. Pure.
void KeepRequest(const RequestContext& context, PreparedCall& call);

// For calls that are only logged: under a key that no other call has, without a reading of the
// body.
PreparedCall PrepareLoggedOnly(const RequestContext& context, const HmacKey& secret,
                               Random& random);

// Whether PrepareCall has failed by `deny` or `allow` of the tool.
bool IsForbidding(const Error& error);

std::string RefusalDetail(const RequestContext& context, const Error& error);

}  // namespace recourse
