// Reads a backend's answer on the data plane.
#pragma once

#include "filters/upstream.h"
#include "proxy/net/body_decoder.h"
#include "proxy/net/http_head.h"
#include "proxy/net/io_thread.h"

namespace recourse {

// Reads until a head with a final status (200 and up) stands at buffer.begin; `head` then holds
// views of it, and the bytes after head.size are the body's. Interim answers are skipped, at most
// kInterimResponsesMax; 101 is an error, as nobody asked for it. On failure the error code is
// kBackendTimeout, kBackendReset or kBackendProtocol; `*saw_bytes` tells whether any byte came.
Task<Result<void>> ReadResponseHead(Connection& connection, ReadBuffer& buffer,
                                    std::string_view method, Head& head, bool* saw_bytes);

// Reads the body that `head` announces whole into `answer`, up to `bytes_max`. Never fails: what
// is missing is told in answer.body_complete, over_cap and until_close.
Task<void> ReadBody(Connection& connection, ReadBuffer& buffer, const Head& head,
                    std::size_t bytes_max, Answer& answer);

}  // namespace recourse
