// The paths of the admin API, each here alone: for the table of endpoints, for who answers and for
// who asks.
#pragma once

#include <string>
#include <string_view>

namespace recourse::admin_paths {

// "{id}" stands for one segment.
inline constexpr char kUi[] = "/";
inline constexpr char kUiFile[] = "/ui/{name}";
inline constexpr char kOpenApi[] = "/openapi.json";
inline constexpr char kSession[] = "/session";
inline constexpr char kVersion[] = "/version";
inline constexpr char kStatus[] = "/status";
inline constexpr char kDrain[] = "/drain";
inline constexpr char kLogLevel[] = "/log-level";
inline constexpr char kReport[] = "/report";
inline constexpr char kStream[] = "/stream";

inline constexpr char kApprovals[] = "/approvals";
inline constexpr char kApproval[] = "/approvals/{operation}";
inline constexpr char kApprove[] = "/approvals/{operation}/approve";
inline constexpr char kReject[] = "/approvals/{operation}/reject";

inline constexpr char kEvents[] = "/events";
inline constexpr char kEvent[] = "/events/{id}";
inline constexpr char kOperations[] = "/operations";
inline constexpr char kSettle[] = "/operations/{operation}/settle";

inline constexpr char kFlows[] = "/flows";
inline constexpr char kCloseStopped[] = "/flows/close";
inline constexpr char kFlow[] = "/flows/{id}";
inline constexpr char kFlowPreview[] = "/flows/{id}/preview";
inline constexpr char kFlowCancel[] = "/flows/{id}/cancel";
inline constexpr char kFlowClose[] = "/flows/{id}/close";
inline constexpr char kFlowResolve[] = "/flows/{id}/resolve";
inline constexpr char kFlowRetry[] = "/flows/{id}/retry";
inline constexpr char kFlowUndo[] = "/flows/{id}/undo";

inline constexpr char kLedger[] = "/ledger";
inline constexpr char kLedgerRows[] = "/ledger/rows";
inline constexpr char kLedgerVerify[] = "/ledger/verify";
inline constexpr char kLedgerAccept[] = "/ledger/accept";
inline constexpr char kLedgerBackup[] = "/ledger/backup";

inline constexpr char kPolicy[] = "/policy";
inline constexpr char kPolicyExplain[] = "/policy/explain";
inline constexpr char kPolicyReload[] = "/policy/reload";
inline constexpr char kPolicyTools[] = "/policy/tools";

// `pattern` with `value`, percent-encoded, in its place.
std::string FillPlace(std::string_view pattern, std::string_view value);
// What stands in the place of `pattern` in a `path` that it matches, as it came.
std::string_view PlaceIn(std::string_view pattern, std::string_view path);

}  // namespace recourse::admin_paths
