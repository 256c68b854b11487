#include "filters/call/multipart.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "policy/model/method_override.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

bool IsBoundary(std::string_view text) {
  static constexpr std::string_view kOthers = "'()+_,-./:=? ";
  return !text.empty() && text.size() <= 70 && text.back() != ' ' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  kOthers.find(c) != std::string_view::npos;
         });
}

// Takes the header block with its empty line off the front of `text`.
bool TakeHeaders(std::string_view& text, Headers& headers) {
  while (true) {
    const auto end = text.find("\r\n");
    if (end == std::string_view::npos) return false;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    if (line.empty()) return !headers.empty();
    if (line.size() > limits::kPartLineBytesMax) return false;
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || headers.size() == limits::kFieldsMax) return false;
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    if (!IsToken(line.substr(0, colon)) || !IsFieldValue(value)) return false;
    headers.emplace_back(ToLower(line.substr(0, colon)), std::string(value));
  }
}

// Some readers take Content_Disposition for it.
bool IsDisposition(std::string_view lower_name) {
  std::string letters;
  std::ranges::copy_if(lower_name, std::back_inserter(letters),
                       [](char c) { return c >= 'a' && c <= 'z'; });
  return letters == "contentdisposition";
}

bool IsPlainTextType(const std::string& lower) {
  static constexpr std::size_t kTypeBytesMax = 128;
  return lower.size() <= kTypeBytesMax && lower.starts_with("text/plain") && IsUtf8Form(lower);
}

bool IsText(const Headers& headers) {
  std::size_t dispositions = 0, types = 0;
  for (const auto& [name, value] : headers) {
    const std::string lower = ToLower(value);
    if (IsDisposition(name)) {
      if (name != "content-disposition" || ++dispositions > 1) return false;
      if (!lower.starts_with("form-data") || lower.contains("filename")) return false;
    } else if (name == "content-type") {
      if (++types > 1 || !IsPlainTextType(lower)) return false;
    } else if (name == "content-transfer-encoding") {
      if (lower != "7bit" && lower != "8bit" && lower != "binary") return false;
    }
  }
  return dispositions == 1;
}

// False: it says its name too often to be looked at.
bool ReadNames(BodyPart& part) {
  static constexpr std::size_t kNamesMax = 2 * limits::kPartNamesMax;  // each has two readings
  for (const auto& [name, value] : part.headers) {
    auto names = PartNames(name + ":" + value);
    if (!names || part.names.size() + names->size() > kNamesMax) return false;
    std::ranges::move(*names, std::back_inserter(part.names));
  }
  std::ranges::sort(part.names);
  const auto repeated = std::ranges::unique(part.names);
  part.names.erase(repeated.begin(), repeated.end());
  part.is_text = part.names.size() == 1 && IsText(part.headers);
  return true;
}

}  // namespace

std::optional<std::vector<BodyPart>> ParseMultipart(std::string_view body,
                                                    std::string_view boundary) {
  if (!IsBoundary(boundary)) return std::nullopt;
  const std::string first = std::string("--").append(boundary).append("\r\n");
  const std::string next = std::string("\r\n--").append(boundary);
  if (!body.starts_with(first)) return std::nullopt;
  body.remove_prefix(first.size());
  std::vector<BodyPart> parts;
  while (parts.size() < limits::kMultipartPartsMax) {
    const auto end = body.find(next);
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view text = body.substr(0, end);
    body.remove_prefix(end + next.size());
    // Others end a part at a line feed alone, or wherever the boundary is.
    if (text.contains(std::string_view(next).substr(2))) return std::nullopt;
    BodyPart part;
    if (!TakeHeaders(text, part.headers) || !ReadNames(part)) return std::nullopt;
    part.content = text;
    parts.push_back(std::move(part));
    if (body == "--" || body == "--\r\n") return parts;
    if (!body.starts_with("\r\n")) return std::nullopt;
    body.remove_prefix(2);
  }
  return std::nullopt;
}

}  // namespace recourse
