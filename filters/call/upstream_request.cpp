#include "filters/call/upstream_request.h"

#include "filters/call/answers.h"

namespace recourse {

Headers UpstreamFields(const RequestContext& context, const std::string& key) {
  static constexpr std::size_t kMoreFields = 4;
  Headers fields;
  fields.reserve(context.request.headers.size() + kMoreFields);
  for (const Header& field : context.request.headers) {
    if (!IsOwnField(field.first)) fields.push_back(field);
  }
  if (IsLoggedOnly(context)) return fields;
  SetHeader(fields, "Accept-Encoding", "identity");
  // Under one key a backend may run one call only, whether or not the policy knows that it reads
  // it.
  if (context.key_is_taken) RemoveHeader(fields, "Idempotency-Key");
  const std::string& field = context.backend->key_header;
  // A key that the client wrote into the very field the backend reads stays as the client wrote it.
  const bool is_clients =
      EqualsIgnoreCase(field, "Idempotency-Key") && FindHeader(fields, field) != nullptr;
  if (!field.empty() && !is_clients) SetHeader(fields, field, key);
  return fields;
}

HttpRequest UpstreamRequest(const RequestContext& context, const std::string& key) {
  return {context.request.method, context.request.target, UpstreamFields(context, key),
          context.request.body};
}

}  // namespace recourse
