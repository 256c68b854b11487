#include "policy/uri/path.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "policy/uri/letters.h"
#include "policy/uri/twins.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

enum class CharClass : std::uint8_t { kRefused, kPlain, kSlash, kPercent, kSemicolon };

constexpr std::array<CharClass, 256> MakeClasses() {
  std::array<CharClass, 256> table{};
  for (int c = 'a'; c <= 'z'; ++c) table[static_cast<std::size_t>(c)] = CharClass::kPlain;
  for (int c = 'A'; c <= 'Z'; ++c) table[static_cast<std::size_t>(c)] = CharClass::kPlain;
  for (int c = '0'; c <= '9'; ++c) table[static_cast<std::size_t>(c)] = CharClass::kPlain;
  for (const char c :
       {'-', '.', '_', '~', '!', '$', '&', '\'', '(', ')', '*', '+', ',', '=', ':', '@'}) {
    table[static_cast<unsigned char>(c)] = CharClass::kPlain;
  }
  table['/'] = CharClass::kSlash;
  table['%'] = CharClass::kPercent;
  table[';'] = CharClass::kSemicolon;
  return table;
}
constexpr std::array<CharClass, 256> kClasses = MakeClasses();

CharClass ClassOf(char c) { return kClasses[static_cast<unsigned char>(c)]; }

std::unexpected<Error> Ambiguous(std::string_view reason) {
  return std::unexpected(Error(ErrorCode::kAmbiguousPath, reason));
}

std::string_view ReasonForRawByte(char c) {
  switch (c) {
    case '\\':
      return "the path has a backslash";
    case '{':
    case '}':
      return "the path has a brace: a template was sent without its values";
    case '?':
    case '#':
      return "the path has a '?' or '#'";
    default:
      return "the path has a character that must be percent-encoded";
  }
}

constexpr std::string_view kParameters = "the path has parameters (';')";

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

// Why another server may read the path in another way for the escaped byte `c`, or empty.
std::string_view DoubtOfEscape(char c) {
  switch (c) {
    case '/':
    case '\\':
      return "the path has an escaped slash or backslash";
    case '%':
      return "the path has an escaped percent sign (double encoding)";
    case ';':
    case '?':
    case '#':
      return "the path has an escaped ';', '?' or '#'";
    default:
      return {};
  }
}

// Characters that a backend's normalisation turns into a separator, and letters that a change of
// case turns into ASCII ones.
bool IsTreacherous(char32_t point) {
  static constexpr std::array<std::pair<char32_t, char32_t>, 14> kRanges{{
      {0x17f, 0x17f},    // long s, lower-case of S
      {0x2024, 0x2026},  // dot leaders
      {0x2044, 0x2044},  // fraction slash
      {0x212a, 0x212a},  // Kelvin sign, lower-case k
      {0x2215, 0x2216},  // division slash, set minus
      {0x29f5, 0x29f5},  // reverse solidus operator
      {0x29f8, 0x29f9},  // big solidi
      {0xfe52, 0xfe52},  // small full stop
      {0xfe54, 0xfe54},  // small semicolon
      {0xfe68, 0xfe6a},  // small reverse solidus and percent
      {0xff05, 0xff05},  // fullwidth percent
      {0xff0e, 0xff0f},  // fullwidth full stop and solidus
      {0xff1b, 0xff1b},  // fullwidth semicolon
      {0xff3c, 0xff3c},  // fullwidth reverse solidus
  }};
  return IsInvisible(point) || std::ranges::any_of(kRanges, [point](const auto& range) {
           return point >= range.first && point <= range.second;
         });
}

std::string_view ReasonForText(std::string_view decoded) {
  while (!decoded.empty()) {
    const char32_t point = TakePoint(decoded);
    if (point == kNoPoint) return "the path is not valid UTF-8";
    if (IsTreacherous(point)) {
      return "the path has an invisible character or a look-alike of a separator";
    }
  }
  return {};
}

// Segment rules over a path whose characters have their form. `doubt` is what those gave rise to.
Result<PathForm> CheckSegments(std::string_view path, std::string_view doubt) {
  std::size_t count = 0;
  for (std::size_t at = 1; at <= path.size();) {
    const auto end = std::min(path.find('/', at), path.size());
    const std::string_view segment = path.substr(at, end - at);
    const bool is_last = end == path.size();
    if (++count > limits::kPathSegmentsMax) {
      return std::unexpected(Error(ErrorCode::kTargetTooLong, "the path has too many segments"));
    }
    if (doubt.empty() && segment.empty() && !is_last) {
      doubt = "the path has an empty segment ('//')";
    }
    if (doubt.empty() && !segment.empty() && IsDots(segment)) doubt = "the path has a dot segment";
    at = end + 1;
  }
  return PathForm{path, doubt};
}

Result<PathForm> DecodeAndCheck(std::string_view path, std::string& scratch) {
  scratch.clear();
  scratch.reserve(path.size());
  std::string decoded;
  std::string_view doubt;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const char c = path[i];
    switch (ClassOf(c)) {
      case CharClass::kRefused:
        return Malformed(ReasonForRawByte(c));
      case CharClass::kSemicolon:
        if (doubt.empty()) doubt = kParameters;
        [[fallthrough]];
      case CharClass::kPlain:
      case CharClass::kSlash:
        scratch.push_back(c);
        decoded.push_back(c);
        continue;
      case CharClass::kPercent:
        break;
    }
    std::string byte;
    if (!PercentDecode(path.substr(i, 3), byte) || byte.size() != 1) {
      return Malformed("the path has a malformed escape");
    }
    if (IsControl(byte[0])) return Ambiguous("the path has an escaped control character");
    if (doubt.empty()) doubt = DoubtOfEscape(byte[0]);
    decoded.push_back(byte[0]);
    scratch.append(IsUnreserved(byte[0]) ? byte : PercentEncode(byte));
    i += 2;
  }
  if (const auto reason = ReasonForText(decoded); !reason.empty()) return Ambiguous(reason);
  return CheckSegments(scratch, doubt);
}

}  // namespace

bool IsDots(std::string_view segment) {
  while (!segment.empty()) {
    const bool is_space = segment.starts_with("%20");
    if (!is_space && segment.front() != '.') return false;
    segment.remove_prefix(is_space ? 3 : 1);
  }
  return true;
}

Result<PathForm> FormOf(std::string_view path, std::string& scratch) {
  if (!path.starts_with('/')) return Malformed("the path must start with '/'");
  bool plain = true;
  for (const char c : path) {
    const CharClass kind = ClassOf(c);
    plain = plain && (kind == CharClass::kPlain || kind == CharClass::kSlash);
  }
  return plain ? CheckSegments(path, {}) : DecodeAndCheck(path, scratch);
}

Result<std::string_view> CanonicalPath(std::string_view path, std::string& scratch) {
  const auto form = FormOf(path, scratch);
  if (!form) return std::unexpected(form.error());
  if (!form->doubt.empty()) return Ambiguous(form->doubt);
  return form->path;
}

bool IsWildcard(std::string_view value) {
  return value.contains('*') || EqualsIgnoreCase(value, "all");
}

bool IsPathValue(std::string_view value) {
  if (value.empty() || IsWildcard(value)) return false;
  if (value.find_first_not_of('.') == std::string_view::npos) return false;
  return std::all_of(value.begin(), value.end(), [](char c) {
    const bool is_printable = c > 0x20 && c < 0x7f;
    return is_printable && DoubtOfEscape(c).empty();
  });
}

bool IsPathOfValues(std::string_view value) {
  for (;;) {
    const auto slash = value.find('/');
    if (!IsPathValue(value.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    value.remove_prefix(slash + 1);
  }
}

std::string WithHiddenSlashes(std::string_view path) {
  static constexpr std::string_view kSign = "%EE%80%AF";  // of private use
  std::string hidden;
  bool has_any = false;
  for (std::size_t begin = 0, at = 0; at <= path.size();) {
    const bool is_escaped = path.size() - at >= 3 && EqualsIgnoreCase(path.substr(at, 3), "%2f");
    const bool is_end = at == path.size() || path[at] == '/' || is_escaped;
    if (!is_end) {
      ++at;
      continue;
    }
    const std::string_view piece = path.substr(begin, at - begin);
    const bool was_escaped = hidden.ends_with(kSign);
    const auto end = std::min(piece.find(';'), piece.find("%3B"));
    if ((is_escaped || was_escaped) && IsDots(piece.substr(0, end))) return {};
    hidden += piece;
    if (at == path.size()) break;
    hidden += is_escaped ? kSign : "/";
    has_any = has_any || is_escaped;
    at += is_escaped ? 3 : 1;
    begin = at;
  }
  return has_any ? hidden : std::string();
}

std::string FoldPath(std::string_view path) {
  std::string folded;
  folded.reserve(path.size());
  std::string bytes;
  while (!path.empty()) {
    if (path.front() != '%') {
      const char c = path.front();
      folded += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
      path.remove_prefix(1);
      continue;
    }
    std::size_t size = 0;
    while (size < path.size() && path[size] == '%') size = std::min(size + 3, path.size());
    PercentDecode(path.substr(0, size), bytes);
    path.remove_prefix(size);
    for (const char c : SkeletonOf(NameIn::kPath, bytes)) {
      const bool is_plain = ClassOf(c) == CharClass::kPlain;
      folded += is_plain ? std::string(1, c) : PercentEncode(std::string_view(&c, 1));
    }
  }
  return folded;
}

}  // namespace recourse
