#include "policy/path.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "proxy/base/http_message.h"
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

struct PointRange {
  char32_t first, last;
};
// Characters that a backend's normalisation turns into a separator or drops, sorted.
constexpr std::array<PointRange, 30> kTreacherous{{
    {0x80, 0x9f},        // C1 controls
    {0xad, 0xad},        // soft hyphen
    {0x17f, 0x17f},      // long s, lower-case of S
    {0x34f, 0x34f},      // combining grapheme joiner
    {0x61c, 0x61c},      // Arabic letter mark
    {0x115f, 0x1160},    // Hangul fillers
    {0x17b4, 0x17b5},    // Khmer inherent vowels
    {0x180b, 0x180e},    // Mongolian selectors
    {0x200b, 0x200f},    // zero width, direction marks
    {0x2024, 0x2026},    // dot leaders
    {0x2028, 0x202e},    // line separators, direction embeddings
    {0x2044, 0x2044},    // fraction slash
    {0x2060, 0x206f},    // word joiner, invisible operators, isolates
    {0x212a, 0x212a},    // Kelvin sign, lower-case k
    {0x2215, 0x2216},    // division slash, set minus
    {0x29f5, 0x29f5},    // reverse solidus operator
    {0x29f8, 0x29f9},    // big solidi
    {0x3164, 0x3164},    // Hangul filler
    {0xd800, 0xdfff},    // surrogates
    {0xfe00, 0xfe0f},    // variation selectors
    {0xfe52, 0xfe52},    // small full stop
    {0xfe54, 0xfe54},    // small semicolon
    {0xfe68, 0xfe68},    // small reverse solidus
    {0xfe6a, 0xfe6a},    // small percent
    {0xfeff, 0xfeff},    // byte order mark
    {0xff05, 0xff05},    // fullwidth percent
    {0xff0e, 0xff0f},    // fullwidth full stop and solidus
    {0xff1b, 0xff1b},    // fullwidth semicolon
    {0xff3c, 0xff3c},    // fullwidth reverse solidus
    {0xe0000, 0xe0fff},  // tags and further selectors
}};

bool IsTreacherous(char32_t point) {
  return std::any_of(kTreacherous.begin(), kTreacherous.end(), [point](const PointRange& range) {
    return point >= range.first && point <= range.last;
  });
}

// Reads one code point of valid, shortest-form UTF-8 at `i` and moves past it. False: invalid.
bool NextPoint(std::string_view bytes, std::size_t& i, char32_t& point) {
  const auto lead = static_cast<unsigned char>(bytes[i]);
  const int more = lead < 0x80                   ? 0
                   : lead >= 0xc2 && lead < 0xe0 ? 1
                   : lead >= 0xe0 && lead < 0xf0 ? 2
                   : lead >= 0xf0 && lead < 0xf5 ? 3
                                                 : -1;
  if (more < 0 || bytes.size() - i <= static_cast<std::size_t>(more)) return false;
  point = more == 0 ? lead : static_cast<char32_t>(lead & (0x3f >> more));
  for (int k = 1; k <= more; ++k) {
    const auto byte = static_cast<unsigned char>(bytes[i + static_cast<std::size_t>(k)]);
    if ((byte & 0xc0) != 0x80) return false;
    point = point << 6 | (byte & 0x3fu);
  }
  if ((more == 2 && point < 0x800) || (more == 3 && (point < 0x10000 || point > 0x10ffff))) {
    return false;
  }
  i += static_cast<std::size_t>(more) + 1;
  return true;
}

std::string_view ReasonForText(std::string_view decoded) {
  for (std::size_t i = 0; i < decoded.size();) {
    char32_t point = 0;
    if (!NextPoint(decoded, i, point)) return "the path is not valid UTF-8";
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

bool IsPathValue(std::string_view value) {
  if (value.empty() || EqualsIgnoreCase(value, "all")) return false;
  if (value.find_first_not_of('.') == std::string_view::npos) return false;
  return std::all_of(value.begin(), value.end(), [](char c) {
    const bool is_printable = c > 0x20 && c < 0x7f;
    return is_printable && c != '*' && DoubtOfEscape(c).empty();
  });
}

std::string FoldPath(std::string_view path) {
  std::string folded;
  folded.reserve(path.size());
  std::string byte;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      folded += path[i] >= 'A' && path[i] <= 'Z' ? static_cast<char>(path[i] | 0x20) : path[i];
      continue;
    }
    const std::string_view escape = path.substr(i, 3);
    const bool is_plain = PercentDecode(escape, byte) && ClassOf(byte[0]) == CharClass::kPlain;
    folded += is_plain ? std::string_view(byte) : escape;
    i += 2;
  }
  return folded;
}

}  // namespace recourse
