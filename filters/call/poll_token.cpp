#include "filters/call/poll_token.h"

#include "filters/ledger/model/row_id.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

constexpr std::size_t kSignatureBytes = 16, kKeyBytes = 8;

}  // namespace

std::string PollToken(const std::string& ledger_secret, std::uint64_t operation,
                      std::string_view caller) {
  const std::string number = PrintRowId(operation);
  std::string parts;
  AppendPart(parts, "recourse-poll-v1");
  AppendPart(parts, number);
  AppendPart(parts, caller);
  const Digest signature = HmacSha256(ledger_secret, parts);
  return number + "-" + ToHex(AsView(signature).substr(0, kSignatureBytes));
}

std::string PollQuery(const std::string& ledger_secret, std::uint64_t operation,
                      const Digest& key) {
  std::string parts;
  AppendPart(parts, "recourse-poll-key-v1");
  AppendPart(parts, PrintRowId(operation));
  AppendPart(parts, AsView(key));
  const Digest signature = HmacSha256(ledger_secret, parts);
  return "?of=" + ToHex(AsView(signature).substr(0, kKeyBytes));
}

bool IsPollOf(const std::string& ledger_secret, std::string_view query, std::uint64_t operation,
              const Digest& key) {
  if (!query.starts_with("?of=")) return true;  // an earlier version gave it
  return ConstantTimeEqual(query, PollQuery(ledger_secret, operation, key));
}

std::optional<std::uint64_t> ReadPollId(const std::string& ledger_secret, std::string_view id,
                                        std::string_view caller) {
  const auto dash = id.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto operation = ParseRowId(id.substr(0, dash));
  if (!operation) return std::nullopt;
  if (!ConstantTimeEqual(id, PollToken(ledger_secret, *operation, caller))) return std::nullopt;
  return operation;
}

}  // namespace recourse
