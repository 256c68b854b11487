#include "proxy/cli/api_call.h"

#include <fmt/format.h>

#include <ostream>
#include <utility>

#include "policy/model/url.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/access/problem.h"
#include "proxy/base/http/own_port.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/log/terminal_text.h"
#include "proxy/config/config.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {
namespace {

constexpr int kProofSeconds = 60;
constexpr int kUnknownHost = 421;
constexpr int kTimeoutSeconds = 600;  // a full verify of a large ledger takes minutes

std::string WhatItIs(std::string_view port, const HttpResponse& answer) {
  if (port == kAgentsPort) {
    return "the port for agents (--listen of `recourse run`), which would send your token on to a "
           "backend";
  }
  if (port == kProbesPort) return "the port of probes and metrics (--probes of `recourse run`)";
  return fmt::format("not the admin API of a Recourse of this version: GET {} was answered with {}",
                     kPortPath, answer.status);
}

// What is wrong, with each of several problems on a line of its own.
std::string DetailOf(const Json& problem) {
  const Json* const problems = problem.Find("problems");
  if (problems == nullptr) return Printable(problem, "detail");
  const std::string detail = ScalarText(problem, "detail");
  std::string lines = TerminalText(detail.substr(0, detail.find('\n')));
  for (const Json& one : problems->items) lines += "\n" + TerminalText(ScalarText(one));
  return lines;
}

}  // namespace

std::string Printable(const Json& object, std::string_view name) {
  return TerminalText(ScalarText(object, name));
}

// What it undoes stands first: at a narrow terminal the end is cut.
std::string ToolOrUndo(const Json& event) {
  const std::string undoes = Printable(event, "undoes"), tool = Printable(event, "tool");
  return undoes.empty() || undoes == "0" ? tool : "undo of " + undoes + " (" + tool + ")";
}

void AppendItems(std::string& list, std::string_view page, std::string_view name) {
  const auto items = FindJsonSpan(page, "/" + std::string(name));
  if (!items || items->size <= std::size("[]") - 1) return;
  if (list.size() > 1) list.push_back(',');
  list.append(page.substr(items->at + 1, items->size - 2));
}

std::string LineOfJson(const Json& value) {
  std::string out;
  if (value.kind == Json::Kind::kObject) {
    JsonObject object(out);
    for (const auto& [name, member] : value.members) object.Raw(name, LineOfJson(member));
  } else if (value.kind == Json::Kind::kArray) {
    for (const Json& item : value.items) {
      out.append(out.empty() ? "[" : ",").append(LineOfJson(item));
    }
    out += out.empty() ? "[]" : "]";
  } else if (value.kind == Json::Kind::kString) {
    AppendJsonString(out, value.text);
  } else {
    out = value.kind == Json::Kind::kNull ? "null" : ScalarText(value);
  }
  return out;
}

FileResult<HttpPlace> AdminPlaceOf(const ApiClient& client) {
  constexpr std::string_view kHttp = "http://";
  const bool has_scheme = client.address.find("://") != std::string::npos;
  const auto backend =
      BackendFromUrl(has_scheme ? client.address : std::string(kHttp) + client.address);
  // A port that the scheme implies is named where there is no scheme.
  const bool has_port = has_scheme || client.address.find_last_of(":]") != std::string::npos;
  if (!backend || !has_port || !backend->base_path.empty()) {
    return std::unexpected("--admin: '" + client.address +
                           "' is not HOST:PORT, e.g. 127.0.0.1:19081, or https://HOST:PORT");
  }
  HttpPlace place{.host = backend->host, .port = std::to_string(backend->port)};
  const bool wants_tls = !client.ca_file.empty() || !client.cert_file.empty();
  if (backend->scheme != "https") {
    if (!wants_tls) return place;
    return std::unexpected("--admin-ca and --admin-cert are for TLS; give --admin https://" +
                           client.address.substr(has_scheme ? kHttp.size() : 0));
  }
  Backend secure = *backend;
  secure.tls_ca_file = client.ca_file;
  secure.tls_client_cert = client.cert_file;
  secure.tls_client_key = client.key_file;
  auto tls = TlsClient::Make(secure);
  if (!tls) return std::unexpected(tls.error());
  place.tls = std::move(*tls);
  return place;
}

FileResult<void> ProveAdmin(const ApiClient& client, const HttpPlace& place) {
  if (client.is_proven) return {};
  const auto answer = Fetch(place, {"GET", std::string(kPortPath), {}, {}}, kProofSeconds);
  if (!answer) return std::unexpected(answer.error() + "; is recourse running there?");
  const auto json = ParseJson(answer->body);
  const std::string port = json ? Printable(*json, "recourse") : std::string();
  client.is_proven = answer->status == 200 && port == kAdminPort;
  if (client.is_proven) return {};
  if (answer->status == kUnknownHost && json) {
    return std::unexpected("--admin: " + Printable(*json, "detail"));
  }
  return std::unexpected(fmt::format(
      "--admin: {}:{} is {}. Nothing was sent there; give the address of --admin of `recourse run` "
      "(127.0.0.1:19081, unless it was given another one)",
      place.host, place.port, WhatItIs(port, *answer)));
}

FileResult<AdminTarget> PrepareAdminCall(const ApiClient& client, HttpRequest request) {
  auto place = AdminPlaceOf(client);
  if (!place) return std::unexpected(place.error());
  if (!client.ledger.empty()) {
    request.target += request.target.find('?') == std::string::npos ? '?' : '&';
    request.target += "ledger=" + PercentEncode(client.ledger);
  }
  if (!client.token_file.empty()) {
    auto token = ReadSecretFile(client.token_file);
    if (!token) return std::unexpected("--admin-token-file: " + token.error());
    if (auto proven = ProveAdmin(client, *place); !proven) return std::unexpected(proven.error());
    request.headers.emplace_back("Authorization", "Bearer " + *token);
  }
  return AdminTarget{std::move(*place), std::move(request)};
}

FileResult<std::string> Call(const ApiClient& client, HttpRequest request, int* status) {
  const std::string asked = request.method + " " + request.target;
  const auto prepared = PrepareAdminCall(client, std::move(request));
  if (!prepared) return std::unexpected(prepared.error());
  auto response = Fetch(prepared->place, prepared->request, kTimeoutSeconds);
  if (!response) return std::unexpected(response.error() + "; is recourse running there?");
  if (status != nullptr) *status = response->status;
  if (response->status == 200) return std::move(response->body);
  const auto problem = ParseJson(response->body);
  std::string detail = problem ? DetailOf(*problem) : response->body;
  if (response->status == 401 && !client.token_file.empty()) {
    detail += "; the token of the file " + client.token_file + " was sent";
  } else if (problem && Printable(*problem, "title") == kNotAuthorized) {
    detail = "a token is needed; name the file that has it: --admin-token-file FILE";
  }
  return std::unexpected(asked + ": " + detail);
}

FileResult<Json> LedgerOf(const ApiClient& client, std::string* text) {
  auto answer = Call(client, "GET", admin_paths::kLedger);
  if (!answer) return std::unexpected(answer.error());
  auto ledger = ParseJson(*answer);
  if (!ledger) return std::unexpected(std::string(kNotUnderstood));
  if (Printable(*ledger, "away") == "true") return std::unexpected(std::string(kLedgerAway));
  if (text != nullptr) *text = std::move(*answer);
  return std::move(*ledger);
}

int Fail(std::ostream& err, std::string_view what) {
  err << "recourse: " << what << "\n";
  return kExitRuntime;
}

std::expected<Json, int> Show(const ApiClient& client, const HttpRequest& request,
                              std::ostream& out, std::ostream& err) {
  const auto text = Call(client, request);
  if (!text) return std::unexpected(Fail(err, text.error()));
  if (client.json) {
    out << *text << "\n";
    return std::unexpected(kExitOk);
  }
  auto parsed = ParseJson(*text);
  if (!parsed) return std::unexpected(Fail(err, kNotUnderstood));
  return std::move(*parsed);
}

}  // namespace recourse
