#include "proxy/admin/access/endpoints.h"

#include "proxy/admin/access/admin_paths.h"
#include "proxy/base/http/own_port.h"

namespace recourse {
namespace {

namespace paths = admin_paths;
using Need = Endpoint::Need;
using Param = Endpoint::Param;
using Params = std::span<const Param>;
using Docs = Endpoint::Docs;
using Content = Endpoint::Content;

constexpr std::string_view kText = Param().schema;
constexpr std::string_view kTrueOrFalse = R"({"enum": ["true", "false"]})";
constexpr std::string_view kTrue = R"({"const": "true"})";
constexpr std::string_view kPage =
    R"({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100})";
constexpr std::string_view kFlowOrPlan = R"({"anyOf": [{"$ref": "#/components/schemas/Flow"}, )"
                                         R"({"$ref": "#/components/schemas/FlowPreview"}]})";
constexpr Param kPod = {"pod", kText, "Whose newest row that pod wrote, of a shared ledger"};
constexpr Param kAfter = {"after", "Id", "The `next` of the page before"};
constexpr Param kLimit = {"limit", kPage};
constexpr Param kFlowId = {"id", kText, "Its number, or its flow id where only one flow has it",
                           Param::In::kPath};
constexpr Param kFile[] = {{"name", kText, "", Param::In::kPath}};
constexpr Param kApprovalsQuery[] = {
    {"tool"}, {"caller"}, {"by", kText, "A name or group that may decide"}, kPod, kAfter, kLimit};
constexpr Param kOperation[] = {{"operation", "Id", "", Param::In::kPath}};
constexpr Param kEventsQuery[] = {
    {"trace", R"({"type": "string", "pattern": "^[0-9a-f]{32}$"})"},
    {"flow"},
    {"tool"},
    {"status", "Status"},
    {"phase", "Phase"},
    {"operation", "Id"},
    {"pod", kText, "Rows that this pod wrote, of a shared ledger"},
    kAfter,
    {"up_to", "Id", "The last row that is of interest"},
    {"back", kPage, "Of all these the last so many rows; `up_to` their `older` goes on"},
    kLimit,
    {"lines", kTrue, "One JSON object per line, for exports"},
    {"answers", kTrue, "With lines: also the kept requests and answers, without credentials"},
    {"flows", kTrue, "Also the moves of flows"},
    {"follow", kText,
     "What came after the `next` of such an answer, at whatever pod, as lines; first: now"}};
constexpr Param kRow[] = {{"id", "Id", "", Param::In::kPath}};
constexpr Param kFlowsQuery[] = {
    {"phase", "FlowPhase"},
    {"stopped", kTrueOrFalse, "Only those that their deadline stopped unfinished, or none of them"},
    {"name", kText, "Of the policy's flow"},
    {"reason", kText, "A part of the reason"},
    kPod,
    kLimit,
    kAfter,
    {"all", kTrue, "The newest, over or not; reads the whole log"}};
constexpr Param kFlow[] = {kFlowId};
constexpr Param kRowsQuery[] = {
    {"after", "Id", "Rows with a larger number"},
    {"up_to", "Id", "And none after this one"},
    {"limit", R"({"type": "integer", "minimum": 1, "maximum": 1000})", "At most so many"}};
constexpr Param kOperationsQuery[] = {
    {"trace"},
    {"tool"},
    {"flow"},
    {"caller"},
    {"value", kText, "The external reference, or the value of a kept field of the answer"},
    {"status", "Status"},
    {"phase", "Phase"},
    {"observed", kTrueOrFalse, "Whether observe mode saw it, and nothing waits for it"},
    kPod,
    {"before", "Id", "The `older` of a page: goes on to older ones"},
    {"after", "Id", "The `newer` of a page: goes on to newer ones"},
    {"limit", R"({"type": "integer", "minimum": 1, "maximum": 200})"}};
constexpr Param kExplainQuery[] = {{"call", kText, "POST http://host/path, or POST backend /path"}};
constexpr Param kReportQuery[] = {
    {"since", kText, "A duration before now such as 24h, or ms since 1970"},
    {"until", kText, "The same"}};
constexpr Param kStreamParams[] = {
    {"after", kText, "Begin after what this message was the id of"},
    {"Last-Event-ID", kText, "As `after`; wins over it", Param::In::kHeader}};
constexpr Param kCloseQuery[] = {{"name", kText, "Only those of the policy's flow"},
                                 {"reason", kText, "Only those whose reason has this part"},
                                 {"limit", kPage, "The oldest, at most so many"}};
constexpr Param kUndoParams[] = {kFlowId,
                                 {"preview", kTrue, "Send nothing; answer what would be sent"}};
constexpr Param kSettled[] = {
    {"operation", "Id", "Its number, or that of one of its events", Param::In::kPath}};

constexpr Content kHtml[] = {{"text/html"}};
constexpr Content kFiles[] = {{"text/css"}, {"text/javascript"}, {"text/html"}, {"image/svg+xml"}};
constexpr Content kDocument[] = {{"application/json"}};
constexpr Content kBytes[] = {{"application/octet-stream"}};
constexpr Content kEventLines[] = {{"application/x-ndjson", "EventLine"}};
constexpr Content kRowLines[] = {{"application/x-ndjson", "ChainRow"}};
constexpr Content kStream[] = {{"text/event-stream", "StreamMessage"}};

constexpr Docs Gives(std::string_view answer, std::string_view schema, Params params = {},
                     std::string_view problems = "") {
  return {.params = params, .answer = answer, .schema = schema, .problems = problems};
}
constexpr Docs Sends(std::string_view answer, std::span<const Content> contents, Params params = {},
                     std::string_view problems = "") {
  return {.params = params, .answer = answer, .contents = contents, .problems = problems};
}
constexpr Docs Also(std::span<const Content> contents, Docs docs) {
  docs.contents = contents;
  return docs;
}
constexpr Docs With(std::string_view header, Docs docs) {
  docs.header = header;
  return docs;
}
constexpr Docs Takes(std::string_view body, Docs docs) {
  docs.body = body;
  return docs;
}
constexpr Docs MayTake(std::string_view body, Docs docs) {
  docs.may_lack_body = true;
  return Takes(body, docs);
}
constexpr Docs Refuses(std::string_view schema, Docs docs) {
  docs.refusal = schema;
  return docs;
}
constexpr Endpoint Row(std::string_view method, std::string_view path, Need need,
                       std::string_view id, std::string_view summary, const Docs& docs) {
  return {method, path, need, id, summary, docs};
}

constexpr Endpoint kEndpoints[] = {
    Row("GET", paths::kUi, Need::kNobody, "ui", "The web UI",
        With("ETag", Sends("Its page", kHtml))),
    Row("GET", paths::kUiFile, Need::kNobody, "uiFile", "A file of the web UI",
        With("ETag", Sends("The file", kFiles, kFile, "404"))),
    Row("GET", paths::kOpenApi, Need::kNobody, "openapi", "This document",
        With("ETag", Sends("OpenAPI 3.1", kDocument))),
    Row("GET", kPortPath, Need::kNobody, "port",
        "That this is the admin port; commands ask before they send a token",
        Gives("The port's name", "Port")),
    Row("GET", paths::kApprovals, Need::kRead, "listApprovals",
        "Calls that wait for a human, oldest first",
        Gives("A page", "ApprovalPage", kApprovalsQuery)),
    Row("GET", paths::kApproval, Need::kRead, "showApproval", "One call with its whole request",
        Gives("The call, and what was decided", "Approval", kOperation, "404")),
    Row("GET", paths::kEvents, Need::kRead, "listEvents", "Rows of the log, oldest first",
        Also(kEventLines, Gives("A page, oldest first", "EventPage", kEventsQuery))),
    Row("GET", paths::kEvent, Need::kRead, "showEvent", "One row: an event, or a move of a flow",
        Gives("The row", "Row", kRow, "404")),
    Row("GET", paths::kFlows, Need::kRead, "listFlows", "Flows that are not over, oldest first",
        Gives("A page", "FlowPage", kFlowsQuery)),
    Row("GET", paths::kFlow, Need::kRead, "showFlow",
        "A flow with its steps and their undo requests",
        Gives("The flow", "Flow", kFlow, "404 409")),
    Row("GET", paths::kFlowPreview, Need::kRead, "previewUndo",
        "What undoing the flow would send, in order",
        Gives("The plan; nothing is sent", "FlowPreview", kFlow, "404 409")),
    Row("GET", paths::kLedger, Need::kRead, "showLedger", "How full and how old the ledger is",
        Gives("Its state", "Ledger")),
    Row("GET", paths::kLedgerRows, Need::kRead, "listRows",
        "Rows of the hash chain with their bytes, a page of JSON lines",
        Sends("One row a line, in order and without a gap; nothing: there are no more", kRowLines,
              kRowsQuery)),
    Row("GET", paths::kLogLevel, Need::kRead, "showLogLevel", "How much the process logs",
        Gives("The lowest level that is logged", "LogLevel")),
    Row("GET", paths::kOperations, Need::kRead, "listOperations",
        "Operations by what they are now, newest first",
        Gives("A page", "OperationPage", kOperationsQuery)),
    Row("GET", paths::kPolicy, Need::kRead, "showPolicy",
        "What is in force, and what the policies before left behind",
        Gives("The state of the policy", "Policy")),
    Row("GET", paths::kPolicyExplain, Need::kRead, "explainCall",
        "How one call would be treated, and why",
        Gives("The reading", "Explanation", kExplainQuery)),
    Row("GET", paths::kPolicyTools, Need::kRead, "listTools",
        "The tools, backends and flows of the policy in force",
        Gives("What it says", "PolicyTools")),
    Row("GET", paths::kReport, Need::kRead, "report",
        "Duplicates, unknown outcomes, writes without undo, calls that no tool matches",
        Gives("The report", "Report", kReportQuery)),
    Row("GET", paths::kStatus, Need::kRead, "status", "How the process is",
        Gives("Its state", "ProcessStatus")),
    Row("GET", paths::kStream, Need::kRead, "stream", "Events as they are appended",
        Sends("Server-sent events: `hello`, then `event` for each row", kStream, kStreamParams)),
    Row("GET", paths::kVersion, Need::kRead, "version", "Which version runs, under which policy",
        Gives("The versions", "Version")),
    Row("POST", paths::kLedgerVerify, Need::kRead, "verifyLedger",
        "Verify every record and the whole hash chain", Gives("What was found", "Verified")),
    Row("POST", paths::kApprove, Need::kApprove, "approve",
        "Have that very request sent, or that body instead",
        Takes("ApproveOrder",
              Gives("The call as it is then", "Approval", kOperation, "404 409 410 422"))),
    Row("POST", paths::kReject, Need::kApprove, "reject", "Have it never sent",
        Takes("RejectOrder",
              Gives("The call as it is then", "Approval", kOperation, "404 409 410"))),
    Row("POST", paths::kPolicyExplain, Need::kRead, "explainWholeCall",
        "The same of a call with headers and a body",
        Takes("ExplainOrder", Gives("The reading", "Explanation"))),
    Row("POST", paths::kDrain, Need::kRepair, "drain",
        "Take no more calls, and finish what was begun; flows are undone meanwhile",
        Gives("The state then; ask GET /status whether it is settled", "ProcessStatus")),
    Row("POST", paths::kCloseStopped, Need::kRepair, "closeStoppedFlows",
        "Close the flows that their deadline stopped unfinished: what was done stays",
        Takes("FlowOrder", Gives("Those that are closed now", "ClosedFlows", kCloseQuery, "409"))),
    Row("POST", paths::kFlowCancel, Need::kRepair, "cancelFlow",
        "End an open flow; what was done is undone",
        MayTake("FlowOrder", Gives("The flow as it is then", "Flow", kFlow, "404 409"))),
    Row("POST", paths::kFlowClose, Need::kRepair, "closeFlow",
        "End an open or a parked flow; what was done stays",
        MayTake("FlowOrder", Gives("The flow as it is then", "Flow", kFlow, "404 409"))),
    Row("POST", paths::kFlowResolve, Need::kRepair, "resolveStep",
        "Say what became of a step of a parked flow",
        Takes("StepOrder", Gives("The flow as it is then", "Flow", kFlow, "404 409"))),
    Row("POST", paths::kFlowRetry, Need::kRepair, "retryFlow",
        "Let a parked flow go on; what was stuck is tried once more",
        MayTake("FlowOrder", Gives("The flow as it is then", "Flow", kFlow, "404 409"))),
    Row("POST", paths::kFlowUndo, Need::kRepair, "undoFlow", "Undo a finished flow",
        MayTake("FlowOrder",
                Gives("The flow as it is then; with preview=true what undoing it would send",
                      kFlowOrPlan, kUndoParams, "404 409"))),
    Row("POST", paths::kLedgerAccept, Need::kRepair, "acceptLedger",
        "Let new writes through after a restore",
        Takes("AcceptOrder", Gives("Its state then", "Ledger"))),
    Row("POST", paths::kLedgerBackup, Need::kRepair, "backupLedger",
        "A consistent copy of the running ledger", Sends("The file", kBytes, {}, "409")),
    Row("POST", paths::kSettle, Need::kSettle, "settleOperation",
        "Say what became of an operation of unknown outcome, whatever its flow is at",
        Takes("SettleOrder", Gives("Its last event; the same word once more changes nothing",
                                   "Event", kSettled, "404 409"))),
    Row("POST", paths::kPolicyReload, Need::kRepair, "reloadPolicy", "Read the policy's files now",
        Refuses("ReloadProblem", Gives("What is in force now", "Reload"))),
    Row("PUT", paths::kLogLevel, Need::kRepair, "setLogLevel",
        "Change how much the process logs, until it ends",
        Takes("LogLevel", Gives("What it is then", "LogLevel"))),
    Row("DELETE", paths::kSession, Need::kAnyOperator, "endSession",
        "End the session that the request came by", Sends("It has ended", {})),
    Row("GET", paths::kSession, Need::kAnyOperator, "showSession", "Who you are",
        Gives("You", "Session")),
    Row("POST", paths::kSession, Need::kAnyOperator, "beginSession",
        "Begin a session with a cookie",
        With("Set-Cookie", Gives("You, with the session's csrf", "Session"))),
};

// "/a/b": "/a", and "/b" is left.
std::string_view TakeSegment(std::string_view& path) {
  const auto end = path.find('/', 1);
  const std::string_view segment = path.substr(0, end);
  path = end == std::string_view::npos ? std::string_view() : path.substr(end);
  return segment;
}

bool Matches(std::string_view pattern, std::string_view path) {
  if (!path.starts_with('/')) return false;
  while (!pattern.empty() && !path.empty()) {
    const std::string_view wanted = TakeSegment(pattern);
    const std::string_view given = TakeSegment(path);
    if (wanted.starts_with("/{") ? given.size() < 2 : wanted != given) return false;
  }
  return pattern.empty() && path.empty();
}

}  // namespace

std::string Endpoint::pattern() const {
  std::string pattern;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view segment = TakeSegment(rest);
    pattern += segment.starts_with("/{") ? "/*" : segment;
  }
  return pattern;
}

std::string Endpoint::UnknownParameter(std::string_view name) const {
  // Who means another one must not be answered by this.
  if (name == "ledger") return "'ledger' is for a console of several ledgers";
  std::string known;
  for (const Param& param : docs.params) {
    if (param.in != Param::In::kQuery) continue;
    if (param.name == name) return {};
    known.append(known.empty() ? "" : ", ").append(param.name);
  }
  const bool is_list = known.find(',') != std::string::npos;
  return known.empty() ? known
                       : "'" + std::string(name) + "' is not " + (is_list ? "one of " : "") + known;
}

std::span<const Endpoint> AdminEndpoints() { return kEndpoints; }

std::expected<const Endpoint*, std::string> FindEndpoint(std::string_view method,
                                                         std::string_view path) {
  std::string methods;
  for (const Endpoint& endpoint : kEndpoints) {
    if (!Matches(endpoint.path, path)) continue;
    if (endpoint.method == method) return &endpoint;
    methods.append(methods.empty() ? "" : ", ").append(endpoint.method);
  }
  return std::unexpected(methods);
}

std::string_view NameOf(Need need) {
  switch (need) {
    case Need::kRead:
      return "read";
    case Need::kApprove:
      return "approve";
    case Need::kRepair:
      return "repair";
    case Need::kSettle:
      return "settle";
    case Need::kAnyOperator:
      return "any operator";
    case Need::kNobody:
      return "nobody";
  }
  return "nobody";
}

bool Allows(Need need, const Roles& roles) {
  switch (need) {
    case Need::kRead:
      return roles.Has(Role::kRead);
    case Need::kApprove:
      return roles.Has(Role::kApprove);
    case Need::kRepair:
      return roles.Has(Role::kRepair);
    case Need::kSettle:
      return roles.Has(Role::kSettle) || roles.Has(Role::kRepair);
    case Need::kAnyOperator:
    case Need::kNobody:
      return true;
  }
  return false;
}

}  // namespace recourse
