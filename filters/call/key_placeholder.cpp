#include "filters/call/key_placeholder.h"

#include <algorithm>

#include "filters/call/client_key.h"
#include "policy/template/own_terms.h"
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

std::string SentKey(const Event& event, const KeyRule& rule) {
  if (event.key_field && !event.key_field->empty()) {
    if (auto named = ParseClientKey(*event.key_field)) return std::move(*named);
  }
  return KeyText(rule.form, event.key);
}

std::string ProbeKey(const Event& event, const Tool& tool, const Backend& backend) {
  const bool is_marked = tool.settle && tool.settle->mark.exists();
  return is_marked ? ToHex(event.key) : SentKey(event, KeyRuleOf(tool, backend));
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
  const auto asks = [](const std::string& text) {
    return text.find(KeyPlaceholder()) != std::string::npos;
  };
  return asks(request.target) || asks(request.body) ||
         std::ranges::any_of(TermsOf(request.headers, kWhereTerm), asks);
}

}  // namespace recourse
