#include "filters/credentials/echo_scrubber.h"

#include <algorithm>
#include <utility>

namespace recourse {

namespace {

// As json_encode of PHP has it.
std::string WithSlashesEscaped(const std::string& secret) {
  std::string escaped;
  for (const char c : secret) escaped += c == '/' ? std::string("\\/") : std::string(1, c);
  return escaped;
}

}  // namespace

EchoScrubber::EchoScrubber(std::vector<std::string> secrets) {
  for (std::string& secret : secrets) {
    if (secret.size() < limits::kScrubbedBytesMin) continue;
    for (std::string other : {WithSlashesEscaped(secret), PercentEncode(secret)}) {
      if (other != secret) secrets_.push_back(std::move(other));
    }
    secrets_.push_back(std::move(secret));
  }
}

void EchoScrubber::Clean(std::span<char> text) const {
  const std::string_view view(text.data(), text.size());
  for (const std::string& secret : secrets_) {
    for (auto at = view.find(secret); at != std::string_view::npos;
         at = view.find(secret, at + secret.size())) {
      std::ranges::fill(text.subspan(at, secret.size()), '*');
    }
  }
}

void EchoScrubber::Clean(HttpResponse& response) const {
  if (is_idle()) return;
  Clean(response.reason);
  for (auto& [name, value] : response.headers) Clean(value);
  Clean(response.body);
}

std::string_view EchoScrubber::Take(std::string_view piece, bool ends) {
  if (is_idle()) return piece;
  const auto is_in_piece = [piece](const std::string& secret) { return piece.contains(secret); };
  if (held_.empty() && std::ranges::none_of(secrets_, is_in_piece)) {
    const std::size_t kept = ends ? 0 : BeginningAtEnd(piece);
    held_ = piece.substr(piece.size() - kept);
    return piece.substr(0, piece.size() - kept);
  }
  out_ = std::exchange(held_, {});
  out_ += piece;
  Clean(out_);
  const std::size_t kept = ends ? 0 : BeginningAtEnd(out_);
  held_ = out_.substr(out_.size() - kept);
  out_.resize(out_.size() - kept);
  return out_;
}

std::size_t EchoScrubber::BeginningAtEnd(std::string_view text) const {
  std::size_t longest = 0;
  for (const std::string& secret : secrets_) {
    for (std::size_t size = std::min(secret.size() - 1, text.size()); size > longest; --size) {
      if (text.ends_with(std::string_view(secret).substr(0, size))) longest = size;
    }
  }
  return longest;
}

}  // namespace recourse
