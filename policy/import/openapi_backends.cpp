#include "policy/import/openapi_backends.h"

#include <algorithm>
#include <map>

#include "policy/import/import_text.h"
#include "policy/language/loader.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

constexpr std::string_view kPlaceholder = "http://change-me.invalid";

std::string HostOf(std::string_view url) {
  const auto start = url.find("://");
  if (start == std::string_view::npos) return {};
  url.remove_prefix(start + 3);
  return std::string(url.substr(0, url.find_first_of(":/")));
}

bool IsUrl(std::string_view text) {
  return text.starts_with("http://") || text.starts_with("https://");
}

std::string WithoutSlash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace

ApiBackends::ApiBackends(const ApiDescription& api) {
  for (const YamlNode::Member& member : api.backends) Declare(api, member);
  for (const std::string& server : api.servers) AddServer(api, server);
  GuessKeys(api);
}

ApiBackends::At ApiBackends::PlaceOf(const ApiOperation& operation) const {
  if (!operation.declared.empty()) {
    const std::string& name = operation.declared.front().backend;
    const auto found = std::ranges::find(all_, name, &ApiBackend::name);
    if (found != all_.end()) return {static_cast<std::size_t>(found - all_.begin()), {}};
  }
  return of_server_[operation.server];
}

void ApiBackends::Declare(const ApiDescription& api, const YamlNode::Member& member) {
  taken_.insert(member.name);
  YamlNode facts = member.value;
  if (facts.Find("url") == nullptr) {
    std::string url = api.servers.empty() ? std::string() : WithoutSlash(api.servers.front());
    if (!IsUrl(url)) url = std::string(kPlaceholder) + url;
    YamlNode node = TextNodeOf(std::move(url));
    node.place = facts.place;
    facts.members.insert(facts.members.begin(), MemberOf("url", std::move(node)));
  }
  all_.push_back({member.name, WithoutSlash(facts.Find("url")->text), {}, {}, std::move(facts)});
}

void ApiBackends::AddServer(const ApiDescription& api, const std::string& server) {
  const std::string url = WithoutSlash(server);
  const std::string whole = IsUrl(url) ? url : std::string(kPlaceholder) + url;
  for (std::size_t i = 0; i < api.backends.size(); ++i) {
    // A path alone stands for the one host that is declared.
    const bool is_path = i == 0 && !IsUrl(url) && all_[i].url != whole;
    const std::string_view start = is_path ? std::string_view() : all_[i].url;
    const std::string_view rest = is_path ? url : whole;
    if (rest != start && !(rest.starts_with(start) && rest[start.size()] == '/')) continue;
    of_server_.push_back({i, std::string(rest.substr(start.size()))});
    return;
  }
  of_server_.push_back({all_.size(), {}});
  std::string name = LegalName(all_.empty() ? ToLower(api.title) : HostOf(server), 64);
  if (name.empty()) name = "api";
  const std::string probe = "version: 1\nbackends: { b: { url: " + QuotedText(whole) + " } }\n";
  const bool is_good = LoadPolicyText("p", probe).ok();
  ApiBackend backend{
      UniqueName(std::move(name), taken_), is_good ? whole : std::string(kPlaceholder), {}};
  if (!IsUrl(url) || !is_good) {
    backend.note = "the description names no usable address (" + server + "); write the url";
  }
  all_.push_back(std::move(backend));
}

void ApiBackends::GuessKeys(const ApiDescription& api) {
  std::vector<std::map<std::string, int>> headers(all_.size());
  std::vector<int> writes(all_.size());
  for (const ApiOperation& operation : api.operations) {
    if (IsReadMethod(operation.method)) continue;
    const std::size_t backend = PlaceOf(operation).backend;
    ++writes[backend];
    for (const std::string& name : operation.key_headers) ++headers[backend][name];
  }
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const auto every =
        std::ranges::find(headers[i], writes[i], &std::pair<const std::string, int>::second);
    if (every != headers[i].end() && !all_[i].declared) all_[i].key_header = every->first;
  }
}

}  // namespace recourse
