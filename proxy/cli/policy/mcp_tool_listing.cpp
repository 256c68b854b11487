#include "proxy/cli/policy/mcp_tool_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <utility>

#include "filters/mcp/mcp_message.h"
#include "filters/mcp/mcp_request.h"
#include "filters/mcp/sse_reader.h"
#include "policy/import/import_text.h"
#include "policy/language/loader.h"
#include "policy/language/policy_builder.h"
#include "policy/model/endpoint.h"
#include "policy/model/url.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"
#include "proxy/net/beast/http_client.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {
namespace {

constexpr std::size_t kHeaderFileBytesMax = 64 * 1024;

// The response to our request out of an answer, however it comes.
class ResponseReader {
 public:
  explicit ResponseReader(int id) : id_(std::to_string(id)) {}

  // Whether it is there, or can no longer come.
  bool Look(const HttpResponse& so_far) {
    const std::string* type = FindHeader(so_far.headers, "Content-Type");
    if (type == nullptr || !ToLower(*type).starts_with("text/event-stream")) return false;
    events_.Feed(std::string_view(so_far.body).substr(fed_));
    fed_ = so_far.body.size();
    while (auto event = events_.Next()) Take(event->data);
    return response_.has_value() || events_.overflowed();
  }
  std::optional<Json> Finish(const HttpResponse& whole) {
    if (!Look(whole) && fed_ == 0) Take(whole.body);
    return std::move(response_);
  }

 private:
  void Take(std::string_view text) {
    auto message = ParseJson(text);
    if (!message || message->kind != Json::Kind::kObject || response_) return;
    const Json* const id = message->Find("id");
    const bool is_final = message->Find("result") != nullptr || message->Find("error") != nullptr;
    if (is_final && id != nullptr && ScalarText(*id) == id_) response_ = std::move(*message);
  }

  const std::string id_;
  SseReader events_{limits::kJsonBytesMax};
  std::size_t fed_ = 0;
  std::optional<Json> response_;
};

// What a server said in place of a result.
struct Refusal {
  bool is_final = false;  // it will say the same in the other era
  std::string text;
};

class Conversation {
 public:
  Conversation(const std::string& path, const Headers& headers, const McpExchange& exchange)
      : path_(path), headers_(headers), exchange_(exchange) {}

  std::expected<McpServerInfo, std::string> Run() {
    if (auto opened = Open(); !opened) return std::unexpected(opened.error());
    auto listed = List();
    Close();
    if (!listed) return std::unexpected(listed.error());
    return std::move(server_);
  }

 private:
  std::expected<void, std::string> Open() {
    era_ = McpEra::kModern;
    auto discovered = Ask("server/discover", [](JsonObject&) {});
    if (discovered) {
      Learn(*discovered, std::string(kModernMcp));
      return {};
    }
    if (discovered.error().is_final) return std::unexpected(discovered.error().text);
    era_ = McpEra::kLegacy;
    auto initialized = Ask("initialize", [](JsonObject& params) {
      params.Text("protocolVersion", kLegacyMcp);
      params.Raw("capabilities", "{}");
      WriteMcpClient(params, "clientInfo");
    });
    if (!initialized) {
      return std::unexpected("is there an MCP server (Streamable HTTP) at this url? " +
                             initialized.error().text);
    }
    const Json* const version = initialized->Find("protocolVersion");
    Learn(*initialized, version == nullptr ? std::string(kLegacyMcp) : version->text);
    (void)Send(
        {"POST", path_, Fields(""), R"({"jsonrpc":"2.0","method":"notifications/initialized"})"},
        0);
    return {};
  }

  void Learn(const Json& result, std::string protocol) {
    const Json* info = AtPointer(result, "/serverInfo");
    if (info == nullptr) info = AtPointer(result, "/_meta/io.modelcontextprotocol~1serverInfo");
    const auto text = [info](std::string_view pointer) {
      const Json* const value = info == nullptr ? nullptr : AtPointer(*info, pointer);
      return value == nullptr ? std::string() : value->text;
    };
    server_.name = text("/name");
    server_.version = text("/version");
    server_.protocol = std::move(protocol);
  }

  std::expected<void, std::string> List() {
    std::string cursor;
    std::set<std::string> seen;
    for (int page = 0; page < limits::kImportedPagesMax; ++page) {
      const auto result =
          Ask("tools/list", [&](JsonObject& params) { params.TextIfAny("cursor", cursor); });
      if (!result) return std::unexpected(result.error().text);
      if (!AddMcpTools(*result, server_)) {
        return std::unexpected("its answer to tools/list has no list of tools");
      }
      const Json* const next = result->Find("nextCursor");
      if (next == nullptr || next->text.empty()) return {};
      cursor = next->text;
      if (!seen.insert(cursor).second) {
        server_.notes.emplace_back("the server's list goes in a circle; tools may be missing");
        return {};
      }
    }
    server_.notes.push_back(fmt::format(
        "the server's list has more than {} pages; tools are missing", limits::kImportedPagesMax));
    return {};
  }

  void Close() {
    if (!session_.empty()) (void)Send({"DELETE", path_, Fields(""), {}}, 0);
  }

  Headers Fields(std::string_view method) const {
    Headers fields = headers_;
    fields.emplace_back("Accept", "application/json, text/event-stream");
    if (!method.empty()) fields.emplace_back("Content-Type", "application/json");
    if (era_ == McpEra::kModern) {
      fields.emplace_back("MCP-Protocol-Version", kModernMcp);
      fields.emplace_back("Mcp-Method", method);
      return fields;
    }
    if (method.empty()) SetHeader(fields, "Content-Type", "application/json");
    if (!server_.protocol.empty()) fields.emplace_back("MCP-Protocol-Version", server_.protocol);
    if (!session_.empty()) fields.emplace_back("Mcp-Session-Id", session_);
    return fields;
  }

  std::expected<HttpResponse, std::string> Send(const HttpRequest& request, int id) {
    reader_.emplace(id);
    return exchange_(request, [this](const HttpResponse& so_far) { return reader_->Look(so_far); });
  }

  // Gives the result.
  std::expected<Json, Refusal> Ask(const std::string& method, auto write_params) {
    const int id = ++last_id_;
    HttpRequest request{"POST", path_, Fields(method), {}};
    request.body = McpMessage(std::to_string(id), [&](JsonObject& json) {
      json.Text("method", method);
      JsonObject params = json.Object("params");
      write_params(params);
      if (era_ == McpEra::kModern) WriteMcpMeta(params, kModernMcp);
    });
    const auto answer = Send(request, id);
    if (!answer) return std::unexpected(Refusal{true, answer.error()});
    if (const std::string* session = FindHeader(answer->headers, "Mcp-Session-Id")) {
      session_ = *session;
    }
    return ResultOf(method, *answer);
  }

  std::expected<Json, Refusal> ResultOf(const std::string& method, const HttpResponse& answer) {
    auto response = reader_->Finish(answer);
    const Json* const result = response ? response->Find("result") : nullptr;
    if (result != nullptr && result->kind == Json::Kind::kObject) return *result;
    const std::string said = fmt::format("{} was answered {}", method, answer.status);
    if (answer.status == 401 || answer.status == 403) {
      return std::unexpected(Refusal{
          true, said + ": the server wants credentials; put the field, such as \"Authorization: "
                       "Bearer ...\", into a file and name it with --header-file"});
    }
    if (answer.status >= 300 && answer.status < 400) {
      const std::string* to = FindHeader(answer.headers, "Location");
      return std::unexpected(
          Refusal{true, said + " (go to " + CommentText(to == nullptr ? "?" : *to) +
                            "); give the url that it names if it is the server's"});
    }
    const Json* const message = response ? AtPointer(*response, "/error/message") : nullptr;
    return std::unexpected(
        Refusal{false, said + " " + CommentText(message != nullptr ? message->text : answer.body)});
  }

  const std::string path_;
  const Headers headers_;
  const McpExchange& exchange_;
  McpEra era_ = McpEra::kModern;
  int last_id_ = 0;
  std::string session_;
  std::optional<ResponseReader> reader_;
  McpServerInfo server_;
};

// "Name: value" lines.
std::expected<Headers, std::string> ReadHeaderFile(const std::string& path) {
  Headers headers;
  if (path.empty()) return headers;
  const auto text = ReadInputFile(path, kHeaderFileBytesMax);
  if (!text) return std::unexpected(text.error());
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const auto colon = line.find(':');
    std::string_view value = line.substr(std::min(colon, line.size() - 1) + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    // The line itself may be the secret, so it is not shown.
    if (colon == std::string_view::npos || !IsToken(line.substr(0, colon)) ||
        !IsFieldValue(value) || IsReservedHeader(line.substr(0, colon))) {
      return std::unexpected(path + " has a line that is not of the form \"Name: value\"");
    }
    headers.emplace_back(line.substr(0, colon), value);
  }
  return headers;
}

std::expected<HttpPlace, std::string> PlaceOf(const McpImport& import, Backend backend) {
  HttpPlace place{backend.host, std::to_string(backend.port)};
  place.body_bytes_max = limits::kImportedBytesMax;
  if (backend.scheme == "http") {
    if (!import.ca_file.empty()) return std::unexpected("--ca is for an https url");
    return place;
  }
  backend.tls_ca_file = import.ca_file;
  auto tls = TlsClient::Make(backend);
  if (!tls) return std::unexpected(tls.error());
  place.tls = std::move(*tls);
  return place;
}

std::string PathOf(std::string_view url) {
  const auto slash = url.find('/', url.find("://") + 3);
  return slash == std::string_view::npos ? "/" : std::string(url.substr(slash));
}

// A policy that does not say so believes nothing that the server declares.
std::expected<McpTrust, std::string> TrustOf(const McpImport& import) {
  if (import.policy.empty()) return McpTrust::kShow;
  const LoadedPolicy loaded = LoadPolicy(import.policy);
  if (!loaded.ok()) return std::unexpected("--policy: " + loaded.problems.front().ToString());
  const Backend server = *BackendFromUrl(import.url);
  const auto same = std::ranges::find_if(loaded.policy->backends, [&](const Backend& backend) {
    std::string_view endpoint = backend.endpoint;
    while (endpoint.ends_with('/')) endpoint.remove_suffix(1);
    return backend.is_mcp() && IsSameServer(backend, server) && endpoint == server.base_path;
  });
  if (same == loaded.policy->backends.end()) {
    return std::unexpected("--policy: no MCP server of " + import.policy + " has this url");
  }
  return same->trust_effects ? McpTrust::kBelieve : McpTrust::kShow;
}

}  // namespace

std::expected<McpServerInfo, std::string> AskForMcpTools(const std::string& path,
                                                         const Headers& headers,
                                                         const McpExchange& exchange) {
  return Conversation(path, headers, exchange).Run();
}

int RunImportMcp(const McpImport& import) {
  const auto fail = [&](const std::string& why) {
    std::cerr << "recourse: " << import.url << ": " << why << "\n";
    return kExitUsage;
  };
  if (const std::string problem = UrlProblem(import.url); !problem.empty()) return fail(problem);
  const auto trust = TrustOf(import);
  if (!trust) return fail(trust.error());
  const auto headers = ReadHeaderFile(import.header_file);
  if (!headers) return fail("--header-file: " + headers.error());
  const auto place = PlaceOf(import, *BackendFromUrl(import.url));
  if (!place) return fail(place.error());
  const SystemClock clock;
  const MonoTime until = clock.Now() + import.patience;
  const McpExchange exchange =
      [&](const HttpRequest& request,
          const IsEnough& is_enough) -> std::expected<HttpResponse, std::string> {
    HttpPlace now = *place;
    now.total = std::chrono::ceil<Millis>(until - clock.Now());
    if (now.total <= Millis(0)) return std::unexpected("it took too long; see --timeout");
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(now.total);
    return FetchUntil(now, request, static_cast<int>(seconds.count()), is_enough);
  };
  auto server = AskForMcpTools(PathOf(import.url), *headers, exchange);
  if (!server) return fail(server.error());
  server->url = import.url;
  const auto policy = PolicyFromMcp(std::move(*server), *trust);
  if (!policy) return fail("what it declares of its tools:\n" + policy.error());
  std::cout << *policy;
  return kExitOk;
}

}  // namespace recourse
