// Rows that are no events: marks, epochs, aliases, policies, orders and flows.
#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/rows/row_frame.h"

namespace recourse {

void AppendAnsweredRow(std::string& out, const RowHead& head,
                       std::span<const std::uint64_t> operations) {
  const std::size_t start = OpenRow(out, head);
  ByteWriter writer(out);
  writer.Int(static_cast<std::uint32_t>(operations.size()));
  for (const std::uint64_t operation : operations) writer.Int(operation);
  CloseRow(out, start);
}

void AppendEpochRow(std::string& out, const RowHead& head) { CloseRow(out, OpenRow(out, head)); }

void AppendVoidRow(std::string& out, const RowHead& head) { CloseRow(out, OpenRow(out, head)); }

void AppendAliasRow(std::string& out, const RowHead& head, const Alias& alias) {
  const std::size_t start = OpenRow(out, head);
  ByteWriter writer(out);
  writer.Raw(AsView(alias.key));
  writer.Int(alias.operation);
  if (alias.generation > 0) writer.Int(alias.generation);
  CloseRow(out, start);
}

void AppendPolicyRow(std::string& out, const RowHead& head, const PolicyChange& change) {
  const std::size_t start = OpenRow(out, head);
  ByteWriter writer(out);
  writer.Int(change.cause);
  writer.Text(change.version);
  writer.Raw(AsView(change.digest));
  CloseRow(out, start);
}

void AppendOrderRow(std::string& out, const RowHead& head, const OperatorOrder& order) {
  const std::size_t start = OpenRow(out, head);
  ByteWriter writer(out);
  writer.Text(order.what);
  writer.Text(order.who);
  writer.Text(order.reason);
  writer.Text(order.policy_version);
  writer.Raw(AsView(order.policy));
  CloseRow(out, start);
}

void AppendFlowRow(std::string& out, const RowHead& head, const FlowState& state) {
  const std::size_t start = OpenRow(out, head);
  AppendFlow(out, state);
  CloseRow(out, start);
}

bool DecodeAnswered(const RowView& row, std::vector<std::uint64_t>& operations) {
  if (row.head.kind != RowKind::kAnswered) return false;
  ByteReader reader(row.payload);
  operations.clear();
  const auto count = reader.Int<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    operations.push_back(reader.Int<std::uint64_t>());
  }
  return reader.at_end();
}

bool DecodeAlias(const RowView& row, Alias& alias) {
  if (row.head.kind != RowKind::kAlias) return false;
  ByteReader reader(row.payload);
  alias.key = ReadDigest(reader);
  alias.operation = reader.Int<std::uint64_t>();
  alias.generation = 0;
  if (reader.at_end()) return true;
  alias.generation = reader.Int<std::uint32_t>();
  return reader.at_end() && alias.generation > 0;
}

bool DecodePolicy(const RowView& row, PolicyChange& change) {
  if (row.head.kind != RowKind::kPolicy) return false;
  ByteReader reader(row.payload);
  change.cause = reader.Int<PolicyChange::Cause>();
  change.version = reader.Text();
  change.digest = ReadDigest(reader);
  return reader.at_end() && change.cause >= PolicyChange::Cause::kStart &&
         change.cause <= PolicyChange::Cause::kReload;
}

bool DecodeOrder(const RowView& row, OperatorOrder& order) {
  if (row.head.kind != RowKind::kOrder) return false;
  ByteReader reader(row.payload);
  order.what = reader.Text();
  order.who = reader.Text();
  order.reason = reader.Text();
  order.policy_version = reader.Text();
  order.policy = ReadDigest(reader);
  return reader.at_end();
}

bool DecodeFlow(const RowView& row, FlowState& state) {
  if (row.head.kind != RowKind::kFlow) return false;
  ByteReader reader(row.payload);
  if (!ReadFlow(reader, state)) return false;
  state.row = row.head.seq;
  return reader.at_end();
}

}  // namespace recourse
