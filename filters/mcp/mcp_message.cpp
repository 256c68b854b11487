#include "filters/mcp/mcp_message.h"

namespace recourse {

void WriteMcpClient(JsonObject& json, std::string_view name) {
  JsonObject client = json.Object(name);
  client.Text("name", "recourse");
  client.Text("version", RECOURSE_VERSION);
}

void WriteMcpMeta(JsonObject& params, std::string_view version, std::string_view capabilities) {
  JsonObject meta = params.Object("_meta");
  meta.Text("io.modelcontextprotocol/protocolVersion", version);
  WriteMcpClient(meta, "io.modelcontextprotocol/clientInfo");
  meta.Raw("io.modelcontextprotocol/clientCapabilities", capabilities);
}

}  // namespace recourse
