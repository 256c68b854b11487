#include "filters/call/client_key.h"

#include <algorithm>
#include <utility>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::string_view kIntentField = "Recourse-Intent";

std::unexpected<Error> Invalid(std::string_view reason) {
  return std::unexpected(Error(ErrorCode::kInvalidKey, reason));
}

bool IsPrintable(char c) { return c >= 0x20 && c <= 0x7e; }

Result<std::string> ParseQuoted(std::string_view field) {
  std::string text;
  for (std::size_t i = 1; i < field.size(); ++i) {
    char c = field[i];
    if (c == '"') {
      if (i + 1 != field.size()) return Invalid("nothing may follow the quoted key");
      return text;
    }
    if (c == '\\') {
      if (++i == field.size()) break;
      c = field[i];
      if (c != '"' && c != '\\')
        return Invalid("only \\\" and \\\\ may be escaped in a quoted key");
    }
    if (!IsPrintable(c)) return Invalid("a key is printable ASCII");
    text.push_back(c);
  }
  return Invalid("the quoted key does not end");
}

Result<std::string> ParseBare(std::string_view field) {
  static constexpr std::string_view kForbidden = " \"\\,;";
  for (const char c : field) {
    if (!IsPrintable(c) || kForbidden.find(c) != std::string_view::npos) {
      return Invalid(
          "a bare key is visible ASCII without quotes, commas, semicolons and backslashes");
    }
  }
  if (field.find("../") != std::string_view::npos) return Invalid("a key is not a path");
  return std::string(field);
}

Result<std::optional<std::string>> ReadField(const Headers& headers, std::string_view name) {
  const auto count = std::count_if(headers.begin(), headers.end(), [&](const Header& field) {
    return EqualsIgnoreCase(field.first, name);
  });
  if (count == 0) return std::optional<std::string>();
  if (count > 1) return Invalid("the key field may occur only once");
  auto text = ParseClientKey(*FindHeader(headers, name));
  if (!text) return std::unexpected(text.error());
  return std::optional<std::string>(std::move(*text));
}

// A key of another form is not what the backend takes.
void NameIntentOnly(const KeyForm& form, Headers& headers) {
  bool is_moved = false;
  for (auto& [name, value] : headers) {
    if (!EqualsIgnoreCase(name, kKeyField)) continue;
    const auto key = ParseClientKey(value);
    if (!key || Fits(form, *key)) continue;
    name = kIntentField;
    is_moved = true;
  }
  if (!is_moved) return;
  // The same intent twice is one.
  const auto is_intent = [](const Header& field) {
    return EqualsIgnoreCase(field.first, kIntentField);
  };
  if (std::ranges::count_if(headers, is_intent) != 2) return;
  const auto first = std::ranges::find_if(headers, is_intent);
  const auto second = std::find_if(std::next(first), headers.end(), is_intent);
  const auto a = ParseClientKey(first->second), b = ParseClientKey(second->second);
  if (a && b && *a == *b) headers.erase(second);
}

}  // namespace

Result<std::string> ParseClientKey(std::string_view field) {
  auto text = field.starts_with('"') ? ParseQuoted(field) : ParseBare(field);
  if (!text) return text;
  if (text->empty()) return Invalid("the key is empty");
  if (text->size() > limits::kIdempotencyKeyBytesMax) return Invalid("the key is over 255 bytes");
  return text;
}

std::string QuotedKey(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  return quoted + '"';
}

Result<ClientIntent> ReadClientIntent(const Headers& headers) {
  auto key = ReadField(headers, kKeyField);
  if (!key) return std::unexpected(key.error());
  auto intent = ReadField(headers, kIntentField);
  if (!intent) return std::unexpected(intent.error());
  if (*key && *intent && **key != **intent) {
    return Invalid("Idempotency-Key and Recourse-Intent name different intents");
  }
  ClientIntent named;
  named.key = *key;
  named.intent = *intent ? *intent : *key;
  named.is_for_us = intent->has_value();
  return named;
}

void AdoptKeyField(const KeyRule& rule, Headers& headers) {
  if (!rule.at.exists() || rule.at.IsField(kKeyField)) return;
  const std::string* const key = FindHeader(headers, kKeyField);
  const std::optional<std::string> known = key == nullptr ? std::nullopt : std::optional(*key);
  bool is_there = false;
  for (auto& [name, value] : headers) {
    if (!rule.at.IsField(name)) continue;
    name = kKeyField;
    is_there = true;
  }
  if (!is_there) return NameIntentOnly(rule.form, headers);
  if (!known) return;
  // The same key twice is one.
  bool is_first = true;
  std::erase_if(headers, [&](const Header& field) {
    const bool is_same = EqualsIgnoreCase(field.first, kKeyField) && field.second == *known;
    return is_same && !std::exchange(is_first, false);
  });
}

void SpellKey(const std::string& field, const std::string& intent, Headers& headers) {
  if (!field.empty()) {
    // It names the intent; beside it the repeat may have named the operation's key.
    SetHeader(headers, kKeyField, field);
    RemoveHeader(headers, kIntentField);
    return;
  }
  RemoveHeader(headers, kKeyField);
  SetHeader(headers, kIntentField, QuotedKey(intent));
}

}  // namespace recourse
