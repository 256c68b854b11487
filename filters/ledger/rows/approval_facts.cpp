#include "filters/ledger/model/approval_facts.h"

#include <utility>

#include "filters/ledger/rows/row_frame.h"
#include "proxy/base/bytes.h"

namespace recourse {
namespace {

constexpr std::uint8_t kIsLate = 1;
constexpr std::uint8_t kIsVoid = 2;
constexpr std::uint8_t kIsEdited = 1;
constexpr std::uint8_t kRepeats = 2;

void WriteDecision(ByteWriter& writer, const ApprovalDecision& decision) {
  writer.Int(decision.kind);
  writer.Int(static_cast<std::uint8_t>((decision.is_late ? kIsLate : 0) |
                                       (decision.is_void ? kIsVoid : 0)));
  writer.Text(decision.who);
  writer.Text(decision.reason);
  writer.Int(decision.wall_ms);
  writer.Raw(AsView(decision.digest));
}

bool ReadDecision(ByteReader& reader, ApprovalDecision& decision) {
  decision.kind = reader.Int<ApprovalDecision::Kind>();
  const auto flags = reader.Int<std::uint8_t>();
  decision.is_late = (flags & kIsLate) != 0;
  decision.is_void = (flags & kIsVoid) != 0;
  decision.who = reader.Text();
  decision.reason = reader.Text();
  decision.wall_ms = reader.Int<std::int64_t>();
  decision.digest = ReadDigest(reader);
  return decision.kind >= ApprovalDecision::Kind::kApproved &&
         decision.kind <= ApprovalDecision::Kind::kRejected && flags <= (kIsLate | kIsVoid);
}

}  // namespace

void WriteApproval(ByteWriter& writer, const ApprovalFacts& facts) {
  writer.Int(facts.needed);
  writer.Int(static_cast<std::uint16_t>(facts.by.size()));
  for (const std::string& name : facts.by) writer.Text(name);
  writer.Int(facts.expires_ms);
  writer.Int(facts.asked_ms);
  writer.Int(facts.asked_row);
  writer.Int(facts.asked_lived_ms);
  writer.Raw(AsView(facts.policy));
  writer.Raw(AsView(facts.digest));
  writer.Text(facts.why);
  writer.Int(static_cast<std::uint8_t>((facts.original_body ? kIsEdited : 0) |
                                       (facts.repeats != 0 ? kRepeats : 0)));
  if (facts.original_body) writer.Text(*facts.original_body);
  if (facts.repeats != 0) writer.Int(facts.repeats);
  writer.Int(static_cast<std::uint16_t>(facts.decisions.size()));
  for (const ApprovalDecision& decision : facts.decisions) WriteDecision(writer, decision);
}

bool ReadApproval(ByteReader& reader, ApprovalFacts& facts) {
  facts = ApprovalFacts();
  facts.needed = reader.Int<std::uint16_t>();
  const auto names = reader.Int<std::uint16_t>();
  for (int i = 0; i < names && reader.ok(); ++i) facts.by.emplace_back(reader.Text());
  facts.expires_ms = reader.Int<std::int64_t>();
  facts.asked_ms = reader.Int<std::int64_t>();
  facts.asked_row = reader.Int<std::uint64_t>();
  facts.asked_lived_ms = reader.Int<std::int64_t>();
  facts.policy = ReadDigest(reader);
  facts.digest = ReadDigest(reader);
  facts.why = reader.Text();
  const auto flags = reader.Int<std::uint8_t>();
  if (flags > (kIsEdited | kRepeats)) return false;
  if ((flags & kIsEdited) != 0) facts.original_body = reader.Text();
  if ((flags & kRepeats) != 0) facts.repeats = reader.Int<std::uint64_t>();
  const auto decisions = reader.Int<std::uint16_t>();
  for (int i = 0; i < decisions && reader.ok(); ++i) {
    ApprovalDecision decision;
    if (!ReadDecision(reader, decision)) return false;
    facts.decisions.push_back(std::move(decision));
  }
  return reader.at_end() && facts.needed > 0;
}

}  // namespace recourse
