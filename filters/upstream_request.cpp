#include "filters/upstream_request.h"

#include "filters/answers.h"

namespace recourse {

HttpRequest UpstreamRequest(const RequestContext& context, const std::string& key) {
  HttpRequest request = context.request;
  StripOwnFields(request.headers);
  if (IsLoggedOnly(context)) return request;
  SetHeader(request.headers, "Accept-Encoding", "identity");
  // Under one key a backend may run one call only, whether or not the policy knows that it reads
  // it.
  if (context.key_is_taken) RemoveHeader(request.headers, "Idempotency-Key");
  const std::string& field = context.backend->key_header;
  // A key that the client wrote into the very field the backend reads stays as the client wrote it.
  const bool is_clients =
      EqualsIgnoreCase(field, "Idempotency-Key") && FindHeader(request.headers, field) != nullptr;
  if (!field.empty() && !is_clients) SetHeader(request.headers, field, key);
  return request;
}

}  // namespace recourse
