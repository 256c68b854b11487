#include "policy/model/host_table.h"

#include <array>
#include <charconv>

#include "policy/uri/authority.h"

namespace recourse {

// The backends of one name.
struct HostGroup {
  const Backend* plain = nullptr;        // the one that is no MCP server
  const Backend* first = nullptr;        // of the MCP servers
  std::unique_ptr<Endpoints> endpoints;  // null: there is none

  void Add(const Backend& backend) {
    if (!backend.has_endpoint()) {
      if (plain == nullptr) plain = &backend;
      return;
    }
    if (first == nullptr) first = &backend;
    if (endpoints == nullptr) endpoints = std::make_unique<Endpoints>();
    endpoints->Add(backend);
  }

  // Whose the paths beside the endpoints are.
  const Backend* other() const { return plain != nullptr ? plain : first; }
  const Backend* OtherAt(std::string_view path) const {
    if (plain != nullptr) return plain;
    const Backend* const nearest = endpoints->Nearest(path);
    return nearest != nullptr ? nearest : first;
  }
};

namespace {

constexpr std::size_t kAuthorityBytesMax = limits::kHostBytesMax + 8;

// The host and the port of an authority; port is empty when there is none.
struct HostPort {
  std::string_view host, port;
};
HostPort SplitAuthority(std::string_view authority) {
  // Behind the last ':', unless that stands in brackets.
  std::size_t at = authority.size();
  while (at > 0 && authority[at - 1] != ':' && authority[at - 1] != ']') --at;
  if (at == 0 || authority[at - 1] == ']') return {authority, {}};
  return {authority.substr(0, at - 1), authority.substr(at)};
}

// An authority in lower case, built on the stack.
class AuthorityKey {
 public:
  void Append(std::string_view text) {
    text = text.substr(0, bytes_.size() - size_);
    char* const out = bytes_.data() + size_;
    for (std::size_t i = 0; i < text.size(); ++i) {
      out[i] = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] | 0x20) : text[i];
    }
    size_ += text.size();
  }
  void AppendPort(std::uint16_t port) {
    Append(":");
    const auto end = std::to_chars(bytes_.data() + size_, bytes_.data() + bytes_.size(), port);
    size_ = static_cast<std::size_t>(end.ptr - bytes_.data());
  }
  void Resize(std::size_t size) { size_ = size; }
  std::size_t size() const { return size_; }
  std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, kAuthorityBytesMax + 8> bytes_;
  std::size_t size_ = 0;
};

std::string UrlAuthority(const Backend& backend) {
  return Bracketed(backend.host) + ':' + std::to_string(backend.port);
}

}  // namespace

struct HostTable::Impl {
  TextMap<HostGroup> by_host_port;  // "orders:8080"
  TextMap<HostGroup> by_bare_url;   // urls without port, whatever the port of the request
  TextMap<HostGroup> by_host;       // entries of `hosts` without port
  TextMap<Endpoints> by_server;     // by host and port of the url: what a server can be asked
  const Backend* first_backend = nullptr;
  // By index of the backend: those of its url's authority, and the endpoints of its server.
  std::vector<const HostGroup*> groups;
  std::vector<const Endpoints*> endpoints;

  void Add(const Backend& backend);
  const HostGroup* Find(std::string_view authority, std::uint16_t default_port) const;
  EndpointPlace Place(const HostGroup& group, std::string_view path) const;
  std::size_t IndexOf(const Backend& backend) const {
    return static_cast<std::size_t>(&backend - first_backend);
  }
};

void HostTable::Impl::Add(const Backend& backend) {
  const std::string host = Bracketed(backend.host);
  by_host_port[UrlAuthority(backend)].Add(backend);
  if (backend.authority == host) by_bare_url[host].Add(backend);
  for (const std::string& entry : backend.hosts) {
    const std::string lower = ToLower(entry);
    if (lower == UrlAuthority(backend)) continue;
    (SplitAuthority(lower).port.empty() ? by_host : by_host_port)[lower].Add(backend);
  }
  if (backend.has_endpoint()) by_server[UrlAuthority(backend)].Add(backend);
}

const HostGroup* HostTable::Impl::Find(std::string_view authority,
                                       std::uint16_t default_port) const {
  if (authority.empty() || authority.size() > kAuthorityBytesMax) return nullptr;
  const auto [host, port] = SplitAuthority(authority);
  AuthorityKey key;
  key.Append(host);
  const std::size_t host_size = key.size();
  if (port.empty()) {
    key.AppendPort(default_port);
  } else {
    key.Append(":");
    key.Append(port);
  }
  const auto find = [](const TextMap<HostGroup>& map, std::string_view name) {
    const auto found = map.find(name);
    return found == map.end() ? nullptr : &found->second;
  };
  if (const HostGroup* group = find(by_host_port, key.view())) return group;
  key.Resize(host_size);
  if (port.empty() && host.size() == authority.size()) {
    if (const HostGroup* group = find(by_bare_url, key.view())) return group;
  }
  return find(by_host, key.view());
}

EndpointPlace HostTable::Impl::Place(const HostGroup& group, std::string_view path) const {
  if (group.endpoints != nullptr) {
    const EndpointPlace named = group.endpoints->Find(path);
    if (named.where != EndpointPath::kOther) return named;
  }
  const Backend& backend = *group.OtherAt(path);
  // Under this name the endpoint may be unknown, and behind a url's path it may begin.
  if (const Endpoints* const server = endpoints[IndexOf(backend)]) {
    const EndpointPlace reached = backend.base_path.empty()
                                      ? server->Find(path)
                                      : server->Find(backend.base_path + std::string(path));
    if (reached.where != EndpointPath::kOther)
      return {&backend, EndpointPath::kAmbiguous, reached.backend};
  }
  return {&backend, EndpointPath::kOther, nullptr};
}

HostTable::HostTable(const std::vector<Backend>& backends) {
  auto impl = std::make_unique<Impl>();
  for (const Backend& backend : backends) impl->Add(backend);
  impl->first_backend = backends.data();
  for (const Backend& backend : backends) {
    impl->groups.push_back(&impl->by_host_port.find(UrlAuthority(backend))->second);
    const auto server = impl->by_server.find(UrlAuthority(backend));
    impl->endpoints.push_back(server == impl->by_server.end() ? nullptr : &server->second);
  }
  impl_ = std::move(impl);
}

HostTable::~HostTable() = default;

const Backend* HostTable::Find(std::string_view authority, std::uint16_t default_port) const {
  const HostGroup* const group = impl_->Find(authority, default_port);
  return group == nullptr ? nullptr : group->other();
}

const HostGroup* HostTable::FindHost(std::string_view authority, std::uint16_t default_port) const {
  return impl_->Find(authority, default_port);
}

EndpointPlace HostTable::PlaceIn(const HostGroup& group, std::string_view path) const {
  return impl_->Place(group, path);
}

EndpointPlace HostTable::PlaceAtUrl(const Backend& backend, std::string_view path) const {
  return impl_->Place(*impl_->groups[impl_->IndexOf(backend)], path);
}

const Endpoints* HostTable::EndpointsAt(const Backend& backend) const {
  return impl_->endpoints[impl_->IndexOf(backend)];
}

}  // namespace recourse
