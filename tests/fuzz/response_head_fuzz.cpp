// An answer's head: bounded, without line breaks in any part, and the same after rendering.
#include "tests/fuzz/head_properties.h"

namespace recourse {
namespace {

ParseResult ParseGet(std::string_view in, Head& head) { return ParseResponseHead(in, "GET", head); }

void CheckRendered(const Head& head) {
  const auto out = std::make_unique<char[]>(limits::kRelayBufferBytes);
  HeadWriter writer(out.get(), limits::kRelayBufferBytes);
  writer.StartResponse(head.status, head.reason);
  writer.CopyFields(head, 0);
  WriteFraming(head, writer);
  RC_CHECK(writer.ok());
  const auto again = std::make_unique<Head>();
  const ExactBytes rendered(writer.view());
  RC_CHECK(ParseGet(rendered.view(), *again).state == ParseState::kComplete);
  RC_CHECK(again->size == rendered.view().size() && again->status == head.status);
  RC_CHECK(again->body == head.body &&
           (head.body != BodyKind::kLength || again->content_length == head.content_length));
  RC_CHECK(ForwardedFields(*again) == ForwardedFields(head));
}

}  // namespace

void FuzzOne(std::string_view bytes) {
  const auto head = std::make_unique<Head>();
  const ParseResult result = ParseGet(bytes, *head);
  if (result.state == ParseState::kComplete) {
    RC_CHECK(head->status >= 100 && head->status <= 999 && IsClean(head->reason));
    CheckRendered(*head);
    const auto of_head = std::make_unique<Head>();
    RC_CHECK(ParseResponseHead(bytes, "HEAD", *of_head).state == ParseState::kComplete);
    RC_CHECK(of_head->body == BodyKind::kNone && of_head->size == head->size);
  }
  CheckPrefixes(bytes, result, head->size, ParseGet);
}

}  // namespace recourse
