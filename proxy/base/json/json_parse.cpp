// ParseJson: one pass of ours over the raw text, simdjson over a copy without numbers, and one walk
// that joins the two.
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "proxy/base/json/json.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Room for every digit and zero that the limits allow, a sign, a point and an exponent. Longer
// tokens are out of bounds whatever they say.
constexpr std::size_t kNumberBytesMax =
    limits::kJsonNumberDigitsMax + static_cast<std::size_t>(limits::kJsonExponentMax) + 16;

// What the parser is made for: one level more than is let through to it, and never no bytes at all.
constexpr std::size_t kParserDepth = limits::kJsonDepthMax + 2;
constexpr std::size_t kParserBytesMin = 32;
// Texts up to here are read by a parser that their thread keeps, with room for a copy of the text:
// to make one takes ten allocations.
constexpr std::size_t kKeptParserBytes = 4 * 1024;

// Far outside the limits, and far from overflow: where a written exponent stops counting.
constexpr int kExponentSaturated = 1'000'000;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool IsNumberByte(char c) {
  return IsDigit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// Reads one number token by RFC 8259 section 6 and yields its exact normal form.
class NumberReader {
 public:
  explicit NumberReader(std::string_view token) : rest_(token) {}

  Result<std::string> Read() {
    if (rest_.size() > kNumberBytesMax) return Malformed("number too long");
    const bool negative = Skip('-');
    const bool leading_zero = !rest_.empty() && rest_.front() == '0';
    const std::size_t whole = TakeDigits();
    if (whole == 0 || (leading_zero && whole > 1)) return NotANumber();
    std::size_t fraction = 0;
    if (Skip('.')) {
      fraction = TakeDigits();
      if (fraction == 0) return NotANumber();
    }
    int exponent = 0;
    if (Skip('e') || Skip('E')) {
      const std::optional<int> written = TakeExponent();
      if (!written) return NotANumber();
      exponent = *written;
    }
    if (!rest_.empty()) return NotANumber();
    return Normal(negative, exponent - static_cast<int>(fraction));
  }

 private:
  static Result<std::string> NotANumber() { return Malformed("bad number"); }

  bool Skip(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::size_t TakeDigits() {
    std::size_t count = 0;
    for (; !rest_.empty() && IsDigit(rest_.front()); ++count) {
      digits_[digit_count_++] = rest_.front();
      rest_.remove_prefix(1);
    }
    return count;
  }

  std::optional<int> TakeExponent() {
    const bool negative = Skip('-');
    if (!negative) Skip('+');
    if (rest_.empty() || !IsDigit(rest_.front())) return std::nullopt;
    int value = 0;
    for (; !rest_.empty() && IsDigit(rest_.front()); rest_.remove_prefix(1)) {
      value = std::min(value * 10 + (rest_.front() - '0'), kExponentSaturated);
    }
    return negative ? -value : value;
  }

  // The bounds look at the value, not at its spelling, so that a normal form read again passes.
  Result<std::string> Normal(bool negative, int exponent) const {
    std::string_view digits(digits_.data(), digit_count_);
    digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
    if (digits.empty()) return std::string("0e0");
    const std::size_t size = digits.find_last_not_of('0') + 1;
    exponent += static_cast<int>(digits.size() - size);
    digits = digits.substr(0, size);
    if (size > limits::kJsonNumberDigitsMax) return Malformed("number too long");
    const int magnitude = exponent + static_cast<int>(size) - 1;
    if (std::abs(magnitude) >= limits::kJsonExponentMax) {
      return Malformed("number out of range");
    }
    std::string text(negative ? "-" : "");
    text.append(digits).append(1, 'e').append(std::to_string(exponent));
    return text;
  }

  std::string_view rest_;
  std::array<char, kNumberBytesMax> digits_;
  std::size_t digit_count_ = 0;
};

// Walks over the raw text once: takes out the numbers, and refuses what simdjson would take or
// would spend memory on.
class Masker {
 public:
  // `masked` becomes the text with every number as one 0 followed by spaces, with simdjson's
  // padding behind it.
  Masker(std::string_view text, std::string& masked)
      : text_(text), masked_(masked), has_escapes_(text.find('\\') != std::string_view::npos) {
    masked_.reserve(text.size() + simdjson::SIMDJSON_PADDING);
    masked_.assign(text);
    masked_.append(simdjson::SIMDJSON_PADDING, ' ');
  }

  Result<void> Run() {
    for (std::size_t at = 0; at < text_.size();) {
      const char c = text_[at];
      if (c == '"') {
        at = AfterString(at);
        continue;
      }
      if (IsDigit(c) || c == '-') {
        const Result<std::size_t> after = TakeNumber(at);
        if (!after) return std::unexpected(after.error());
        at = *after;
        continue;
      }
      if (const std::string_view reason = TakeOther(c); !reason.empty()) return Malformed(reason);
      ++at;
    }
    return {};
  }

  // Normal forms in document order.
  std::vector<std::string>& numbers() { return numbers_; }

 private:
  // An unclosed string ends the walk; simdjson reports it. Every byte is looked at twice at most.
  std::size_t AfterString(std::size_t at) const {
    std::size_t quote = text_.find('"', ++at);
    if (!has_escapes_) return std::min(quote, text_.size() - 1) + 1;
    while (quote != std::string_view::npos) {
      const std::size_t escape = text_.substr(at, quote - at).find('\\');
      if (escape == std::string_view::npos) return quote + 1;
      at += escape + 2;
      if (at > quote) quote = text_.find('"', at);
    }
    return text_.size();
  }

  Result<std::size_t> TakeNumber(std::size_t begin) {
    std::size_t end = begin;
    while (end < text_.size() && IsNumberByte(text_[end])) ++end;
    // The mask turns digits into blanks, so the neighbours must be such that this cannot make
    // an invalid text valid.
    const bool starts = begin == 0 || IsBlank(text_[begin - 1]) || text_[begin - 1] == '[' ||
                        text_[begin - 1] == ',' || text_[begin - 1] == ':';
    const bool ends = end == text_.size() || IsBlank(text_[end]) || text_[end] == ']' ||
                      text_[end] == ',' || text_[end] == '}';
    if (!starts || !ends) return Malformed("bad number");
    Result<std::string> number = NumberReader(text_.substr(begin, end - begin)).Read();
    if (!number) return std::unexpected(number.error());
    numbers_.push_back(std::move(*number));
    masked_[begin] = '0';
    std::fill(masked_.begin() + static_cast<std::ptrdiff_t>(begin) + 1,
              masked_.begin() + static_cast<std::ptrdiff_t>(end), ' ');
    return end;
  }

  // Empty, or why it may not stand there.
  std::string_view TakeOther(char c) {
    switch (c) {
      case '[':
      case '{':
        // Checked before simdjson, whose own bound is 1,024.
        if (++depth_ > limits::kJsonDepthMax) return "nested too deeply";
        return {};
      case ']':
      case '}':
        if (depth_ == 0) return "unbalanced brackets";
        --depth_;
        return {};
      case ',':
        if (++commas_ >= limits::kJsonNodesMax) return "too many values";
        return {};
      default:
        // What may stand outside strings is blanks, ':' and the letters of true, false and null.
        // A byte order mark and a backslash, which would shift the quotes, end here.
        if (IsBlank(c) || c == ':' || (c >= 'a' && c <= 'z')) return {};
        return "unexpected character";
    }
  }

  std::string_view text_;
  std::string& masked_;
  const bool has_escapes_;  // hardly any text does
  std::vector<std::string> numbers_;
  std::size_t depth_ = 0;
  std::size_t commas_ = 0;
};

// Turns simdjson's DOM and the recorded numbers into the tree.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::vector<std::string>& numbers) : numbers_(numbers) {}

  // Recurses at most kJsonDepthMax deep. False: error() says why.
  bool Build(simdjson::dom::element from, Json& to) {
    using simdjson::dom::element_type;
    if (++nodes_ > limits::kJsonNodesMax) return Fail("too many values");
    switch (from.type()) {
      case element_type::ARRAY:
        return BuildArray(from, to);
      case element_type::OBJECT:
        return BuildObject(from, to);
      case element_type::STRING: {
        to.kind = Json::Kind::kString;
        std::string_view text;
        if (from.get(text) != simdjson::SUCCESS) return Fail("not JSON");
        to.text = text;
        return true;
      }
      case element_type::BOOL: {
        bool value = false;
        if (from.get(value) != simdjson::SUCCESS) return Fail("not JSON");
        to.kind = value ? Json::Kind::kTrue : Json::Kind::kFalse;
        return true;
      }
      case element_type::NULL_VALUE:
        return true;
      default:
        if (next_number_ == numbers_.size()) return Fail("bad number");
        to.kind = Json::Kind::kNumber;
        to.text = std::move(numbers_[next_number_++]);
        return true;
    }
  }

  bool used_every_number() const { return next_number_ == numbers_.size(); }
  Error error() const { return error_; }

 private:
  bool BuildArray(simdjson::dom::element from, Json& to) {
    to.kind = Json::Kind::kArray;
    simdjson::dom::array items;
    if (from.get(items) != simdjson::SUCCESS) return Fail("not JSON");
    to.items.reserve(std::min(items.size(), limits::kJsonNodesMax));
    for (const simdjson::dom::element item : items) {
      if (!Build(item, to.items.emplace_back())) return false;
    }
    return true;
  }

  bool BuildObject(simdjson::dom::element from, Json& to) {
    to.kind = Json::Kind::kObject;
    simdjson::dom::object members;
    if (from.get(members) != simdjson::SUCCESS) return Fail("not JSON");
    to.members.reserve(std::min(members.size(), limits::kJsonNodesMax));
    for (const auto [name, value] : members) {
      Json::Member& member = to.members.emplace_back(std::string(name));
      if (!Build(value, member.second)) return false;
    }
    return NamesAreUnique(to) || Fail("duplicate member name");
  }

  static bool NamesAreUnique(const Json& object) {
    static constexpr std::size_t kFew = 8;
    if (object.members.size() <= kFew) return FewNamesAreUnique(object);
    std::vector<std::string_view> names;
    names.reserve(object.members.size());
    for (const auto& [name, value] : object.members) names.push_back(name);
    std::sort(names.begin(), names.end());
    return std::adjacent_find(names.begin(), names.end()) == names.end();
  }

  // Each with each: takes no memory, and most differ in length.
  static bool FewNamesAreUnique(const Json& object) {
    for (auto at = object.members.begin(); at != object.members.end(); ++at) {
      for (auto before = object.members.begin(); before != at; ++before) {
        if (before->first == at->first) return false;
      }
    }
    return true;
  }

  bool Fail(std::string_view reason) {
    error_ = Error(ErrorCode::kMalformedRequest, reason);
    return false;
  }

  std::vector<std::string>& numbers_;
  std::size_t next_number_ = 0;
  std::size_t nodes_ = 0;
  Error error_;
};

simdjson::error_code MakeRoom(simdjson::dom::parser& parser, std::size_t bytes) {
  if (parser.capacity() >= bytes) return simdjson::SUCCESS;
  // Its default depth alone takes 9 KiB.
  return parser.allocate(bytes, kParserDepth);
}

// Of a number alone, or of a string in plain ASCII, as ids of messages are; nullopt: of all else.
std::optional<Result<Json>> ReadPlainScalar(std::string_view text) {
  if (text.empty()) return std::nullopt;
  Json scalar;
  if (IsDigit(text.front()) || text.front() == '-') {
    if (!std::ranges::all_of(text, IsNumberByte)) return std::nullopt;
    auto number = NumberReader(text).Read();
    if (!number) return std::unexpected(number.error());
    scalar.kind = Json::Kind::kNumber;
    scalar.text = std::move(*number);
    return scalar;
  }
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (!std::ranges::all_of(text, is_plain)) return std::nullopt;
  scalar.kind = Json::Kind::kString;
  scalar.text = text;
  return scalar;
}

std::string_view ReasonOf(simdjson::error_code code) {
  switch (code) {
    case simdjson::UTF8_ERROR:
      return "not UTF-8";
    case simdjson::STRING_ERROR:
      return "bad escape or lone surrogate in a string";
    case simdjson::UNCLOSED_STRING:
      return "unclosed string";
    case simdjson::UNESCAPED_CHARS:
      return "control character in a string";
    case simdjson::EMPTY:
      return "no JSON text";
    default:
      return "not one complete JSON text";
  }
}

}  // namespace

Result<Json> ParseJson(std::string_view text) {
  if (text.size() > limits::kJsonBytesMax) {
    return Malformed("JSON text too long");
  }
  if (auto plain = ReadPlainScalar(text)) return std::move(*plain);
  thread_local simdjson::dom::parser kept;
  thread_local std::string kept_text;
  std::optional<simdjson::dom::parser> own;
  std::string own_text;
  const bool is_small = text.size() <= kKeptParserBytes;
  std::string& masked = is_small ? kept_text : own_text;
  Masker masker(text, masked);
  if (auto done = masker.Run(); !done) return std::unexpected(done.error());
  simdjson::dom::parser& parser = is_small ? kept : own.emplace();
  const std::size_t room = is_small ? kKeptParserBytes : std::max(text.size(), kParserBytesMin);
  simdjson::dom::element root;
  auto code = MakeRoom(parser, room);
  if (!code) code = parser.parse(masked.data(), text.size(), false).get(root);
  if (code) {
    // One that found no memory half-way believes that it has it.
    if (code == simdjson::MEMALLOC) parser = simdjson::dom::parser();
    return Malformed(ReasonOf(code));
  }
  TreeBuilder builder(masker.numbers());
  Json tree;
  if (!builder.Build(root, tree)) return std::unexpected(builder.error());
  if (!builder.used_every_number()) return Malformed("bad number");
  return tree;
}

bool IsUtf8(std::string_view text) { return simdjson::validate_utf8(text); }

}  // namespace recourse
