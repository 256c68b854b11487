#include "filters/call/codecs.h"

#include <utility>

#include "filters/graphql/graphql_codec.h"
#include "filters/mcp/mcp_codec.h"
#include "policy/model/tool_names.h"

namespace recourse {

const Codec& CodecOf(Protocol protocol) {
  static const Codec http;
  switch (protocol) {
    case Protocol::kMcp:
      return McpCodec();
    case Protocol::kGraphql:
      return GraphqlCodec();
    case Protocol::kHttp:
      break;
  }
  return http;
}

const Codec& CodecOf(const Tool& tool) { return CodecOf(tool, {}); }

const Codec& CodecOf(const Tool& tool, std::string_view method) {
  if (!tool.mcp_names.empty() || method == kToolsCall) return CodecOf(Protocol::kMcp);
  if (!tool.mutations.empty() || method == kMutation) return CodecOf(Protocol::kGraphql);
  return CodecOf(Protocol::kHttp);
}

std::unique_ptr<UpstreamConnection> CodecUpstream::Open(const Backend& backend) {
  return CodecOf(backend).Over(parts_, backend, nullptr, parts_.plain.Open(backend));
}

std::unique_ptr<UpstreamConnection> CodecUpstream::OpenForCall(
    std::shared_ptr<const Backend> backend) {
  const Backend& called = *backend;
  auto plain = parts_.plain.OpenForCall(backend);
  return CodecOf(called).Over(parts_, called, std::move(backend), std::move(plain));
}

}  // namespace recourse
