// How a client begins on a connection that may carry anything.
#pragma once

#include <cstdint>

namespace recourse {

enum class ClientOpening : std::uint8_t {
  kHttp,    // a request line of HTTP/1
  kHttp2,   // its preface
  kTls,     // a ClientHello
  kBadTls,  // begins like one, and cannot be read in one way
  kOther,
};

}  // namespace recourse
