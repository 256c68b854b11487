#include "filters/credentials/secret_forms.h"

#include <algorithm>
#include <utility>

#include "proxy/base/crypto/base64url.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

void AddSecret(std::string_view text, std::vector<std::string>& secrets) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  const bool is_known = std::ranges::find(secrets, text) != secrets.end();
  if (text.size() >= limits::kScrubbedBytesMin && !is_known) secrets.emplace_back(text);
}

// "user:password".
void AddBasic(std::string_view pair, std::vector<std::string>& secrets) {
  std::string text(pair.substr(0, pair.find('=')));
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  const auto decoded = FromBase64Url(text);
  if (!decoded) return;
  AddSecret(*decoded, secrets);
  if (const auto colon = decoded->find(':'); colon != std::string::npos) {
    AddSecret(std::string_view(*decoded).substr(colon + 1), secrets);
  }
}

// In units of `size` bytes; of the last one only the byte that counts: so it is found in either
// order.
std::string Widened(std::string_view text, std::size_t size) {
  std::string wide;
  for (const char c : text) wide.append(wide.empty() ? 0 : size - 1, '\0').push_back(c);
  return wide;
}

// Of what begins so many bytes behind a group of three: the characters that follow from it alone.
std::string InBase64(const std::string& text, std::size_t behind) {
  const std::string whole = ToBase64(std::string(behind, '\0') + text);
  const std::size_t begin = (8 * behind + 5) / 6, end = 8 * (behind + text.size()) / 6;
  return whole.substr(begin, end - begin);
}

}  // namespace

std::vector<std::string> SecretsIn(std::string_view value) {
  std::vector<std::string> secrets;
  AddSecret(value, secrets);
  constexpr std::string_view kBetween = " ;,";
  bool is_first = true, is_basic = false;
  while (!value.empty()) {
    const auto end = std::min(value.find_first_of(kBetween), value.size());
    const std::string_view piece = value.substr(0, end);
    value.remove_prefix(std::min(end + 1, value.size()));
    if (piece.empty()) continue;
    const auto equals = std::min(piece.find('='), piece.size());
    const bool has_name = piece.find_first_not_of('=', equals) != std::string_view::npos;
    const bool is_scheme = std::exchange(is_first, false) && !has_name && !value.empty();
    if (is_basic) AddBasic(piece, secrets);
    is_basic = is_scheme && EqualsIgnoreCase(piece, "Basic");
    if (!is_scheme) AddSecret(piece, secrets);
    if (has_name) AddSecret(piece.substr(equals + 1), secrets);
  }
  return secrets;
}

std::vector<std::string> FormsOfSecret(const std::string& secret) {
  std::vector<std::string> forms{secret, Widened(secret, 2), Widened(secret, 4), ToHex(secret)};
  for (const std::size_t behind : {0U, 1U, 2U}) {
    std::string text = InBase64(secret, behind);
    std::string for_urls = text;
    std::ranges::replace(for_urls, '+', '-');
    std::ranges::replace(for_urls, '/', '_');
    if (for_urls != text) forms.push_back(std::move(for_urls));
    forms.push_back(std::move(text));
  }
  return forms;
}

}  // namespace recourse
