#include "filters/upstream_request.h"

#include "filters/answers.h"

namespace recourse {

HttpRequest UpstreamRequest(const RequestContext& context, const std::string& key) {
  HttpRequest request = context.request;
  StripOwnFields(request.headers);
  if (IsLoggedOnly(context)) return request;
  SetHeader(request.headers, "Accept-Encoding", "identity");
  const std::string& field = context.backend->key_header;
  // A key that the client wrote into the very field the backend reads stays as the client wrote it.
  const bool is_clients = !context.key_is_taken && EqualsIgnoreCase(field, "Idempotency-Key") &&
                          FindHeader(request.headers, field) != nullptr;
  if (!field.empty() && !is_clients) SetHeader(request.headers, field, key);
  return request;
}

}  // namespace recourse
