#include "policy/uri/letters.h"

#include <algorithm>
#include <array>

namespace recourse {
namespace {

struct PointRange {
  char32_t first, last;
};
constexpr std::array<PointRange, 18> kInvisible{{
    {0x80, 0x9f},        // C1 controls
    {0xad, 0xad},        // soft hyphen
    {0x34f, 0x34f},      // combining grapheme joiner
    {0x61c, 0x61c},      // Arabic letter mark
    {0x115f, 0x1160},    // Hangul fillers
    {0x17b4, 0x17b5},    // Khmer inherent vowels
    {0x180b, 0x180e},    // Mongolian selectors
    {0x200b, 0x200f},    // zero width, direction marks
    {0x2028, 0x202e},    // line separators, direction embeddings
    {0x2060, 0x206f},    // word joiner, invisible operators, isolates
    {0x3164, 0x3164},    // Hangul filler
    {0xd800, 0xdfff},    // surrogates
    {0xfe00, 0xfe0f},    // variation selectors
    {0xfeff, 0xfeff},    // byte order mark
    {0xffa0, 0xffa0},    // halfwidth Hangul filler
    {0xfff9, 0xfffb},    // interlinear annotations
    {0x1d173, 0x1d17a},  // musical formats
    {0xe0000, 0xe0fff},  // tags and further selectors
}};

constexpr std::string_view kPrintable =
    " !\"#$%&'()*+,-./0123456789:;<=>?@abcdefghijklmnopqrstuvwxyz[\\]^_`abcdefghijklmnopqrstuvwxyz"
    "{|}~";
constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kDigits = "0123456789";

// Points in a row, each of which stands for a character of `text`, which begins anew when it ends;
// '?' where there is none.
struct Row {
  char32_t first, last;
  std::string_view text;
};
constexpr std::array<Row, 37> kRows{{
    {0xaa, 0xaa, "a"},
    {0xb2, 0xb3, "23"},
    {0xb9, 0xba, "1o"},
    {0x130, 0x131, "ii"},  // Turkish: lower-case i of the one, upper-case I of the other
    {0x17f, 0x17f, "s"},   // long s, whose upper case is S
    {0x2b0, 0x2b8, "h?jr???wy"},
    {0x2e1, 0x2e3, "lsx"},
    {0x1d2c, 0x1d42, "a?b?de?ghijklmn?o?prtuw"},
    {0x1d43, 0x1d5b, "a???bde???g?km?o???ptu??v"},
    {0x1d62, 0x1d65, "iruv"},
    {0x1d9c, 0x1da0, "c???f"},
    {0x1dbb, 0x1dbb, "z"},
    {0x2024, 0x2024, "."},
    {0x2070, 0x207f, "0i??456789+?=()n"},
    {0x2080, 0x209c, "0123456789+?=()?aeox?hklmnpst"},
    {0x2102, 0x2102, "c"},
    {0x210a, 0x2115, "ghhhh?iill?n"},
    {0x2119, 0x2139, "pqrrr??????z???z?k?bc?eef?mo????i"},  // with the Kelvin sign, lower-case k
    {0x2145, 0x2149, "ddeij"},
    {0x2160, 0x217f, "i???v????x??lcdm"},
    {0x2460, 0x2468, "123456789"},
    {0x24b6, 0x24e9, kLower},
    {0x24ea, 0x24ea, "0"},
    {0x2c7c, 0x2c7d, "jv"},
    {0x3000, 0x3000, " "},
    {0xa7f2, 0xa7f4, "cfq"},
    {0xfe33, 0xfe34, "_"},
    {0xfe47, 0xfe48, "[]"},
    {0xfe4d, 0xfe4f, "_"},
    {0xfe50, 0xfe6b, ",?.?;:?!-(){}??#&*+-<>=?\\$%@"},
    {0xff01, 0xff5e, kPrintable.substr(1)},  // fullwidth forms
    {0x107a5, 0x107a5, "q"},
    {0x1d400, 0x1d6a3, kLower},   // mathematical alphabets
    {0x1d7ce, 0x1d7ff, kDigits},  // and digits
    {0x1f12b, 0x1f12c, "cr"},
    {0x1f130, 0x1f149, kLower},
    {0x1fbf0, 0x1fbf9, kDigits},
}};

// The same for what stands for several characters.
struct Words {
  char32_t first;
  std::string_view words;
};
constexpr std::array<Words, 20> kWordRows{{
    {0xdf, "ss"},
    {0x132, "ij ij"},
    {0x1c7, "lj lj lj nj nj nj"},
    {0x1f1, "dz dz dz"},
    {0x1e9e, "ss"},
    {0x20a8, "rs"},
    {0x2116, "no"},
    {0x2120, "sm tel tm"},
    {0x213b, "fax"},
    {0x2161, "ii iii iv ? vi vii viii ix ? xi xii"},
    {0x2171, "ii iii iv ? vi vii viii ix ? xi xii"},
    {0x32cc, "hg erg ev ltd"},
    {0x3371, "hpa da au bar ov pc dm dm2 dm3 iu"},
    {0x3380,
     "pa na ? ma ka kb mb gb cal kcal pf nf ? ? mg kg hz khz mhz ghz thz ? ml dl kl fm nm ? mm cm "
     "km mm2 cm2 m2 km2 mm3 cm3 m3 km3 ? ? pa kpa mpa gpa rad ? ? ps ns ? ms pv nv ? mv kv mv pw "
     "nw ? mw kw mw"},
    {0x33c3, "bq cc cd ? co. db gy ha hp in kk km kt lm ln log lx mb mil mol ph ? ppm pr sr sv wb"},
    {0x33ff, "gal"},
    {0xfb00, "ff fi fl ffi ffl st st"},
    {0x1f12d, "cd wz"},
    {0x1f14a, "hv mv sd ss ppv wc"},
    {0x1f190, "dj"},
}};

std::string_view WordAt(std::string_view words, std::size_t index) {
  for (; index > 0 && !words.empty(); --index) {
    words.remove_prefix(std::min(words.find(' '), words.size() - 1) + 1);
  }
  const std::string_view word = words.substr(0, words.find(' '));
  return word == "?" ? std::string_view() : word;
}

// Capitals, with how far off their small letters are; 1: every other point is one, beginning with
// the first.
struct Capitals {
  char32_t first, last;
  int step;
};
constexpr std::array<Capitals, 27> kCapitals{{
    {0xb5, 0xb5, 0x3bc - 0xb5},  // micro sign
    {0xc0, 0xd6, 32},           {0xd8, 0xde, 32},   {0x100, 0x137, 1},
    {0x139, 0x148, 1},          {0x14a, 0x177, 1},  {0x178, 0x178, 0xff - 0x178},
    {0x179, 0x17e, 1},          {0x1cd, 0x1dc, 1},  {0x1de, 0x1ef, 1},
    {0x1f8, 0x21f, 1},          {0x222, 0x233, 1},  {0x386, 0x386, 38},
    {0x388, 0x38a, 37},         {0x38c, 0x38c, 64}, {0x38e, 0x38f, 63},
    {0x391, 0x3ab, 32},         {0x3c2, 0x3c2, 1},  // final sigma
    {0x3d8, 0x3ef, 1},          {0x400, 0x40f, 80}, {0x410, 0x42f, 32},
    {0x460, 0x481, 1},          {0x48a, 0x4bf, 1},  {0x4c1, 0x4ce, 1},
    {0x4d0, 0x52f, 1},          {0x531, 0x556, 48}, {0x1e00, 0x1eff, 1},
}};

// How many bytes follow a lead byte; -1: it is none.
int BytesAfter(unsigned char lead) {
  if (lead < 0x80) return 0;
  if (lead >= 0xc2 && lead < 0xe0) return 1;
  if (lead >= 0xe0 && lead < 0xf0) return 2;
  return lead >= 0xf0 && lead < 0xf5 ? 3 : -1;
}

}  // namespace

char32_t TakePoint(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const int more = BytesAfter(lead);
  char32_t point = more == 0 ? lead : static_cast<char32_t>(lead & (0x3f >> std::max(more, 0)));
  bool is_good = more >= 0 && text.size() > static_cast<std::size_t>(more);
  for (int i = 1; is_good && i <= more; ++i) {
    const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
    is_good = (byte & 0xc0) == 0x80;
    point = point << 6 | (byte & 0x3fu);
  }
  const bool is_short = (more != 2 || point >= 0x800) && (more != 3 || point >= 0x10000);
  if (!is_good || !is_short || point > 0x10ffff) {
    text.remove_prefix(1);
    return kNoPoint;
  }
  text.remove_prefix(static_cast<std::size_t>(more) + 1);
  return point;
}

bool IsInvisible(char32_t point) {
  return std::ranges::any_of(kInvisible, [point](const PointRange& range) {
    return point >= range.first && point <= range.last;
  });
}

std::string_view AsciiOf(char32_t point) {
  for (const Row& row : kRows) {
    if (point < row.first || point > row.last) continue;
    const std::string_view found = row.text.substr((point - row.first) % row.text.size(), 1);
    if (found != "?" || point == 0xff1f) return found;
    break;
  }
  constexpr char32_t kWordsMax = 64;
  for (const Words& some : kWordRows) {
    if (point < some.first || point > some.first + kWordsMax) continue;
    if (const auto word = WordAt(some.words, point - some.first); !word.empty()) return word;
  }
  return {};
}

char32_t LowerPoint(char32_t point) {
  for (const Capitals& some : kCapitals) {
    if (point < some.first || point > some.last) continue;
    if (some.step == 1) return point + ((point - some.first) % 2 == 0 ? 1 : 0);
    return static_cast<char32_t>(static_cast<int>(point) + some.step);
  }
  return point;
}

void AppendPoint(std::string& out, char32_t point) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | (point >> shift & 0x3f)));
  };
  if (point < 0x80) {
    out.push_back(static_cast<char>(point));
  } else if (point < 0x800) {
    out.push_back(static_cast<char>(0xc0 | point >> 6));
  } else if (point < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | point >> 12));
    tail(6);
  } else {
    out.push_back(static_cast<char>(0xf0 | point >> 18));
    tail(12);
    tail(6);
  }
  if (point >= 0x80) tail(0);
}

}  // namespace recourse
