// Characters beyond ASCII that some reader takes for ASCII ones, or for nothing. Pure.
#pragma once

#include <string>
#include <string_view>

namespace recourse {

// Takes one code point off the front of `text`, which is not empty. Bytes that are no UTF-8 in its
// shortest form are taken one by one, and are kNoPoint.
inline constexpr char32_t kNoPoint = 0xffffffff;
char32_t TakePoint(std::string_view& text);

// Shown as nothing: zero width, joiners, direction marks, fillers, selectors, tags, C1 controls.
bool IsInvisible(char32_t point);

// The ASCII text, in lower case, that a change of case (Go, Java, NTFS) or a compatibility
// normalisation (NFKC: IDNA, Python, databases) makes of a point beyond ASCII; empty: it stays.
std::string_view AsciiOf(char32_t point);

// The lower-case letter of a point beyond ASCII, in the scripts that have cases.
char32_t LowerPoint(char32_t point);

void AppendPoint(std::string& out, char32_t point);

}  // namespace recourse
