// What must hold for every head that the parser accepts, whichever side it came from.
#pragma once

#include <string>
#include <string_view>

#include "proxy/net/http1/message_head.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {

inline bool IsClean(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

inline std::size_t ForwardedFields(const Head& head) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const FieldId id = head.fields[i].id;
    RC_CHECK(!head.fields[i].name.empty());
    RC_CHECK(id == FieldId::kOther || head.Has(id));
    RC_CHECK(IsClean(head.fields[i].name) && IsClean(head.fields[i].value));
    if (!head.fields[i].hop && id != FieldId::kContentLength && id != FieldId::kHost) ++count;
  }
  return count;
}

// The same body framing as `head`, written by the only code that writes framing.
inline void WriteFraming(const Head& head, HeadWriter& writer) {
  if (head.body == BodyKind::kLength) writer.ContentLength(head.content_length);
  if (head.body == BodyKind::kChunked) writer.Chunked();
  writer.End();
}

// No part of an accepted head may be a whole head, and a refusal must not depend on how the bytes
// were cut on their way.
template <class Parse>
void CheckPrefixes(std::string_view bytes, const ParseResult& whole, std::size_t size,
                   Parse parse) {
  const auto head = std::make_unique<Head>();
  for (std::size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 16) {
    const ParseResult part = parse(ExactBytes(bytes.substr(0, cut)).view(), *head);
    const bool is_whole = whole.state == ParseState::kComplete && cut >= size;
    if (is_whole) {
      RC_CHECK(part.state == ParseState::kComplete && head->size == size);
    } else {
      RC_CHECK(part.state != ParseState::kComplete);
      if (whole.state != ParseState::kBad) RC_CHECK(part.state == ParseState::kNeedMore);
    }
  }
}

}  // namespace recourse
