#include "policy/template/late_reference.h"

#include <algorithm>

#include "policy/uri/path.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

bool HasMark(std::string_view text, std::string_view mark) {
  return text.find(mark) != std::string_view::npos;
}

std::string Replaced(std::string_view text, std::string_view mark, std::string_view value) {
  std::string out;
  for (auto at = text.find(mark); at != std::string_view::npos; at = text.find(mark)) {
    out.append(text.substr(0, at)).append(value);
    text.remove_prefix(at + mark.size());
  }
  return out.append(text);
}

bool IsForm(const Headers& headers) {
  const std::string* type = FindHeader(headers, "Content-Type");
  return type != nullptr && ToLower(*type).starts_with("application/x-www-form-urlencoded");
}

std::string InJson(const std::string& text) {
  std::string quoted;
  AppendJsonString(quoted, text);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

std::string LateReference(std::string_view key) {
  return "recourse-late-reference-" + std::string(key);
}

bool LacksReference(const RenderedRequest& request, std::string_view key) {
  const std::string mark = LateReference(key);
  return HasMark(request.target, mark) || HasMark(request.body, mark) ||
         std::any_of(request.headers.begin(), request.headers.end(),
                     [&](const Header& field) { return HasMark(field.second, mark); });
}

Result<RenderedRequest> FillReference(RenderedRequest request, std::string_view key,
                                      const std::string& reference) {
  const std::string mark = LateReference(key);
  if (reference.empty()) return Malformed("a value is empty");
  if (reference.size() > limits::kExternalRefBytesMax) return Malformed("a value is too long");
  if (!IsFieldValue(reference) || HasMark(reference, "\t")) {
    return Malformed("a value has control characters");
  }
  const auto question = std::min(request.target.find('?'), request.target.size());
  const std::string_view path = std::string_view(request.target).substr(0, question);
  const std::string_view query = std::string_view(request.target).substr(question);
  if (HasMark(path, mark) && !IsPathValue(reference)) {
    return Malformed(
        "a value cannot stand in a path: separators, wildcards and non-ASCII are refused");
  }
  if (IsWildcard(reference) && (HasMark(query, mark) || HasMark(request.body, mark))) {
    return Malformed("a value cannot stand in a query or a body: wildcards are refused");
  }
  const std::string encoded = PercentEncode(reference);
  request.target = Replaced(path, mark, encoded) + Replaced(query, mark, encoded);
  for (auto& [name, value] : request.headers) value = Replaced(value, mark, reference);
  request.body =
      Replaced(request.body, mark, IsForm(request.headers) ? encoded : InJson(reference));
  if (request.target.size() > limits::kTargetBytesMax) {
    return Malformed("the rendered target is too long");
  }
  return request;
}

}  // namespace recourse
