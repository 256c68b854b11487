#include "filters/ledger/queries/audit.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// False: the payload is not what its kind says.
bool Tell(const RowView& row, RowDecryptor& opener, LoggedRow& logged) {
  switch (row.head.kind) {
    case RowKind::kEvent: {
      Event event;
      if (!DecodeEvent(row, AnswerPart::kLoad, opener, event)) return false;
      logged.told = std::move(event);
      return true;
    }
    case RowKind::kFlow: {
      FlowState state;
      if (!DecodeFlow(row, state)) return false;
      logged.told = MovedOf(row.head, std::move(state));
      return true;
    }
    case RowKind::kPolicy:
      return DecodePolicy(row, logged.told.emplace<PolicyChange>());
    case RowKind::kOrder:
      return DecodeOrder(row, logged.told.emplace<OperatorOrder>());
    default:
      return true;
  }
}

}  // namespace

std::string_view NameOf(RowKind kind) {
  switch (kind) {
    case RowKind::kEvent:
      return "event";
    case RowKind::kAnswered:
      return "answered";
    case RowKind::kEpoch:
      return "epoch";
    case RowKind::kAlias:
      return "alias";
    case RowKind::kPolicy:
      return "policy";
    case RowKind::kRetired:
      return "retired";
    case RowKind::kFlow:
      return "flow";
    case RowKind::kOrder:
      return "order";
    case RowKind::kVoid:
      return "void";
  }
  return "";
}

Result<std::vector<LoggedRow>> ListRows(EventLog& log, const SharedKeys& keys, std::uint64_t after,
                                        std::uint64_t up_to, std::size_t limit) {
  std::vector<LoggedRow> rows;
  const std::uint64_t first = log.base().first_seq;
  // 0 is before every stream's first row.
  if (after == 0) after = PackRowId({.stream = UnpackRowId(first).stream});
  const std::uint64_t last = std::min(log.last_seq(), up_to);
  if (const auto away = log.away()) return std::unexpected(*away);
  if (after >= last) return rows;
  const std::uint64_t most = std::min<std::uint64_t>(
      {std::clamp(limit, std::size_t{1}, limits::kAdminPageMax), last - after});
  RowDecryptor opener(keys);
  std::uint64_t next = after + 1;
  std::size_t bytes_read = 0;
  const auto take = [&](std::uint64_t seq, std::string_view bytes) {
    const auto row = ParseRow(bytes);
    bytes_read += bytes.size();
    if (seq != next || !row || (!rows.empty() && bytes_read > limits::kAdminPageBytesMax)) {
      return false;
    }
    LoggedRow logged{.head = row->head, .bytes = std::string(bytes)};
    if (!Tell(*row, opener, logged)) return false;
    rows.push_back(std::move(logged));
    ++next;
    return true;
  };
  const bool read = log.NewReader()->Scan(next, static_cast<std::size_t>(most), take);
  if (read && !rows.empty()) return rows;
  if (const auto away = log.away()) return std::unexpected(*away);
  if (log.base().first_seq > after + 1) {
    return std::unexpected(Error(ErrorCode::kLedgerUnavailable,
                                 "retention has removed the rows that were asked for",
                                 Delivery::kNotSent));
  }
  return std::unexpected(Unreadable(next));
}

}  // namespace recourse
