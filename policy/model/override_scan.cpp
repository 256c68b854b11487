#include "policy/model/override_scan.h"

#include <algorithm>
#include <utility>

#include "policy/model/method_override.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"

namespace recourse {
namespace {

// "/json" or "+json" anywhere.
bool NamesJson(std::string_view field) {
  constexpr std::string_view kJson = "json";
  for (std::size_t at = 0; at < field.size(); ++at) {
    if (field[at] != '/' && field[at] != '+') continue;
    if (EqualsIgnoreCase(field.substr(at + 1, kJson.size()), kJson)) return true;
  }
  return false;
}

// No name of an override is longer, however it is escaped.
constexpr std::size_t kNameBytesMax = 128;
constexpr std::size_t kLineBytesMax = 1024;

// A name as it stands between its quotes.
bool IsQuotedOverride(std::string_view quoted) {
  if (quoted.find('\\') == std::string_view::npos) return IsOverrideName(quoted);
  std::string text(1, '"');
  const auto name = ParseJson(text.append(quoted).append("\""));
  return IsOverrideName(name ? std::string_view(name->text) : quoted);
}

}  // namespace

OverrideScan::OverrideScan(std::string_view content_type) {
  if (content_type.empty()) return;
  if (content_type == "application/json") {  // as most bodies are
    members_.emplace();
    return;
  }
  const std::string_view media = content_type.substr(0, content_type.find_first_of(";, \t"));
  if (EqualsIgnoreCase(media, "application/x-www-form-urlencoded")) pairs_.emplace();
  if (EqualsIgnoreCase(media, "multipart/form-data")) parts_.emplace();
  // As Laravel asks for it, anywhere in the field.
  if (NamesJson(content_type)) members_.emplace();
  is_ascii_ = (!pairs_ && !parts_ && !members_) || IsAsciiForm(content_type);
}

bool OverrideScan::Feed(std::string_view piece) {
  return !is_ascii_ || (pairs_ && pairs_->Feed(piece)) || (parts_ && parts_->Feed(piece)) ||
         (members_ && members_->Feed(piece));
}

std::string_view OverrideScan::reason() const {
  return is_ascii_
             ? "a body may not override its method: it has a field that some servers take "
               "for _method"
             : "forms and JSON are in UTF-8: in another charset names may have another reading";
}

// As of any arguments in JSON that cannot be read.
ErrorCode OverrideScan::code() const {
  return members_ && !is_ascii_ ? ErrorCode::kUnsupportedMediaType : ErrorCode::kMalformedRequest;
}

bool PairScan::Feed(std::string_view piece) {
  for (const char c : piece) {
    const bool starts_pair = c == '&' || c == ';';
    if (starts_pair || c == '=') {
      if (counts_ && HasMethodOverride(name_)) return true;
      counts_ = starts_pair;  // behind '=' comes a value, and in it perhaps another '='
      name_.clear();
    } else if (counts_ && (c != '+' || !name_.empty())) {  // PHP drops blanks before a name
      name_.push_back(c);
      if (name_ == "%20") name_.clear();
      counts_ = name_.size() <= kNameBytesMax;
      if (!counts_ && HasMethodOverride(name_)) return true;  // up to a NUL, or a nested part
    }
  }
  return false;
}

bool PartScan::EndsLine(char c) {
  const bool is_end = c == '\n' || c == '\r';
  if (line_ends_ && !is_end) {
    if (c != ' ' && c != '\t') line_.clear();  // no fold: the next line
    counts_ = true;
  }
  line_ends_ = is_end;
  return is_end;
}

bool PartScan::NamesOverride() const {
  const auto names = PartNames(line_);
  return !names || std::ranges::any_of(*names, [](const std::string& name) {
    return IsOverrideName(name) || name.find("=?") != std::string::npos;  // RFC 2047
  });
}

// Of a line that is too long to be looked at.
bool PartScan::TellsName() const {
  return !PartNames(line_.substr(0, line_.find(':')) + ": name=x")->empty();
}

bool PartScan::Feed(std::string_view piece) {
  for (const char c : piece) {
    if (EndsLine(c)) {
      if (counts_ && NamesOverride()) return true;
    } else if (counts_) {
      line_.push_back(c);
      counts_ = line_.size() <= kLineBytesMax;
      if (!counts_ && TellsName()) return true;
    }
  }
  return false;
}

// Gives what is behind the quote that begins the next string, or the end.
const char* MemberScan::SkipStructure(const char* at, const char* end) {
  for (; at != end; ++at) {
    switch (*at) {
      case '"':
        in_string_ = true;
        in_name_ = std::exchange(expects_name_, false);
        return at + 1;
      case '{':
      case '[':
        if (++depth_ == 1) is_object_ = *at == '{';
        expects_name_ = *at == '{' && depth_ == 1;
        break;
      case '}':
      case ']':
        depth_ -= depth_ > 0 ? 1 : 0;
        expects_name_ = false;
        break;
      case ',':
        expects_name_ = is_object_ && depth_ == 1;
        break;
      default:
        break;
    }
  }
  return end;
}

// Where the string ends that `text` goes on with: its quote, or the end of the text. Every byte is
// looked at twice at most.
std::size_t MemberScan::EndOfString(std::string_view text) {
  std::size_t at = std::exchange(is_escaped_, false) ? 1 : 0;
  std::size_t quote = text.find('"', at);
  for (;;) {
    const std::size_t end = std::min(quote, text.size());
    const std::size_t escape = text.substr(at, end - at).find('\\');
    if (escape == std::string_view::npos) return end;
    at += escape + 2;
    is_escaped_ = at > text.size();
    if (is_escaped_) return text.size();
    if (at > quote) quote = text.find('"', at);
  }
}

// What goes on with a name, perhaps to its end. A name that lies whole in one piece is not copied.
bool MemberScan::TakeName(std::string_view text, bool ends) {
  constexpr std::size_t kEscapedBytesMax = 6 * kNameBytesMax + 1;
  if (ends && name_.empty()) return IsQuotedOverride(text.substr(0, kEscapedBytesMax));
  name_.append(text.substr(0, kEscapedBytesMax - name_.size()));
  if (!ends) return false;
  const bool is_override = IsQuotedOverride(name_);
  name_.clear();
  return is_override;
}

bool MemberScan::Feed(std::string_view piece) {
  // Hardly any body has an escape, and one look at all of it costs less than one per string.
  const bool has_escapes = is_escaped_ || piece.find('\\') != std::string_view::npos;
  const char* at = piece.data();
  const char* const end = at + piece.size();
  for (;;) {
    if (!in_string_) at = SkipStructure(at, end);
    if (at == end) return false;
    const std::string_view rest(at, static_cast<std::size_t>(end - at));
    const std::size_t size =
        has_escapes ? EndOfString(rest) : std::min(rest.find('"'), rest.size());
    in_string_ = size == rest.size();
    if (in_name_ && TakeName(rest.substr(0, size), !in_string_)) return true;
    if (in_string_) return false;
    in_name_ = false;
    at += size + 1;
  }
}

}  // namespace recourse
