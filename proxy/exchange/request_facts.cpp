#include "proxy/exchange/request_facts.h"

#include <algorithm>

#include "filters/saga/flow_rules.h"
#include "policy/model/principal.h"
#include "proxy/base/hex.h"

namespace recourse {
namespace {

// Of a field that goes no further than to us.
bool IsReadOfProxy(std::string_view name, const std::vector<std::string>& fields_read) {
  return IsPrincipalField(name) || IsTenantField(name) ||
         std::ranges::binary_search(fields_read, ToLower(name));
}

}  // namespace

std::string_view QueryOf(const Head& head) {
  const auto question = head.path.find('?');
  return question == std::string_view::npos ? std::string_view() : head.path.substr(question);
}

bool HasBody(const Head& head) {
  return head.body == BodyKind::kChunked ||
         (head.body == BodyKind::kLength && head.content_length > 0);
}

bool HasUnexpectedBody(const Head& head) { return HasBody(head) && IsReadMethod(head.method); }

std::string_view TraceIdOf(const Head& head) {
  static constexpr std::size_t kBegin = 3, kSize = 32, kTraceparentBytes = 55;
  if (head.traceparent.size() < kTraceparentBytes) return {};
  const char* const id = head.traceparent.data() + kBegin;
  return IsLowerHex({id, kSize}) ? std::string_view(id, kSize) : std::string_view();
}

bool HasFlowOrder(const Head& head) {
  if (!head.Has(FieldId::kRecourseFlow)) return false;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.id == FieldId::kRecourseFlow) return IsFlowOrder(field.value);
  }
  return false;
}

std::vector<std::string> FieldsReadBy(const Policy& policy,
                                      const std::vector<std::weak_ptr<const Policy>>& earlier) {
  std::vector<std::string> fields = policy.fields_read;
  for (const auto& each : earlier) {
    const auto before = each.lock();
    if (before == nullptr) continue;
    fields.insert(fields.end(), before->fields_read.begin(), before->fields_read.end());
  }
  std::ranges::sort(fields);
  fields.erase(std::ranges::unique(fields).begin(), fields.end());
  return fields;
}

Headers EndToEndFields(const Head& head, const std::vector<std::string>& fields_read) {
  Headers fields;
  fields.reserve(head.field_count + 1);  // and the trace
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.hop || field.id == FieldId::kHost || field.id == FieldId::kContentLength ||
        field.id == FieldId::kExpect || field.id == FieldId::kRecourseOwn) {
      continue;
    }
    if (field.id == FieldId::kForwarded && !IsReadOfProxy(field.name, fields_read)) continue;
    fields.emplace_back(field.name, field.value);
  }
  return fields;
}

}  // namespace recourse
