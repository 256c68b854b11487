#include "proxy/inject/cluster/kube_api.h"

#include <fmt/format.h>

#include <utility>

#include "policy/model/url.h"
#include "proxy/config/files.h"
#include "proxy/net/beast/http_client.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kMetadataOnly =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
// What is stored as one object is at most 1.5 MiB.
constexpr std::uint64_t kAnswerBytesMax = 4 * 1024 * 1024;

std::unexpected<KubeFailure> NoAnswer(std::string why) {
  return std::unexpected(KubeFailure{0, std::move(why)});
}

// Of a Status, whose message is for people.
std::string MessageOf(const HttpResponse& answer) {
  const auto status = ParseJson(answer.body);
  const std::string_view message = status ? TextOf(*status, "message") : std::string_view();
  return fmt::format("the API server answered {}{}{}", answer.status, message.empty() ? "" : ": ",
                     message);
}

}  // namespace

KubeResult<Json> KubeApi::Ask(std::string_view method, const std::string& path,
                              std::string_view accept, std::string_view type, std::string body,
                              Millis longest) const {
  auto server = BackendFromUrl(config_.url);
  if (!server || server->scheme != "https") {
    return NoAnswer(fmt::format("{} is no https:// address of an API server", config_.url));
  }
  server->tls_ca_file = config_.service_account + "/ca.crt";
  auto tls = TlsClient::Make(*server);
  if (!tls) return NoAnswer(tls.error());
  const auto token = ReadSecretFile(config_.service_account + "/token");
  if (!token) return NoAnswer(token.error());
  HttpRequest request{std::string(method), path, {}, std::move(body)};
  request.headers.emplace_back("Authorization", "Bearer " + *token);
  request.headers.emplace_back("Accept", accept);
  // By its name API servers tell who wrote a field.
  request.headers.emplace_back("User-Agent", "recourse-injector");
  if (!type.empty()) request.headers.emplace_back("Content-Type", type);
  const HttpPlace place{.host = server->host,
                        .port = std::to_string(server->port),
                        .tls = std::move(*tls),
                        .body_bytes_max = kAnswerBytesMax,
                        .total = longest};
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(longest).count();
  const auto answer = Fetch(place, request, static_cast<int>(seconds));
  if (!answer) return NoAnswer(answer.error());
  if (!IsSuccess(answer->status)) {
    return std::unexpected(KubeFailure{answer->status, MessageOf(*answer)});
  }
  auto json = ParseJson(answer->body);
  if (!json) return NoAnswer("the API server's answer is no JSON");
  return std::move(*json);
}

KubeResult<Json> KubeApi::Get(const std::string& path, Form form, Millis longest) const {
  return Ask("GET", path, form == Form::kWhole ? kJson : kMetadataOnly, {}, {}, longest);
}

KubeResult<Json> KubeApi::Patch(const std::string& path, std::string_view type, std::string body,
                                Millis longest) const {
  return Ask("PATCH", path, kJson, type, std::move(body), longest);
}

KubeResult<std::string> KubeApi::Namespace() const {
  auto read = ReadSecretFile(config_.service_account + "/namespace");
  if (!read) return NoAnswer(read.error());
  return std::move(*read);
}

}  // namespace recourse
