// Tells by the first bytes of a connection what its client speaks. Pure, strict, bounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/base/client_opening.h"

namespace recourse {

struct ProtocolDetection {
  bool is_complete = false;  // false: more bytes are needed
  ClientOpening opening = ClientOpening::kOther;
  std::string server_name;   // kTls: the SNI host in lower case; empty: none
  std::string_view problem;  // kOther, kBadTls: why; static
};

// `in` is everything that the client has sent so far. Complete as soon as the answer cannot change:
// for HTTP/1 with the method and what can begin a target, for TLS with the whole ClientHello, in
// however many records, for the HTTP/2 preface with its version. Never incomplete from
// kOpeningBytesMax on.
ProtocolDetection ReadFirstBytes(std::string_view in);

// Whether it begins as TLS does. `in` is not empty.
inline bool MayBeTls(std::string_view in) { return in.front() == 22; }

}  // namespace recourse
