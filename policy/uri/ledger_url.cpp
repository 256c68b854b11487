#include "policy/uri/ledger_url.h"

#include <algorithm>
#include <charconv>

#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

using Parsed = std::expected<LedgerUrl, std::string>;

// The part before the first of `ends`; takes it away with that character.
std::string_view TakeUntil(std::string_view& text, std::string_view ends) {
  const auto at = std::min(text.find_first_of(ends), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at);
  return part;
}

bool IsLoopback(std::string_view host) {
  const bool is_v4 =
      host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || is_v4;
}

// "[::1]:5432" is "::1".
bool AddHost(std::string_view text, LedgerUrl& url) {
  std::string_view host = text.substr(0, text.find(':'));
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return false;
    host = text.substr(1, end - 1);
  }
  std::string decoded;
  if (!PercentDecode(host, decoded)) return false;
  if (!decoded.empty()) url.hosts.push_back(std::move(decoded));
  return true;
}

bool AddHosts(std::string_view list, LedgerUrl& url) {
  while (!list.empty()) {
    if (!AddHost(TakeUntil(list, ","), url)) return false;
    if (!list.empty()) list.remove_prefix(1);
  }
  return true;
}

Parsed ParsePostgres(std::string_view whole, std::string_view rest) {
  LedgerUrl url{.store = LedgerUrl::Store::kPostgres, .place = std::string(whole)};
  std::string_view authority = TakeUntil(rest, "/?");
  if (const auto at = authority.rfind('@'); at != std::string_view::npos) {
    url.has_password = authority.substr(0, at).contains(':');
    authority.remove_prefix(at + 1);
  }
  bool is_good = AddHosts(authority, url);
  (void)TakeUntil(rest, "?");
  if (!rest.empty()) rest.remove_prefix(1);
  for (const auto& [name, value] : ParsePairs(rest)) {
    if (name == "host" || name == "hostaddr") is_good = is_good && AddHosts(value, url);
    if (name == "password") url.has_password = true;
    if (name == "sslmode") url.sslmode = value;
  }
  if (!is_good) return std::unexpected("its hosts cannot be read");
  if (!url.sslmode.empty() && url.sslmode != "verify-full" && !IsLocal(url)) {
    return std::unexpected("sslmode=" + url.sslmode +
                           " lets others pose as the database; accepted beyond this machine: "
                           "verify-full, which is what is used without one");
  }
  return url;
}

}  // namespace

std::expected<LedgerUrl, std::string> ParseLedgerUrl(std::string_view text) {
  constexpr std::string_view kLmdb = "lmdb:", kMemory = "memory:", kStream = "?stream=";
  for (const std::string_view scheme : {"postgres://", "postgresql://"}) {
    if (text.starts_with(scheme)) return ParsePostgres(text, text.substr(scheme.size()));
  }
  if (text.starts_with(kLmdb)) {
    std::string_view directory = text.substr(kLmdb.size());
    if (directory.starts_with("//")) directory.remove_prefix(2);
    if (directory.empty()) return std::unexpected("it names no directory");
    return LedgerUrl{.store = LedgerUrl::Store::kLmdb, .place = std::string(directory)};
  }
  if (text == kMemory) return LedgerUrl{.store = LedgerUrl::Store::kMemory, .place = {}};
  if (text.starts_with(kMemory) && text.substr(kMemory.size()).starts_with(kStream)) {
    LedgerUrl url{.store = LedgerUrl::Store::kMemory, .place = {}};
    const std::string_view stream = text.substr(kMemory.size() + kStream.size());
    const char* const last = stream.data() + stream.size();
    const auto [end, error] = std::from_chars(stream.data(), last, url.stream);
    if (error == std::errc() && end == last) return url;
  }
  return std::unexpected("it is no address of a ledger; accepted: " + std::string(kLedgerUrlForms));
}

bool IsLocal(const LedgerUrl& url) {
  return std::ranges::all_of(
      url.hosts, [](const std::string& host) { return host.starts_with('/') || IsLoopback(host); });
}

}  // namespace recourse
