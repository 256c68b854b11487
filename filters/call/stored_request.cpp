#include "filters/call/stored_request.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "proxy/base/crypto/hash.h"
#include "proxy/base/latest_texts.h"

namespace recourse {
namespace {

bool IsKept(const Tool& tool, const std::string& name) {
  if (!IsCredentialField(name)) return true;
  return tool.undo &&
         std::any_of(tool.undo->from_call.begin(), tool.undo->from_call.end(),
                     [&](const std::string& kept) { return EqualsIgnoreCase(kept, name); });
}

}  // namespace

std::optional<RenderedRequest> StoredRequest(const Tool& tool, HttpRequest rendered) {
  if (std::any_of(tool.redact.begin(), tool.redact.end(), IsOfCall)) return std::nullopt;
  std::erase_if(rendered.headers, [&](const Header& field) { return !IsKept(tool, field.first); });
  return RenderedRequest{std::move(rendered.method), std::move(rendered.target),
                         std::move(rendered.headers), std::move(rendered.body)};
}

std::uint64_t DedupeDomain(const Backend& backend, const KeyRule& rule) {
  if (!rule.at.exists()) return 0;
  constexpr std::size_t kTextBytes = 154, kDomains = 32;
  std::string text;
  text.reserve(kTextBytes);
  for (const std::string* part :
       {&backend.scheme, &backend.authority,
        backend.has_endpoint() ? &backend.endpoint : &backend.base_path}) {
    AppendPart(text, *part);
  }
  AppendPart(text, rule.at.is_field() ? rule.at.name : rule.at.AsSelector().text);
  if (!rule.form.is_plain()) AppendPart(text, rule.form.Text());
  const Digest digest = LatestOf<Sha256, kTextBytes, kDomains>(text);
  std::uint64_t domain = 0;
  std::memcpy(&domain, digest.data(), sizeof domain);
  return std::max(domain, std::uint64_t{1});
}

}  // namespace recourse
