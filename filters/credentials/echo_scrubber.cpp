#include "filters/credentials/echo_scrubber.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "filters/credentials/secret_forms.h"

namespace recourse {

namespace {

// How often something may have been escaped anew, so that little is held back.
constexpr std::size_t kBackslashesMax = 8, kPercentsMax = 4;
// How many line ends and blanks may stand where it was cut into lines.
constexpr int kFoldMax = 16;
// Behind fewer characters of it a line end is not waited behind: it ends an event of a stream.
constexpr std::size_t kBeforeFoldMin = 4;
constexpr std::size_t kCutOff = std::string_view::npos;  // the text ends before that is known

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }
char Upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c & ~0x20) : c; }
bool IsSameLetter(char a, char b) { return Lower(a) == Lower(b); }

// How many bytes stand at the beginning of `text` for the character; 0: something else.
std::size_t AsDigits(std::string_view text, std::size_t begin, std::size_t digits, char wanted,
                     int base) {
  const std::string_view said = text.substr(std::min(begin, text.size()), digits);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), value, base);
  if (!said.empty() && (error != std::errc() || end != said.data() + said.size())) return 0;
  if (said.size() < digits) return kCutOff;
  return value < 0x80 && IsSameLetter(static_cast<char>(value), wanted) ? begin + digits : 0;
}
std::size_t AsHex(std::string_view text, std::size_t begin, std::size_t digits, char wanted) {
  return AsDigits(text, begin, digits, wanted, 16);
}

// u{2f}, behind its backslash.
std::size_t AsBraced(std::string_view text, std::size_t begin, char wanted) {
  constexpr std::size_t kDigitsMax = 6;
  const std::string_view rest = text.substr(std::min(begin, text.size()), kDigitsMax + 1);
  const auto close = rest.find('}');
  if (close == std::string_view::npos) return rest.size() > kDigitsMax ? 0 : kCutOff;
  const std::size_t size = close == 0 ? 0 : AsHex(rest, 0, close, wanted);
  return size == 0 ? 0 : begin + close + 1;
}

// \/ \" \u002f \x2f \u{2f} \057, also in a text within a text.
std::size_t AsJsonEscape(std::string_view text, char wanted) {
  const std::size_t slashes = std::min(text.find_first_not_of('\\'), text.size());
  if (slashes > kBackslashesMax) return 0;
  if (slashes == text.size()) return kCutOff;
  const char kind = text[slashes];
  std::size_t size = 0;
  if (kind == 'u' && slashes + 1 < text.size() && text[slashes + 1] == '{') {
    size = AsBraced(text, slashes + 2, wanted);
  } else if (kind == 'u') {
    size = AsHex(text, slashes + 1, 4, wanted);
  } else if (kind == 'x') {
    size = AsHex(text, slashes + 1, 2, wanted);
  } else if (kind >= '0' && kind <= '7') {
    size = AsDigits(text, slashes, 3, wanted, 8);
  }
  if (size != 0) return size;
  const bool is_plain = std::string_view("/\"'").contains(wanted);
  return is_plain && text[slashes] == wanted ? slashes + 1 : 0;
}

// %2F, also of a url in a url: %252F.
std::size_t AsUrlEscape(std::string_view text, char wanted) {
  std::size_t begin = 1;
  for (std::size_t again = 0; again < kPercentsMax; ++again) {
    const std::size_t size = AsHex(text, begin, 2, wanted);
    if (size != 0 || text.substr(begin, 2) != "25") return size;
    begin += 2;
  }
  return 0;
}

// &#47; &#x2f; &amp;
std::size_t AsEntity(std::string_view text, char wanted) {
  constexpr std::size_t kNameMax = 10;
  static constexpr std::pair<std::string_view, char> kNames[] = {
      {"amp", '&'},   {"lt", '<'},     {"gt", '>'},     {"quot", '"'},   {"apos", '\''},
      {"sol", '/'},   {"plus", '+'},   {"equals", '='}, {"lowbar", '_'}, {"period", '.'},
      {"colon", ':'}, {"hyphen", '-'}, {"dash", '-'},   {"comma", ','},  {"semi", ';'}};
  const std::size_t end = text.substr(0, kNameMax).find(';');
  if (end == std::string_view::npos) return text.size() < kNameMax ? kCutOff : 0;
  std::string_view name = text.substr(1, end - 1);
  for (const auto& [known, value] : kNames) {
    if (name == known) return value == wanted ? end + 1 : 0;
  }
  if (!name.starts_with('#')) return 0;
  name.remove_prefix(1);
  const bool is_hex = name.starts_with('x') || name.starts_with('X');
  if (is_hex) name.remove_prefix(1);
  unsigned value = 0;
  (void)std::from_chars(name.data(), name.data() + name.size(), value, is_hex ? 16 : 10);
  return value < 0x80 && IsSameLetter(static_cast<char>(value), wanted) ? end + 1 : 0;
}

bool BeginsEscape(char c) { return c == '\\' || c == '%' || c == '&'; }

std::size_t AsEscape(std::string_view text, char wanted) {
  switch (text.front()) {
    case '\\':
      return AsJsonEscape(text, wanted);
    case '%':
      return AsUrlEscape(text, wanted);
    case '&':
      return AsEntity(text, wanted);
    default:
      return 0;
  }
}

// A line end at the beginning of `text`, also as an escape of it.
std::size_t AsLineEnd(std::string_view text) {
  if (text.front() == '\n' || text.front() == '\r') return 1;
  const std::size_t slashes = std::min(text.find_first_not_of('\\'), text.size());
  if (slashes != 0 && slashes <= kBackslashesMax && slashes < text.size() &&
      (text[slashes] == 'n' || text[slashes] == 'r')) {
    return slashes + 1;
  }
  const std::size_t size = AsEscape(text, '\n');
  return size != 0 ? size : AsEscape(text, '\r');
}

// Where a long line was cut into several, as base64 is in mails: what stands between two characters
// of it.
std::size_t AsFold(std::string_view text) {
  std::size_t at = 0;
  for (int i = 0; i < kFoldMax; ++i) {
    const std::string_view rest = text.substr(at);
    if (rest.empty()) return kCutOff;
    const bool is_blank = at != 0 && (rest.front() == ' ' || rest.front() == '\t');
    const std::size_t size = is_blank ? 1 : AsLineEnd(rest);
    if (size == 0 || size == kCutOff) return size == 0 ? at : kCutOff;
    at += size;
  }
  return 0;
}

std::size_t PairOf(char first, char second) {
  return std::size_t{256} * static_cast<unsigned char>(first) + static_cast<unsigned char>(second);
}

constexpr std::size_t kNo = kCutOff - 1;

// How many bytes at the beginning of `text` are the secret.
std::size_t SizeOf(std::string_view secret, std::string_view text) {
  std::size_t at = 0;
  const std::size_t whole = secret.size();
  while (!secret.empty()) {
    if (at == text.size()) return kCutOff;
    const std::size_t size = AsEscape(text.substr(at), secret.front());
    const bool is_plain = IsSameLetter(text[at], secret.front());
    if (size == 0 && !is_plain) {
      const std::size_t fold = at == 0 ? 0 : AsFold(text.substr(at));
      const bool is_awaited = fold == kCutOff && whole - secret.size() >= kBeforeFoldMin;
      if (fold == 0 || fold == kCutOff) return is_awaited ? kCutOff : kNo;
      at += fold;
      continue;
    }
    secret.remove_prefix(1);
    if (is_plain && size != 0) {  // one or the other: what comes next tells
      const std::size_t plain = SizeOf(secret, text.substr(at + 1));
      if (plain < kNo) return at + 1 + plain;
      if (size == kCutOff || plain == kCutOff) return kCutOff;
    }
    if (size == kCutOff) return kCutOff;
    at += std::max<std::size_t>(size, 1);
  }
  return at;
}

}  // namespace

EchoScrubber::EchoScrubber(const std::vector<std::string>& values) {
  auto known = std::make_shared<Known>();
  for (const std::string& value : values) {
    for (const std::string& secret : SecretsIn(value)) {
      for (std::string& form : FormsOfSecret(secret)) {
        auto& same = known->forms[Lower(form.front())];
        if (std::ranges::find(same, form) == same.end()) same.push_back(std::move(form));
      }
    }
  }
  for (const auto& [first, same] : known->forms) {
    for (const std::string& form : same) AddBegin(form, *known);
    if (std::string_view("/\"'").contains(first)) known->pairs.set(PairOf('\\', first));
  }
  if (!known->forms.empty()) AddEscapes(*known);
  known_ = std::move(known);
}

// Of which the first character is not escaped.
void EchoScrubber::AddBegin(const std::string& form, Known& known) {
  const char second = form.size() > 1 ? form[1] : form[0];
  for (const char c : {Lower(form[0]), Upper(form[0])}) {
    known.begins[static_cast<unsigned char>(c)] = true;
    for (const char d : {Lower(second), Upper(second), '\\', '%', '&', '\n', '\r'}) {
      known.pairs.set(PairOf(c, d));
    }
  }
}

void EchoScrubber::AddEscapes(Known& known) {
  constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
  for (const char c : {'\\', '%', '&'}) known.begins[static_cast<unsigned char>(c)] = true;
  for (const char d : std::string_view("\\ux01234567")) known.pairs.set(PairOf('\\', d));
  for (const char d : kDigits) known.pairs.set(PairOf('%', d));
  known.pairs.set(PairOf('&', '#'));
  for (char d = 'a'; d <= 'z'; ++d) {
    known.pairs.set(PairOf('&', d));
    known.pairs.set(PairOf('&', Upper(d)));
  }
}

bool EchoScrubber::MayBeginAt(std::string_view text, std::size_t at) const {
  const char c = text[at];
  if (!known_->begins[static_cast<unsigned char>(c)]) return false;
  return at + 1 == text.size() || known_->pairs.test(PairOf(c, text[at + 1]));
}

EchoScrubber::Found EchoScrubber::FindNext(std::string_view text, std::size_t from,
                                           bool ends) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!MayBeginAt(text, at)) continue;
    const std::string_view rest = text.substr(at);
    std::size_t longest = 0;
    const bool is_escape = BeginsEscape(rest.front());
    const auto plain = known_->forms.find(Lower(rest.front()));
    const auto end = known_->forms.end();
    for (auto group = is_escape ? known_->forms.begin() : plain; group != end;
         group = is_escape ? std::next(group) : end) {
      const auto& [first, same] = *group;
      if (group != plain && AsEscape(rest, first) == 0) continue;
      for (const std::string& form : same) {
        const std::size_t size = SizeOf(form, rest);
        if (size == kCutOff && !ends) return {at, 0};
        if (size < kNo) longest = std::max(longest, size);
      }
    }
    if (longest != 0) return {at, longest};
  }
  return {text.size(), 0};
}

std::size_t EchoScrubber::Clean(std::span<char> text, bool ends) const {
  if (is_idle()) return 0;
  const std::string_view view(text.data(), text.size());
  Found one = FindNext(view, 0, ends);
  for (; one.size != 0; one = FindNext(view, one.at + one.size, ends)) {
    std::ranges::fill(text.subspan(one.at, one.size), '*');
  }
  return text.size() - one.at;
}

void EchoScrubber::Clean(HttpResponse& response) const {
  if (is_idle()) return;
  (void)Clean(response.reason, /*ends=*/true);
  for (auto& [name, value] : response.headers) {
    (void)Clean(name, /*ends=*/true);
    (void)Clean(value, /*ends=*/true);
  }
  (void)Clean(response.body, /*ends=*/true);
}

std::string_view EchoScrubber::Take(std::string_view piece, bool ends) {
  if (is_idle()) return piece;
  if (const Found one = FindNext(piece, 0, ends); held_.empty() && one.size == 0) {
    held_ = piece.substr(one.at);
    return piece.substr(0, one.at);
  }
  out_ = std::exchange(held_, {});
  out_ += piece;
  const std::size_t kept = Clean(out_, ends);
  held_ = out_.substr(out_.size() - kept);
  out_.resize(out_.size() - kept);
  return out_;
}

}  // namespace recourse
