// What is decoded stays within its bounds, and nothing is decoded from what is cut.
#include "proxy/base/http/content_coding.h"
#include "proxy/base/limits.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {

void FuzzOne(std::string_view bytes) {
  for (const std::string_view coding : {"gzip", "deflate"}) {
    const auto text = DecodeContent(coding, bytes);
    if (!text) {
      RC_CHECK(!text.error().detail().empty());
      continue;
    }
    RC_CHECK(text->size() <= limits::kDecodedBytesMax);
    RC_CHECK(text->size() <= bytes.size() * limits::kDecodedRatioMax);
    RC_CHECK(!DecodeContent(coding, bytes.substr(0, bytes.size() - 1)));
  }
}

}  // namespace recourse
