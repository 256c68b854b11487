#include "proxy/traffic/seen_call.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "filters/call/call_values.h"
#include "policy/model/path_shape.h"
#include "proxy/base/hex.h"
#include "proxy/base/json/json.h"
#include "proxy/base/json/json_span.h"
#include "proxy/traffic/seen_mcp.h"

namespace recourse {
namespace {

constexpr std::size_t kSeenValuesMax = 128;  // of a body, a query or an answer
constexpr std::size_t kSeenPlaceBytesMax = 200;
constexpr std::size_t kDepthMax = 5;
constexpr std::size_t kOpaqueBytesMin = 20;
constexpr std::size_t kHexBytesMin = 16;
constexpr std::size_t kTextBytesMin = 8;
constexpr std::size_t kIdDigitsMax = 9;          // that a collection may count to
constexpr std::int64_t kNowMs = 10 * 60 * 1000;  // as close to the call a time is that of it
constexpr std::string_view kOtherValues = "(others)";

bool IsDigitChar(char c) { return c >= '0' && c <= '9'; }
bool IsLetterChar(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The number of `size` digits; -1: there are none.
int Digits(std::string_view text, std::size_t at, std::size_t size) {
  int number = 0;
  for (std::size_t i = at; i < at + size; ++i) {
    if (i >= text.size() || !IsDigitChar(text[i])) return -1;
    number = number * 10 + (text[i] - '0');
  }
  return number;
}

// "2026-11-26T10:00:00+01:00", of about now.
bool IsTimeOfCall(std::string_view text, std::int64_t now_ms) {
  if (text.size() < 16 || (text[10] != 'T' && text[10] != ' ')) return false;
  const int year = Digits(text, 0, 4), month = Digits(text, 5, 2), day = Digits(text, 8, 2);
  const int hour = Digits(text, 11, 2), minute = Digits(text, 14, 2);
  if (year < 0 || month < 1 || month > 12 || day < 1 || hour < 0 || minute < 0) return false;
  const std::chrono::sys_days date = std::chrono::year(year) /
                                     std::chrono::month(static_cast<unsigned>(month)) /
                                     std::chrono::day(static_cast<unsigned>(day));
  const std::int64_t minutes =
      std::chrono::duration_cast<std::chrono::minutes>(date.time_since_epoch()).count() +
      hour * 60 + minute;
  // Without a zone it is that of most containers.
  const auto zone = text.find_first_of("+-", 16);
  int offset = 0;
  if (zone != std::string_view::npos) {
    const bool has_colon = zone + 3 < text.size() && text[zone + 3] == ':';
    const int hours = Digits(text, zone + 1, 2);
    const int rest = Digits(text, zone + (has_colon ? 4 : 3), 2);
    if (hours < 0) return false;
    offset = (hours * 60 + std::max(rest, 0)) * (text[zone] == '-' ? -1 : 1);
  }
  return std::abs((minutes - offset) * 60'000 - now_ms) <= kNowMs;
}

bool IsNumberOfNow(const std::string& text, std::int64_t now_ms) {
  const std::string whole = text.substr(0, text.find('.'));
  if (whole.size() < 10 || whole.size() > 13 || !std::ranges::all_of(whole, IsDigitChar)) {
    return false;
  }
  std::int64_t number = 0;
  std::from_chars(whole.data(), whole.data() + whole.size(), number);
  return std::abs(number - now_ms) <= kNowMs || std::abs(number * 1000 - now_ms) <= kNowMs;
}

bool LooksOpaque(std::string_view text) {
  const bool is_uuid =
      text.size() == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' &&
      text[23] == '-' && std::ranges::count(text, '-') == 4 &&
      std::ranges::all_of(text, [](char c) { return c == '-' || HexValue(c) >= 0; });
  if (is_uuid) return true;
  const bool is_hex = std::ranges::all_of(text, [](char c) { return HexValue(c) >= 0; });
  return text.size() >= (is_hex ? kHexBytesMin : kOpaqueBytesMin) &&
         std::ranges::any_of(text, IsDigitChar) && std::ranges::any_of(text, IsLetterChar) &&
         std::ranges::all_of(text, [](char c) { return IsDigitChar(c) || IsLetterChar(c); });
}

ValueKind KindOfText(const std::string& text, std::int64_t now_ms) {
  if (text.empty()) return ValueKind::kFlag;
  if (IsTimeOfCall(text, now_ms) || IsNumberOfNow(text, now_ms)) return ValueKind::kTime;
  if (LooksOpaque(text)) return ValueKind::kOpaque;
  if (text.size() <= kIdDigitsMax && std::ranges::all_of(text, IsDigitChar)) {
    return ValueKind::kNumber;
  }
  const bool has_blank = text.find_first_of(" \t\n") != std::string::npos;
  return has_blank && text.size() >= kTextBytesMin ? ValueKind::kText : ValueKind::kWord;
}

// Values of one message, each at its place.
class ValueReader {
 public:
  enum class Lists : std::uint8_t { kWhole, kItems };
  ValueReader(const HmacKey& key, std::int64_t now_ms, Lists lists)
      : key_(key), now_ms_(now_ms), lists_(lists) {}

  void AddText(std::string place, const std::string& text) {
    Add(std::move(place), text, KindOfText(text, now_ms_));
  }

  void AddJson(const std::string& place, const Json& value, std::size_t depth = 0) {
    if (depth == 0 && IsObject(&value) && value.members.empty()) return;  // it says nothing
    if (IsObject(&value) && depth < kDepthMax && !value.members.empty()) {
      for (const auto& [name, member] : value.members) {
        AddJson(place + "/" + PointerToken(name), member, depth + 1);
      }
    } else if (IsArray(&value) && lists_ == Lists::kItems && depth < kDepthMax) {
      for (std::size_t i = 0; i < std::min(value.items.size(), kSeenItemsMax); ++i) {
        AddJson(place + "/" + std::to_string(i), value.items[i], depth + 1);
      }
    } else if (!value.is_scalar()) {
      Add(place, CanonicalJson(value), ValueKind::kComposite);
    } else {
      const std::string text = ScalarText(value);
      ValueKind kind = KindOfText(text, now_ms_);
      if (value.kind == Json::Kind::kNumber && kind != ValueKind::kTime) kind = ValueKind::kNumber;
      if (value.kind == Json::Kind::kTrue || value.kind == Json::Kind::kFalse) {
        kind = ValueKind::kFlag;
      }
      Add(place, text, kind);
    }
  }

  std::vector<SeenValue> values;

 private:
  void Add(std::string place, const std::string& text, ValueKind kind) {
    if (values.size() >= kSeenValuesMax || place.size() > kSeenPlaceBytesMax) {
      if (lists_ == Lists::kItems) return;
      place = kOtherValues;
    }
    const auto same = std::ranges::find(values, place, &SeenValue::place);
    const std::uint64_t hash = HashOf(key_, text);
    if (same == values.end()) {
      values.push_back({std::move(place), hash, kind});
    } else {
      same->hash = HashOf(key_, std::to_string(same->hash) + " " + std::to_string(hash));
      same->kind = ValueKind::kComposite;
    }
  }

 public:
  static std::uint64_t HashOf(const HmacKey& key, std::string_view text) {
    const Digest digest = key.Of(text);
    std::uint64_t hash = 0;
    std::memcpy(&hash, digest.data(), sizeof hash);
    return hash;
  }

 private:
  const HmacKey& key_;
  const std::int64_t now_ms_;
  const Lists lists_;
};

void ReadSeenBody(const SeenCall& call, const HmacKey& key, Sighting& made) {
  if (!call.has_body) return;
  made.form = SeenBody::kOther;
  HttpRequest request;
  request.method = call.method;
  request.headers.emplace_back("Content-Type", call.content_type);
  request.body = call.body;
  const auto body = ReadCallBody(request);
  if (call.body.empty() || !body) return;
  ValueReader reader(key, call.wall_ms, ValueReader::Lists::kWhole);
  if (body->form == BodyForm::kJson) {
    made.form = SeenBody::kJson;
    reader.AddJson("body#", body->json);
  } else if (body->form == BodyForm::kForm) {
    made.form = SeenBody::kForm;
    for (const auto& [name, value] : body->pairs) {
      reader.AddText("body#/" + PointerToken(name), value);
    }
  }
  made.body = std::move(reader.values);
}

std::vector<SeenSegment> SegmentsOf(std::string_view path, const HmacKey& key) {
  std::vector<SeenSegment> segments;
  while (path.starts_with('/')) {
    path.remove_prefix(1);
    const auto end = std::min(path.find('/'), path.size());
    const std::string_view segment = path.substr(0, end);
    std::string value;
    if (!PercentDecode(segment, value)) value = segment;
    segments.push_back(
        {LooksLikeId(segment) ? "" : std::string(segment), ValueReader::HashOf(key, value)});
    path.remove_prefix(end);
  }
  return segments;
}

void ReadSeenAnswer(const Json& answer, const SeenCall& call, const HmacKey& key, Sighting& made) {
  ValueReader reader(key, call.wall_ms, ValueReader::Lists::kItems);
  reader.AddJson("answer.body#", answer);
  made.answer = std::move(reader.values);
}

std::uint64_t HashOfText(const std::string& text, const HmacKey& key) {
  return text.empty() ? 0 : ValueReader::HashOf(key, text);
}

std::optional<Sighting> McpSightingOf(const SeenCall& call, const HmacKey& key, Sighting made) {
  auto seen = ReadSeenMcp(call);
  if (!seen) return std::nullopt;
  made.hints = std::move(seen->hints);
  if (!made.hints.empty()) return made;
  made.method = kToolsCall;
  if (!seen->trace_id.empty()) made.trace = HashOfText(seen->trace_id, key);
  if (!seen->intent.empty()) made.agent_key = HashOfText(seen->intent, key);
  made.path.push_back({seen->tool, HashOfText(seen->tool, key)});
  made.form = SeenBody::kJson;
  ValueReader arguments(key, call.wall_ms, ValueReader::Lists::kWhole);
  if (!seen->arguments.members.empty()) arguments.AddJson("body#", seen->arguments);
  made.body = std::move(arguments.values);
  made.status = seen->status;
  if (seen->output) ReadSeenAnswer(*seen->output, call, key, made);
  return made;
}

}  // namespace

std::uint64_t HashSeen(std::string_view value, const HmacKey& key) {
  return ValueReader::HashOf(key, value);
}

std::optional<Sighting> SightingOf(const SeenCall& call, const HmacKey& key) {
  Sighting made;
  made.wall_ms = call.wall_ms;
  made.took_ms = call.took_ms;
  made.backend = call.backend;
  made.method = call.method;
  made.tool = call.tool;
  made.caller = HashOfText(call.caller, key);
  made.trace = HashOfText(call.trace_id, key);
  made.agent_key = HashOfText(call.agent_key, key);
  made.is_delivered = call.is_delivered;
  if (call.is_message) return McpSightingOf(call, key, std::move(made));
  made.path = SegmentsOf(call.path, key);
  ValueReader query(key, call.wall_ms, ValueReader::Lists::kWhole);
  if (!call.query.empty()) {
    for (const auto& [name, value] : ParsePairs(call.query.substr(1))) {
      query.AddText("query." + name, value);
    }
  }
  made.query = std::move(query.values);
  ReadSeenBody(call, key, made);
  made.status = call.status;
  if (const auto answer = ParseJson(call.answer)) ReadSeenAnswer(*answer, call, key, made);
  return made;
}

}  // namespace recourse
