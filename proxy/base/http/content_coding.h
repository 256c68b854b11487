// Decoding of compressed answers whose values must be read. Pure; what is stored and passed on
// stays as the backend sent it.
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/error.h"

namespace recourse {

// Decodes `body` by `coding`, the value of Content-Encoding: gzip, x-gzip, or deflate (the zlib
// format of RFC 9110 8.4.1.2), in any case. Fails with kBackendProtocol and a static reason when
// the coding is another one or several, when the data is corrupt or cut, when anything follows its
// end (also a second gzip member, which not every reader reads), and when it grows to more than
// kDecodedBytesMax or kDecodedRatioMax times its size.
Result<std::string> DecodeContent(std::string_view coding, std::string_view body);

}  // namespace recourse
