#include "policy/model/override_scan.h"

#include <algorithm>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "policy/model/method_override.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"

namespace recourse {
namespace {

// Where the first quote or backslash stands, or the text's size: most of a body is in values.
std::size_t FindQuoteOrBackslash(std::string_view text) {
  std::size_t at = 0;
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
  for (; text.size() - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at));
    const auto found = static_cast<unsigned>(_mm_movemask_epi8(
        _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash))));
    if (found != 0) return at + static_cast<std::size_t>(__builtin_ctz(found));
  }
#endif
  while (at < text.size() && text[at] != '"' && text[at] != '\\') ++at;
  return at;
}

// "/json" or "+json" anywhere.
bool NamesJson(std::string_view field) {
  constexpr std::string_view kJson = "json";
  for (auto at = field.find_first_of("/+"); at != field.npos;
       at = field.find_first_of("/+", at + 1)) {
    if (EqualsIgnoreCase(field.substr(at + 1, kJson.size()), kJson)) return true;
  }
  return false;
}

// No name of an override is longer, however it is escaped.
constexpr std::size_t kNameBytesMax = 128;
constexpr std::size_t kLineBytesMax = 1024;

}  // namespace

OverrideScan::OverrideScan(std::string_view content_type) {
  if (content_type.empty()) return;
  const std::string_view media = content_type.substr(0, content_type.find_first_of(";, \t"));
  if (EqualsIgnoreCase(media, "application/x-www-form-urlencoded")) pairs_.emplace();
  if (EqualsIgnoreCase(media, "multipart/form-data")) parts_.emplace();
  is_ascii_ = (!pairs_ && !parts_) || IsAsciiForm(content_type);
  // As Laravel asks for it, anywhere in the field.
  if (NamesJson(content_type)) members_.emplace();
}

bool OverrideScan::Feed(std::string_view piece) {
  return !is_ascii_ || (pairs_ && pairs_->Feed(piece)) || (parts_ && parts_->Feed(piece)) ||
         (members_ && members_->Feed(piece));
}

std::string_view OverrideScan::reason() const {
  return is_ascii_ ? "a body may not override its method: it has a field that some servers take "
                     "for _method"
                   : "a form is in UTF-8: in another charset its names may have another reading";
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

bool MemberScan::EndsString() {
  in_string_ = false;
  if (!in_name_) return false;
  in_name_ = false;
  if (name_.find('\\') == std::string::npos) return IsOverrideName(name_);
  const auto name = ParseJson('"' + name_ + '"');
  return IsOverrideName(name ? name->text : name_);
}

void MemberScan::TakeStructure(char c) {
  if (c == '"') {
    in_string_ = true;
    in_name_ = expects_name_;
    expects_name_ = false;
    name_.clear();
  } else if (c == '{' || c == '[') {
    if (++depth_ == 1) is_object_ = c == '{';
    expects_name_ = c == '{' && depth_ == 1;
  } else if (c == '}' || c == ']') {
    depth_ -= depth_ > 0 ? 1 : 0;
    expects_name_ = false;
  } else if (c == ',') {
    expects_name_ = is_object_ && depth_ == 1;
  }
}

bool MemberScan::Feed(std::string_view piece) {
  while (!piece.empty()) {
    if (in_string_ && !in_name_ && !is_escaped_) {
      piece.remove_prefix(FindQuoteOrBackslash(piece));
      if (piece.empty()) break;
    }
    const char c = piece.front();
    piece.remove_prefix(1);
    if (!in_string_) {
      TakeStructure(c);
    } else if (c == '"' && !is_escaped_) {
      if (EndsString()) return true;
    } else {
      is_escaped_ = c == '\\' && !is_escaped_;
      if (in_name_ && name_.size() <= 6 * kNameBytesMax) name_.push_back(c);
    }
  }
  return false;
}

}  // namespace recourse
