#include "policy/graphql/lexer.h"

#include <algorithm>
#include <vector>

#include "proxy/base/hex.h"

namespace recourse {
namespace {

constexpr std::string_view kGraphqlByteOrderMark = "\xEF\xBB\xBF";

bool StartsGraphqlName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsGraphqlDigit(char c) { return c >= '0' && c <= '9'; }
bool GoesOnGraphqlName(char c) { return StartsGraphqlName(c) || IsGraphqlDigit(c); }

void AppendCodePoint(std::string& out, std::uint32_t point) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | (point >> 6));
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | (point >> 12));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | (point >> 18));
    put(0x80 | ((point >> 12) & 0x3F));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

bool IsHighSurrogate(std::uint32_t unit) { return unit >= 0xD800 && unit <= 0xDBFF; }
bool IsLowSurrogate(std::uint32_t unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }

std::vector<std::string> BlockLines(std::string_view raw) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\n' && raw[i] != '\r') {
      lines.back().push_back(raw[i]);
      continue;
    }
    if (raw[i] == '\r' && i + 1 < raw.size() && raw[i + 1] == '\n') ++i;
    lines.emplace_back();
  }
  return lines;
}

std::size_t BlockIndent(std::string_view line) {
  return std::min(line.find_first_not_of(" \t"), line.size());
}

// BlockStringValue of 2.9.4: without the indent that all lines but the first share, and without
// blank lines at both ends.
std::string BlockValue(std::string_view raw) {
  std::vector<std::string> lines = BlockLines(raw);
  std::size_t common = std::string::npos;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::size_t indent = BlockIndent(lines[i]);
    if (indent < lines[i].size()) common = std::min(common, indent);
  }
  if (common != std::string::npos) {
    for (std::size_t i = 1; i < lines.size(); ++i) {
      lines[i].erase(0, std::min(common, lines[i].size()));
    }
  }
  const auto is_blank = [](const std::string& line) { return BlockIndent(line) == line.size(); };
  auto first = std::ranges::find_if_not(lines, is_blank);
  auto last = lines.end();
  while (last != first && is_blank(*(last - 1))) --last;
  std::string text;
  for (auto line = first; line != last; ++line) {
    if (line != first) text.push_back('\n');
    text += *line;
  }
  return text;
}

}  // namespace

std::string GraphqlFault::Text() const {
  return what + " (line " + std::to_string(line) + ", column " + std::to_string(column) + ")";
}

GraphqlFault GraphqlLexer::FaultAt(std::size_t at, std::string what) const {
  GraphqlFault fault{std::move(what)};
  for (std::size_t i = 0; i < std::min(at, document_.size()); ++i) {
    const bool is_pair =
        document_[i] == '\r' && i + 1 < document_.size() && document_[i + 1] == '\n';
    if (document_[i] == '\n' || (document_[i] == '\r' && !is_pair)) {
      ++fault.line;
      fault.column = 1;
    } else {
      ++fault.column;
    }
  }
  return fault;
}

GraphqlToken GraphqlLexer::Cut(GraphqlToken::Kind kind, std::size_t begin) const {
  return {kind, begin, at_ - begin, std::string(document_.substr(begin, at_ - begin))};
}

void GraphqlLexer::SkipIgnored() {
  while (at_ < document_.size()) {
    const char c = document_[at_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',') {
      ++at_;
    } else if (document_.substr(at_).starts_with(kGraphqlByteOrderMark)) {
      at_ += kGraphqlByteOrderMark.size();
    } else if (c == '#') {
      at_ = std::min(document_.find_first_of("\r\n", at_), document_.size());
    } else {
      return;
    }
  }
}

std::expected<GraphqlToken, GraphqlFault> GraphqlLexer::Next() {
  using Kind = GraphqlToken::Kind;
  SkipIgnored();
  const std::size_t begin = at_;
  if (at_ == document_.size()) return GraphqlToken{Kind::kEnd, at_, 0, {}};
  const char c = document_[at_];
  if (StartsGraphqlName(c)) {
    while (at_ < document_.size() && GoesOnGraphqlName(document_[at_])) ++at_;
    return Cut(Kind::kName, begin);
  }
  if (IsGraphqlDigit(c) || c == '-') return Number();
  if (c == '"') return document_.substr(at_).starts_with("\"\"\"") ? BlockText() : Text();
  if (document_.substr(at_).starts_with("...")) {
    at_ += 3;
    return Cut(Kind::kPunctuator, begin);
  }
  if (std::string_view("!$&():=@[]{|}").find(c) != std::string_view::npos) {
    ++at_;
    return Cut(Kind::kPunctuator, begin);
  }
  return Refuse(at_, "no token of GraphQL begins here");
}

// 2.9.1, 2.9.2: 01, 1. and 1x are none, and no name or dot may follow at once.
std::expected<GraphqlToken, GraphqlFault> GraphqlLexer::Number() {
  const std::size_t begin = at_;
  bool is_float = false;
  const auto digits = [this] {
    const std::size_t first = at_;
    while (IsGraphqlDigit(Peek())) ++at_;
    return at_ != first;
  };
  if (Peek() == '-') ++at_;
  const bool has_zero = Peek() == '0';
  const std::size_t whole = at_;
  if (!digits() || (has_zero && at_ - whole > 1)) return Refuse(begin, "this is no number");
  if (Peek() == '.') {
    is_float = true;
    ++at_;
    if (!digits()) return Refuse(begin, "this is no number");
  }
  if (Peek() == 'e' || Peek() == 'E') {
    is_float = true;
    ++at_;
    if (Peek() == '+' || Peek() == '-') ++at_;
    if (!digits()) return Refuse(begin, "this is no number");
  }
  if (StartsGraphqlName(Peek()) || Peek() == '.') return Refuse(begin, "this is no number");
  return Cut(is_float ? GraphqlToken::Kind::kFloat : GraphqlToken::Kind::kInt, begin);
}

bool GraphqlLexer::Hex4(std::uint32_t& unit) {
  unit = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const int digit = at_ < document_.size() ? HexValue(document_[at_]) : -1;
    if (digit < 0) return false;
    unit = unit * 16 + static_cast<std::uint32_t>(digit);
  }
  return true;
}

// Lone surrogates are refused: readers make different characters of them.
bool GraphqlLexer::Escape(std::string& out) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
  const char c = Peek();
  ++at_;
  if (const auto simple = kEscapes.find(c); c != '\0' && simple != std::string_view::npos) {
    out.push_back(kValues[simple]);
    return true;
  }
  if (c != 'u') return false;
  std::uint32_t point = 0;
  if (Peek() == '{') {
    const auto close = document_.find('}', at_);
    const bool is_good = close != std::string_view::npos && close > at_ + 1 && close < at_ + 8;
    if (!is_good) return false;
    for (++at_; at_ < close; ++at_) {
      const int digit = HexValue(document_[at_]);
      if (digit < 0) return false;
      point = point * 16 + static_cast<std::uint32_t>(digit);
    }
    ++at_;
  } else {
    if (!Hex4(point)) return false;
    if (IsHighSurrogate(point)) {
      std::uint32_t low = 0;
      if (Peek() != '\\' || Peek(1) != 'u') return false;
      at_ += 2;
      if (!Hex4(low) || !IsLowSurrogate(low)) return false;
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
  }
  if (point > 0x10FFFF || IsHighSurrogate(point) || IsLowSurrogate(point)) return false;
  AppendCodePoint(out, point);
  return true;
}

std::expected<GraphqlToken, GraphqlFault> GraphqlLexer::Text() {
  GraphqlToken token{GraphqlToken::Kind::kString, at_, 0, {}};
  for (++at_; at_ < document_.size();) {
    const char c = document_[at_];
    if (c == '"') {
      ++at_;
      token.size = at_ - token.at;
      return token;
    }
    if (c == '\n' || c == '\r') break;
    ++at_;
    if (c != '\\') {
      token.text.push_back(c);
    } else if (!Escape(token.text)) {
      return Refuse(std::min(at_, document_.size()), "a text has an escape that is none");
    }
  }
  return Refuse(token.at, "this text does not end on its line");
}

std::expected<GraphqlToken, GraphqlFault> GraphqlLexer::BlockText() {
  GraphqlToken token{GraphqlToken::Kind::kString, at_, 0, {}};
  std::string raw;
  for (at_ += 3; at_ < document_.size();) {
    const std::string_view rest = document_.substr(at_);
    if (rest.starts_with("\"\"\"")) {
      at_ += 3;
      token.size = at_ - token.at;
      token.text = BlockValue(raw);
      return token;
    }
    if (rest.starts_with("\\\"\"\"")) {
      raw += "\"\"\"";
      at_ += 4;
      continue;
    }
    raw.push_back(rest.front());
    ++at_;
  }
  return Refuse(token.at, "this text does not end");
}

}  // namespace recourse
