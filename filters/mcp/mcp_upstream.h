// Speaks MCP over another connection: what an MCP server answers, in whatever form it comes, is one
// Answer (Answer::message). Other requests than calls of the server's endpoint go through
// unchanged.
#pragma once

#include <memory>

#include "filters/codec.h"

namespace recourse {

// Of one I/O thread.
//
// A call whose answer is a stream that was cut is taken up again (GET with Last-Event-ID) as long
// as its deadline and kResumesMax allow, when the server gave an event id and a session. What
// ends without a final message fails with kUncertain delivery; a refusal over HTTP alone is an
// Answer without `message`. What it answers is read by `codec`, which outlives it.
std::unique_ptr<UpstreamConnection> OverMcp(const Codec& codec, const CodecParts& parts,
                                            std::shared_ptr<const Backend> backend,
                                            std::unique_ptr<UpstreamConnection> plain);

// The same reading of an answer to `call` that was recorded on its way to a client, framing and
// all. Fails as an exchange does.
Result<Answer> ReadRecordedMcp(const Codec& codec, Answer recorded, const HttpRequest& call);

}  // namespace recourse
