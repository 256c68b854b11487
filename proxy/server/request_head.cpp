#include "proxy/server/request_head.h"

#include "filters/saga/flow_rules.h"

namespace recourse {

bool HasUnexpectedBody(const Head& head) {
  if (head.body == BodyKind::kNone) return false;
  if (head.body == BodyKind::kLength && head.content_length == 0) return false;
  return head.method == "GET" || head.method == "HEAD" || head.method == "OPTIONS";
}

bool HasField(const Head& head, FieldId id) {
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (head.fields[i].id == id) return true;
  }
  return false;
}

bool HasFlowOrder(const Head& head) {
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.id == FieldId::kRecourseFlow) return IsFlowOrder(field.value);
  }
  return false;
}

Headers EndToEndFields(const Head& head) {
  Headers fields;
  fields.reserve(head.field_count + 1);  // and the trace
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.hop || field.id == FieldId::kHost || field.id == FieldId::kContentLength ||
        field.id == FieldId::kExpect || field.id == FieldId::kForwarded ||
        field.id == FieldId::kRecourseOwn) {
      continue;
    }
    fields.emplace_back(field.name, field.value);
  }
  return fields;
}

}  // namespace recourse
