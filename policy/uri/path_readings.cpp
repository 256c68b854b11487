#include "policy/uri/path_readings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "policy/uri/path.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

std::string Replaced(std::string_view path, std::string_view what, char with) {
  std::string out;
  for (;;) {
    const auto at = path.find(what);
    out += path.substr(0, at);
    if (at == std::string_view::npos) return out;
    out += with;
    path.remove_prefix(at + what.size());
  }
}

std::string WithoutParameters(std::string_view path) {
  std::string out;
  bool in_parameter = false;
  for (const char c : path) {
    in_parameter = c == ';' || (in_parameter && c != '/');
    if (!in_parameter) out += c;
  }
  return out;
}

// As far as what its server takes for the query or the fragment.
std::string Cut(std::string_view path) {
  return std::string(path.substr(0, std::min(path.find("%3F"), path.find("%23"))));
}

std::string Merged(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c != '/' || !out.ends_with('/')) out += c;
  }
  return out;
}

// "//host/path" is how a reference names another host.
std::string WithoutHost(std::string_view path) {
  if (!path.starts_with("//")) return std::string(path);
  const auto slash = path.find('/', 2);
  return slash == std::string_view::npos ? "/" : std::string(path.substr(slash));
}

// One level of escapes of plain characters less, and the digits of the others in upper case.
enum class Plain : std::uint8_t { kKept, kDecoded };
std::string WithEscapes(std::string_view path, Plain plain) {
  std::string out, byte;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%' || !PercentDecode(path.substr(i, 3), byte) || byte.size() != 1) {
      out += path[i];
      continue;
    }
    if (plain == Plain::kDecoded && IsUnreserved(byte[0])) {
      out += byte;
    } else {
      out += '%';
      for (const char c : path.substr(i + 1, 2)) out += c >= 'a' ? static_cast<char>(c - 0x20) : c;
    }
    i += 2;
  }
  return out;
}

bool IsHex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

// One level of escapes less; a '%' before anything but two digits is one by itself.
Result<std::string> Decoded(std::string_view path) {
  static constexpr std::string_view kPercent = "%25";
  std::string out;
  while (!path.empty()) {
    const bool is_twice = path.starts_with(kPercent) && path.size() >= kPercent.size() + 2 &&
                          IsHex(path[kPercent.size()]) && IsHex(path[kPercent.size() + 1]);
    out += path.front();
    path.remove_prefix(is_twice ? kPercent.size() : 1);
  }
  std::string scratch;
  if (const auto form = FormOf(out, scratch); !form) return std::unexpected(form.error());
  return WithEscapes(out, Plain::kKept);
}

// "..%20" is ".." to a Windows server, and of "..." nothing is left.
std::string WithTrimmedDots(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const auto end = std::min(path.find('/', 1), path.size());
    std::string_view segment = path.substr(1, end - 1);
    path.remove_prefix(end);
    if (IsDots(segment)) {
      while (segment.ends_with("%20")) segment.remove_suffix(3);
      if (segment != "." && segment != "..") segment = {};
    }
    out.append("/").append(segment);
  }
  return out;
}

// RFC 3986 5.2.4; nullopt: it leads above its root.
std::optional<std::string> Resolved(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const auto end = std::min(path.find('/', 1), path.size());
    const std::string_view segment = path.substr(0, end);
    path.remove_prefix(end);
    const bool is_dot = segment == "/.";
    const bool is_up = segment == "/..";
    if (is_up && out.empty()) return std::nullopt;
    if (is_up) out.resize(out.rfind('/'));
    if (!is_dot && !is_up) out += segment;
    if ((is_dot || is_up) && path.empty()) out += '/';
  }
  return out;
}

class Closure {
 public:
  explicit Closure(std::string_view path) {
    all_.push_back({WithEscapes(path, Plain::kKept), false});
  }

  Result<std::vector<PathReading>> Run() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const PathReading one = all_[i];  // a copy: the list grows
      if (const auto done = TakeSteps(one); !done) return std::unexpected(done.error());
      if (all_.size() > limits::kPathReadingsMax)
        return Ambiguous("the path has too many readings");
    }
    return std::move(all_);
  }

 private:
  static std::unexpected<Error> Ambiguous(std::string_view reason) {
    return std::unexpected(Error(ErrorCode::kAmbiguousPath, reason));
  }

  Result<void> TakeSteps(const PathReading& from) {
    static constexpr std::array<std::pair<std::string_view, char>, 3> kEscapes{
        {{"%2F", '/'}, {"%5C", '/'}, {"%3B", ';'}}};
    for (const auto& [escape, byte] : kEscapes) {
      Add(Replaced(from.path, escape, byte), from.has_moved);
    }
    for (const auto step : {WithoutParameters, Cut, Merged, WithoutHost, WithTrimmedDots}) {
      Add(step(from.path), from.has_moved);
    }
    Add(WithEscapes(from.path, Plain::kDecoded), from.has_moved);
    auto decoded = Decoded(from.path);
    if (!decoded) {
      return Ambiguous(decoded.error().detail());
    }
    Add(std::move(*decoded), from.has_moved);
    auto resolved = Resolved(from.path);
    if (!resolved) return Ambiguous("the path has a dot segment that leads above its root");
    if (*resolved != from.path) Add(std::move(*resolved), true);
    return {};
  }

  void Add(std::string path, bool has_moved) {
    if (path.empty()) path = "/";
    const auto same = std::ranges::find(all_, path, &PathReading::path);
    if (same == all_.end()) {
      all_.push_back({std::move(path), has_moved});
    } else {
      same->has_moved = same->has_moved || has_moved;
    }
  }

  std::vector<PathReading> all_;
};

}  // namespace

Result<std::vector<PathReading>> PathReadings(std::string_view path) { return Closure(path).Run(); }

}  // namespace recourse
