// A body is read as arguments one way or refused. Input: a content type, a line break, the body.
#include <algorithm>
#include <string>

#include "filters/call/call_values.h"
#include "filters/key/canonical_args.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {

void FuzzOne(std::string_view bytes) {
  const auto line = std::min(bytes.find('\n'), bytes.size());
  HttpRequest request;
  request.method = "POST";
  request.target = "/orders";
  request.headers.emplace_back("Content-Type", std::string(bytes.substr(0, line)));
  request.body = bytes.substr(std::min(line + 1, bytes.size()));
  const auto body = ReadCallBody(request);
  if (!body) return;
  const std::string path = "/orders";
  const std::vector<std::pair<std::string, std::string>> query;
  const std::vector<std::string> ignore;
  const std::string json = CanonicalJson(body->json, ignore);
  const CallArgs args{request.method, path, request.target, query,
                      *body,          json, request.body,   ignore};
  RC_CHECK(CanonicalArgs(args) == CanonicalArgs(args));
  if (body->form == BodyForm::kRaw) RC_CHECK(body->values() == nullptr);
}

}  // namespace recourse
