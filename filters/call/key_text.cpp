#include "filters/call/key_text.h"

#include "filters/call/client_key.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

void ReplaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string SentKey(const Event& event) {
  if (event.key_field && !event.key_field->empty()) {
    if (auto named = ParseClientKey(*event.key_field)) return std::move(*named);
  }
  return ToHex(event.key);
}

bool WasSentUnderOneKey(const Event& event) {
  return event.attempt <= 1 || event.dedupe_domain == 0 || KeyFieldOf(event).has_value();
}

const std::string& KeyPlaceholder() {
  static const std::string text = ToHex(Sha256("recourse-key-placeholder-1"));
  return text;
}

RenderedRequest WithKey(const RenderedRequest& request, const std::string& key) {
  RenderedRequest named = request;
  ReplaceAll(named.target, KeyPlaceholder(), key);
  for (auto& [name, value] : named.headers) ReplaceAll(value, KeyPlaceholder(), key);
  ReplaceAll(named.body, KeyPlaceholder(), key);
  return named;
}

bool AsksByKey(const RenderedRequest& request) {
  return request.target.find(KeyPlaceholder()) != std::string::npos;
}

}  // namespace recourse
