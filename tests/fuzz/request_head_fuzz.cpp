// A request head is read one way only: what goes on is rendered anew and reads the same again.
#include "tests/fuzz/head_properties.h"

namespace recourse {
namespace {

void CheckRendered(const Head& head) {
  const auto out = std::make_unique<char[]>(limits::kRelayBufferBytes);
  HeadWriter writer(out.get(), limits::kRelayBufferBytes);
  writer.StartRequest(head.method, head.target);
  writer.Add("Host", head.host.empty() ? "backend" : head.host);
  writer.CopyFields(head, Bit(FieldId::kHost));
  WriteFraming(head, writer);
  RC_CHECK(writer.ok());
  const auto again = std::make_unique<Head>();
  const ExactBytes rendered(writer.view());
  const ParseResult result = ParseRequestHead(rendered.view(), *again);
  RC_CHECK(result.state == ParseState::kComplete);
  RC_CHECK(again->size == rendered.view().size());
  RC_CHECK(again->method == head.method && again->target == head.target);
  RC_CHECK(again->path == head.path);
  RC_CHECK(again->body == head.body &&
           (head.body != BodyKind::kLength || again->content_length == head.content_length));
  RC_CHECK(ForwardedFields(*again) == ForwardedFields(head));
}

}  // namespace

void FuzzOne(std::string_view bytes) {
  const auto head = std::make_unique<Head>();
  const ParseResult result = ParseRequestHead(bytes, *head);
  if (result.state == ParseState::kBad) RC_CHECK(!result.error.detail().empty());
  if (result.state == ParseState::kComplete) {
    RC_CHECK(head->size <= bytes.size() && head->field_count <= limits::kFieldsMax);
    RC_CHECK(head->body != BodyKind::kUntilClose);
    RC_CHECK(IsClean(head->method) && IsClean(head->target));
    CheckRendered(*head);
  }
  CheckPrefixes(bytes, result, head->size, ParseRequestHead);
}

}  // namespace recourse
