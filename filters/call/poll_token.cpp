#include "filters/call/poll_token.h"

#include <charconv>

#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

constexpr std::size_t kSignatureBytes = 16;

}  // namespace

std::string PollToken(const std::string& ledger_secret, std::uint64_t operation,
                      std::string_view caller) {
  const std::string number = std::to_string(operation);
  std::string parts;
  AppendPart(parts, "recourse-poll-v1");
  AppendPart(parts, number);
  AppendPart(parts, caller);
  const Digest signature = HmacSha256(ledger_secret, parts);
  return number + "-" + ToHex(AsView(signature).substr(0, kSignatureBytes));
}

std::optional<std::uint64_t> ReadPollId(const std::string& ledger_secret, std::string_view id,
                                        std::string_view caller) {
  std::uint64_t operation = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), operation);
  if (error != std::errc() || end == id.data() + id.size() || *end != '-') return std::nullopt;
  if (!ConstantTimeEqual(id, PollToken(ledger_secret, operation, caller))) return std::nullopt;
  return operation;
}

}  // namespace recourse
