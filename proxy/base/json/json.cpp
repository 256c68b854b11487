#include "proxy/base/json/json.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "proxy/base/hex.h"
#include "proxy/base/json/json_canonical.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

unsigned char Byte(char c) { return static_cast<unsigned char>(c); }

std::string_view StringIn(const Json* value) {
  return value != nullptr && value->kind == Json::Kind::kString ? std::string_view(value->text)
                                                                : std::string_view();
}

// Orders as UTF-16 code units do. UTF-8 byte order differs from that in one place: characters
// above U+FFFF (lead bytes F0..F4) are surrogates in UTF-16, below U+E000..U+FFFF (EE, EF).
bool Utf16Less(std::string_view a, std::string_view b) {
  const auto [at_a, at_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (at_b == b.end()) return false;
  if (at_a == a.end()) return true;
  const auto rank = [](unsigned char byte) {
    return byte == 0xee || byte == 0xef ? byte + 8 : byte;
  };
  return rank(Byte(*at_a)) < rank(Byte(*at_b));
}

// What the lead byte of a UTF-8 sequence demands of the bytes after it (RFC 3629 table).
struct Utf8Lead {
  std::size_t size;  // 0: not a lead byte
  unsigned char second_min;
  unsigned char second_max;
};

Utf8Lead LeadOf(unsigned char byte) {
  if (byte < 0xc2 || byte > 0xf4) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte < 0xf0) {
    return {3, static_cast<unsigned char>(byte == 0xe0 ? 0xa0 : 0x80),
            static_cast<unsigned char>(byte == 0xed ? 0x9f : 0xbf)};
  }
  return {4, static_cast<unsigned char>(byte == 0xf0 ? 0x90 : 0x80),
          static_cast<unsigned char>(byte == 0xf4 ? 0x8f : 0xbf)};
}

// Appends the sequence at the start of `text`, or U+FFFD for the longest broken prefix of one.
// Returns how many bytes that took, at least 1.
std::size_t AppendSequence(std::string& out, std::string_view text) {
  const Utf8Lead lead = LeadOf(Byte(text.front()));
  std::size_t size = 1;
  while (size < lead.size && size < text.size()) {
    const unsigned char byte = Byte(text[size]);
    const bool fits = size == 1 ? byte >= lead.second_min && byte <= lead.second_max
                                : byte >= 0x80 && byte <= 0xbf;
    if (!fits) break;
    ++size;
  }
  out.append(size == lead.size ? text.substr(0, size) : kReplacement);
  return size;
}

void AppendEscaped(std::string& out, char c) {
  switch (c) {
    case '"':
    case '\\':
      out.append({'\\', c});
      return;
    case '\b':
      out.append("\\b");
      return;
    case '\t':
      out.append("\\t");
      return;
    case '\n':
      out.append("\\n");
      return;
    case '\f':
      out.append("\\f");
      return;
    case '\r':
      out.append("\\r");
      return;
    default:
      out.append("\\u00");
      out.push_back(kHexDigits[Byte(c) >> 4]);
      out.push_back(kHexDigits[Byte(c) & 15]);
  }
}

class CanonicalWriter {
 public:
  CanonicalWriter(std::string& out, const std::vector<const Json*>& left_out)
      : out_(out), left_out_(left_out) {}

  void Write(const Json& value) {
    switch (value.kind) {
      case Json::Kind::kNull:
        out_.append("null");
        return;
      case Json::Kind::kFalse:
        out_.append("false");
        return;
      case Json::Kind::kTrue:
        out_.append("true");
        return;
      case Json::Kind::kNumber:
        out_.append(value.text);
        return;
      case Json::Kind::kString:
        AppendJsonString(out_, value.text);
        return;
      case Json::Kind::kArray:
        WriteArray(value);
        return;
      case Json::Kind::kObject:
        WriteObject(value);
        return;
    }
  }

  bool IsLeftOut(const Json& value) const {
    return std::find(left_out_.begin(), left_out_.end(), &value) != left_out_.end();
  }

 private:
  void WriteArray(const Json& array) {
    out_.push_back('[');
    bool is_first = true;
    for (const Json& item : array.items) {
      if (IsLeftOut(item)) continue;
      if (!is_first) out_.push_back(',');
      is_first = false;
      Write(item);
    }
    out_.push_back(']');
  }

  void WriteObject(const Json& object) {
    std::vector<const Json::Member*> sorted;
    sorted.reserve(object.members.size());
    for (const auto& member : object.members) {
      if (!IsLeftOut(member.second)) sorted.push_back(&member);
    }
    std::sort(sorted.begin(), sorted.end(),
              [](const auto* a, const auto* b) { return Utf16Less(a->first, b->first); });
    out_.push_back('{');
    bool is_first = true;
    for (const auto* member : sorted) {
      if (!is_first) out_.push_back(',');
      is_first = false;
      AppendJsonString(out_, member->first);
      out_.push_back(':');
      Write(member->second);
    }
    out_.push_back('}');
  }

  std::string& out_;
  const std::vector<const Json*>& left_out_;
};

// As many bytes as its canonical text takes, where nothing in it has to be escaped.
std::size_t RoomFor(const Json& value) {
  static constexpr std::size_t kPunctuation = 5;
  std::size_t room = kPunctuation + value.text.size();
  for (const Json& item : value.items) room += RoomFor(item);
  for (const auto& [name, member] : value.members) room += name.size() + RoomFor(member);
  return room;
}

// Undoes ~0 and ~1. nullopt on any other use of '~'.
std::optional<std::string> UnescapeReference(std::string_view reference) {
  std::string name;
  name.reserve(reference.size());
  for (std::size_t i = 0; i < reference.size(); ++i) {
    if (reference[i] != '~') {
      name.push_back(reference[i]);
      continue;
    }
    if (++i == reference.size() || (reference[i] != '0' && reference[i] != '1')) {
      return std::nullopt;
    }
    name.push_back(reference[i] == '0' ? '~' : '/');
  }
  return name;
}

// RFC 6901 section 4: no leading zeros; "-" names no existing element.
const Json* ItemAt(const Json& array, std::string_view reference) {
  if (reference.empty() || (reference.size() > 1 && reference.front() == '0')) return nullptr;
  std::size_t index = 0;
  const char* const end = reference.data() + reference.size();
  const auto [after, ec] = std::from_chars(reference.data(), end, index);
  if (ec != std::errc() || after != end || index >= array.items.size()) return nullptr;
  return &array.items[index];
}

const Json* ChildOf(const Json& parent, std::string_view name) {
  return parent.kind == Json::Kind::kArray ? ItemAt(parent, name) : parent.Find(name);
}

// "12e1" as 120 and "5e-1" as 0.5, unless that takes more than 64 characters.
std::string PlainNumber(const std::string& normal) {
  static constexpr std::size_t kPlainBytesMax = 64;
  const std::size_t mark = normal.find('e');
  int exponent = 0;
  if (mark == std::string::npos) return normal;
  std::from_chars(normal.data() + mark + 1, normal.data() + normal.size(), exponent);
  std::string plain = normal.substr(0, mark);
  const std::size_t sign = plain.starts_with('-') ? 1 : 0;
  const auto shift = static_cast<std::size_t>(exponent < 0 ? -exponent : exponent);
  if (exponent >= 0) {
    if (plain.size() + shift > kPlainBytesMax) return normal;
    return plain.append(shift, '0');
  }
  const std::size_t digits = plain.size() - sign;
  if (shift >= digits) {
    if (sign + 2 + shift > kPlainBytesMax) return normal;
    plain.insert(sign, shift - digits + 1, '0');
  }
  if (plain.size() + 1 > kPlainBytesMax) return normal;
  return plain.insert(plain.size() - shift, 1, '.');
}

}  // namespace

const Json* Json::Find(std::string_view name) const {
  for (const auto& [member, value] : members) {
    if (member == name) return &value;
  }
  return nullptr;
}

std::string_view TextOf(const Json& object, std::string_view member) {
  return StringIn(object.Find(member));
}

std::string_view TextAt(const Json& root, std::string_view pointer) {
  return StringIn(AtPointer(root, pointer));
}

const Json* AtPointer(const Json& root, std::string_view pointer) {
  const Json* at = &root;
  while (at != nullptr && !pointer.empty()) {
    if (pointer.front() != '/') return nullptr;
    pointer.remove_prefix(1);
    const std::size_t end = std::min(pointer.find('/'), pointer.size());
    const std::string_view reference = pointer.substr(0, end);
    pointer.remove_prefix(end);
    if (reference.find('~') == std::string_view::npos) {
      at = ChildOf(*at, reference);
    } else {
      const std::optional<std::string> name = UnescapeReference(reference);
      at = name ? ChildOf(*at, *name) : nullptr;
    }
  }
  return at;
}

bool IsJsonPointer(std::string_view pointer) {
  return pointer.empty() || (pointer.front() == '/' && UnescapeReference(pointer).has_value());
}

void AppendCanonicalJson(std::string& out, const Json& value,
                         const std::vector<std::string>& ignore) {
  std::vector<const Json*> left_out;
  for (const std::string& pointer : ignore) {
    if (const Json* found = AtPointer(value, pointer)) left_out.push_back(found);
  }
  CanonicalWriter writer(out, left_out);
  if (!writer.IsLeftOut(value)) writer.Write(value);
}

std::string CanonicalJson(const Json& value, const std::vector<std::string>& ignore) {
  std::string out;
  out.reserve(RoomFor(value));
  AppendCanonicalJson(out, value, ignore);
  return out;
}

std::string ScalarText(const Json& value) {
  switch (value.kind) {
    case Json::Kind::kString:
      return value.text;
    case Json::Kind::kNumber:
      return PlainNumber(value.text);
    case Json::Kind::kTrue:
      return "true";
    case Json::Kind::kFalse:
      return "false";
    case Json::Kind::kNull:
    case Json::Kind::kArray:
    case Json::Kind::kObject:
      break;
  }
  return {};
}

std::string ScalarText(const Json& object, std::string_view member) {
  const Json* const value = object.Find(member);
  return value == nullptr ? std::string() : ScalarText(*value);
}

namespace {

#if defined(__SSE2__)
// How many bytes of printable ASCII that need no escape `text` begins with; may stop before the
// last fifteen.
std::size_t PlainBeginning(std::string_view text) {
  std::size_t at = 0;
  for (; text.size() - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at));
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    const __m128i escaped = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                         _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    // The highest bit of a byte tells what is no ASCII.
    const auto found = static_cast<unsigned>(
        _mm_movemask_epi8(_mm_or_si128(bytes, _mm_or_si128(control, escaped))));
    if (found != 0) return at + static_cast<std::size_t>(__builtin_ctz(found));
  }
  return at;
}
#else
// Eight bytes of printable ASCII that need no escape. Borrows of the subtractions reach a byte only
// from one that is told of itself.
bool IsPlainWord(const char* bytes) {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kHighs = 0x80 * kOnes;
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  const auto has_zero = [](std::uint64_t of) { return (of - kOnes) & ~of; };
  const std::uint64_t found = word | (word - 0x20 * kOnes) | has_zero(word ^ ('"' * kOnes)) |
                              has_zero(word ^ ('\\' * kOnes));
  return (found & kHighs) == 0;
}

std::size_t PlainBeginning(std::string_view text) {
  std::size_t at = 0;
  while (text.size() - at >= sizeof(std::uint64_t) && IsPlainWord(text.data() + at)) {
    at += sizeof(std::uint64_t);
  }
  return at;
}
#endif

}  // namespace

void AppendJsonString(std::string& out, std::string_view text) {
  out.push_back('"');
  std::size_t run = 0;  // start of what needs no change and is not copied yet
  for (std::size_t at = PlainBeginning(text); at < text.size();) {
    const unsigned char byte = Byte(text[at]);
    if (byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\') {
      ++at;
      continue;
    }
    out.append(text, run, at - run);
    if (byte < 0x80) {
      AppendEscaped(out, text[at++]);
    } else {
      at += AppendSequence(out, text.substr(at));
    }
    run = at;
    at += PlainBeginning(text.substr(at));
  }
  out.append(text, run);
  out.push_back('"');
}

}  // namespace recourse
