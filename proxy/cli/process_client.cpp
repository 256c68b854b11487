#include "proxy/cli/process_client.h"

#include <fmt/format.h>
#include <poll.h>

#include <charconv>
#include <cstdint>
#include <functional>
#include <ostream>

#include "filters/call/flow_counts.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/base/json/json_object.h"
#include "proxy/cli/api_call.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

constexpr int kDrainLookEveryMs = 200;

std::uint64_t NumberIn(const Json& object, std::string_view name) {
  const std::string text = Printable(object, name);
  std::uint64_t number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string Time(std::uint64_t seconds) {
  if (seconds >= 2 * 86'400) return fmt::format("{} days", seconds / 86'400);
  if (seconds >= 2 * 3'600) return fmt::format("{} hours", seconds / 3'600);
  if (seconds >= 2 * 60) return fmt::format("{} minutes", seconds / 60);
  return fmt::format("{} s", seconds);
}

std::string Size(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1'024) return fmt::format("{} bytes", bytes);
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1'024 && unit + 1 < std::size(kUnits); ++unit) size /= 1'024;
  return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

// What a screen says of something that may wait for a human.
std::string Waiting(std::uint64_t count, std::string_view what, std::string_view command) {
  return count == 0 ? fmt::format("0 {}", what) : fmt::format("{} {} ({})", count, what, command);
}

std::string UnknownCallersText(const Json& status) {
  const Json* const unknown = status.Find("unknown_callers");
  if (unknown == nullptr) return {};
  const std::uint64_t reads = NumberIn(*unknown, "reads"), writes = NumberIn(*unknown, "writes");
  if (reads + writes == 0) return {};
  return fmt::format("{} writes and {} reads did not say who makes them (the policy's `callers`)",
                     writes, reads);
}

using PrintLine = std::function<void(std::string_view label, const std::string& text)>;

PrintLine LinesTo(std::ostream& out) {
  return [&out](std::string_view label, const std::string& text) {
    out << fmt::format("{:<13}{}\n", label, text);
  };
}

// Of old rows of a shared ledger that are still there; a line for each reason.
void TellKept(const Json& retention, const PrintLine& line) {
  if (Printable(retention, "nobody_removes") == "true") {
    line("retention",
         "nobody removes old rows: give the role of one pod the task keeper, with recourse ledger "
         "grant");
    return;
  }
  for (const Json& one : retention.Find("behind")->items) {
    const std::string operation = Printable(one, "operation");
    line("retention",
         fmt::format("{} old rows stay behind {}, {} old, which is open", Printable(one, "rows"),
                     operation.empty() ? "row " + Printable(one, "row") : "operation " + operation,
                     Time(NumberIn(one, "age_s"))));
  }
}

std::string AwayText(const Json& ledger) {
  const std::string counted = Printable(ledger, "counted");
  return fmt::format("refused: {}; what is told of all pods is {}", kLedgerAway,
                     counted.empty() ? "not known" : "as of " + counted);
}

// Whether it is in a database.
bool IsSharedLedger(const Json& ledger) {
  return ledger.Find("counted") != nullptr || Printable(ledger, "away") == "true";
}

// A database bounds itself: a shared ledger has no limit of its own.
std::string SpaceOf(const Json& ledger) {
  const bool is_known = !IsSharedLedger(ledger) || ledger.Find("counted") != nullptr;
  std::string text =
      fmt::format("{} rows, {} used", Printable(ledger, "rows"),
                  is_known ? Size(NumberIn(ledger, "used_bytes")) : "nobody knows how much");
  if (const auto limit = NumberIn(ledger, "size_limit_bytes"); limit > 0) {
    text += fmt::format(
        " of at most {}; the next {} are set aside, and more is as it is needed while the disk has "
        "room",
        Size(limit), Size(NumberIn(ledger, "free_bytes")));
  }
  return text;
}

// What waits, and for whom.
void TellWork(const Json& status, const PrintLine& line) {
  const Json &flows = *status.Find("flows"), &ledger = *status.Find("ledger");
  const bool is_known =
      Printable(ledger, "away") != "true" || !Printable(ledger, "counted").empty();
  const std::string running = Printable(ledger, "running");
  const std::string sent = running.empty() ? running : running + " being sent, ";
  if (!is_known) {
    for (const char* label : {"operations", "flows", "approvals"}) line(label, "not known");
    return;
  }
  line("operations", sent + Waiting(NumberIn(ledger, "uncertain"), "of unknown outcome",
                                    "recourse operations list --phase UNCERTAIN"));
  line(
      "flows",
      fmt::format("{} open, {} being undone, {}, {}", Printable(flows, "open"),
                  Printable(flows, "breaking"),
                  Waiting(NumberIn(flows, "parked"), "parked", "recourse flows list --parked"),
                  Waiting(NumberIn(flows, "stopped"), "stopped", "recourse flows list --stopped")));
  if (const std::string text = FlowCountsText(status); !text.empty()) line("", text);
  if (const std::string text = UnknownCallersText(status); !text.empty()) line("callers", text);
  line("approvals",
       Waiting(NumberIn(status, "approvals_pending"), "waiting", "recourse approvals list"));
}

void TellStreams(const Json& status, const PrintLine& line) {
  const Json* const streams = status.Find("streams");
  if (streams == nullptr) return;
  for (const Json& one : streams->items) {
    const std::string ledger = Printable(one, "ledger");
    line("stream",
         fmt::format("{}{} of {}: {}, {} open, {} rows, last seen {} ago",
                     ledger.empty() ? ledger : ledger + ":", Printable(one, "stream"),
                     Printable(one, "pod"), Printable(one, "state"), Printable(one, "running"),
                     Printable(one, "rows"), Time(NumberIn(one, "silent_s"))));
  }
}

void PrintStatus(std::ostream& out, const Json& status) {
  const Json &policy = *status.Find("policy"), &ledger = *status.Find("ledger");
  const PrintLine line = LinesTo(out);
  const bool is_settled = Printable(status, "settled") == "true";
  const std::string state = Printable(status, "state");
  line("recourse", fmt::format("{} ({}), up {}, since {}", Printable(status, "version"),
                               Printable(status, "commit"), Time(NumberIn(status, "uptime_s")),
                               Printable(status, "started")));
  line("state", state == "draining"
                    ? fmt::format("draining, {}", is_settled ? "settled" : "not settled yet")
                    : state);
  line("mode", Printable(status, "mode"));
  line("policy", fmt::format("{} from {}; last reload: {}", Printable(policy, "version"),
                             Printable(policy, "path"), Printable(policy, "last_reload")));
  line("writes", state == "draining" ? "refused: draining" : WritesOf(ledger));
  if (state == "draining" && Printable(ledger, "away") == "true") line("", AwayText(ledger));
  line("ledger", SpaceOf(ledger));
  TellWork(status, line);
  if (const Json* const missing = status.Find("missing_tools"); missing != nullptr) {
    for (const Json& one : missing->items) {
      line("policy", "names " + one.text + ", a tool that its MCP server does not list");
    }
  }
  if (const Json* const redeclared = status.Find("redeclared_tools"); redeclared != nullptr) {
    for (const Json& one : redeclared->items) {
      line("policy", "keeps what the MCP server declared of " + one.text +
                         " before: by now it declares other effects");
    }
  }
  TellStreams(status, line);
  if (const Json* const retention = status.Find("retention"); retention != nullptr) {
    TellKept(*retention, line);
  }
  line("work", fmt::format("{} connections, {} writes", Printable(status, "connections"),
                           Printable(status, "writes")));
  line("log level", Printable(status, "log_level"));
}

// Of several ledgers: what waits in all of them together, and how each is.
void PrintConsoleStatus(std::ostream& out, const Json& status) {
  const PrintLine line = LinesTo(out);
  line("recourse", fmt::format("{} ({}), a console of several ledgers",
                               Printable(status, "version"), Printable(status, "commit")));
  TellWork(status, line);
  for (const Json& ledger : status.Find("ledgers")->items) {
    const std::string name = Printable(ledger, "name"), why = Printable(ledger, "why");
    std::string text = fmt::format("{}: {}", name, Printable(ledger, "state"));
    if (!why.empty()) text += ": " + why;
    for (const Json& process : status.Find("processes")->items) {
      if (Printable(process, "ledger") != name) continue;
      text += fmt::format("; its process: {}, {}, {}, since {}", Printable(process, "version"),
                          Printable(process, "state"), Printable(process, "mode"),
                          Printable(process, "started"));
      if (Printable(process, "away") == "true") text += "; new writes are " + AwayText(process);
    }
    line("ledger", text);
  }
  TellStreams(status, line);
}

bool IsConsoleStatus(const Json& status) {
  for (const char* name : {"flows", "ledger", "ledgers", "processes"}) {
    if (status.Find(name) == nullptr) return false;
  }
  return true;
}

bool IsStatus(const Json& status) {
  for (const char* name : {"policy", "flows", "ledger"}) {
    if (status.Find(name) == nullptr) return false;
  }
  return true;
}

}  // namespace

std::string WritesOf(const Json& ledger) {
  if (const std::string why = Printable(ledger, "not_opened"); !why.empty()) {
    return "not recorded: " + why;
  }
  if (const std::string why = Printable(ledger, "refused"); !why.empty()) {
    return "refused by the ledger's database, until it takes one: " + why;
  }
  if (Printable(ledger, "away") == "true") return AwayText(ledger);
  if (Printable(ledger, "latched") == "true") {
    return "refused after a failed commit, until a restart";
  }
  if (Printable(ledger, "restored") == "true") {
    return "refused: restored from a backup, and what was done after it is not remembered; see to "
           "that, then run: recourse ledger accept --reason TEXT";
  }
  if (Printable(ledger, "full") == "true") return "refused: there is no room for another operation";
  if (Printable(ledger, "index_failing") == "true") {
    return "accepted until memory is full, as the key index cannot be written: is there room on "
           "the "
           "disk? the log says why";
  }
  return "accepted";
}

int ShowStatus(const ApiClient& client, std::ostream& out, std::ostream& err) {
  const auto status = Show(client, admin_paths::kStatus, out, err);
  if (!status) return status.error();
  if (IsStatus(*status)) {
    PrintStatus(out, *status);
  } else if (IsConsoleStatus(*status)) {
    PrintConsoleStatus(out, *status);
  } else {
    return Fail(err, kNotUnderstood);
  }
  return kExitOk;
}

int ShowLedger(const ApiClient& client, std::ostream& out, std::ostream& err) {
  const auto status = Show(client, admin_paths::kLedger, out, err);
  if (!status) return status.error();
  const auto line = [&](std::string_view label, std::string_view name, std::string_view unit) {
    out << fmt::format("{:<14}{}{}\n", label, Printable(*status, name), unit);
  };
  out << fmt::format("{:<14}{}\n", "writes", WritesOf(*status));
  // Much of it a database does not tell of, or has for all processes.
  const bool is_shared = IsSharedLedger(*status);
  if (!is_shared) line("first row", "first_id", "");
  line("last row", "last_id", "");
  line("operations", "operations", " ever begun");
  line("running", "running", "");
  if (!is_shared || status->Find("counted") != nullptr) {
    line("unknown", "uncertain", "");
    line("used", "used_bytes", " bytes");
  }
  if (is_shared) return kExitOk;
  line("tombstones", "tombstones", "");
  line("set aside", "free_bytes", " bytes; more is as it is needed while the disk has room");
  line("reserved", "reserve_bytes", " bytes for the outcomes of what runs or is unknown");
  line("limit", "size_limit_bytes", " bytes (--ledger-max)");
  line("oldest row", "oldest_row_s", " s");
  line("overdue", "retention_lag_s", " s");
  return kExitOk;
}

int DrainProcess(const ApiClient& client, std::optional<Millis> wait, std::ostream& out,
                 std::ostream& err) {
  const SystemClock clock;
  const MonoTime end = clock.Now() + wait.value_or(Millis{0});
  auto text = Call(client, "POST", admin_paths::kDrain);
  for (;;) {
    if (!text) return Fail(err, text.error());
    const auto status = ParseJson(*text);
    if (!status || !IsStatus(*status)) return Fail(err, kNotUnderstood);
    const bool is_settled = Printable(*status, "settled") == "true";
    if (is_settled || clock.Now() >= end) {
      if (client.json) {
        out << *text << "\n";
      } else {
        PrintStatus(out, *status);
      }
      if (is_settled || !wait) return kExitOk;
      return Fail(err,
                  "the time of --wait is over, and not everything has come to its end; "
                  "what waits for a human stays in the ledger, and the next start goes on");
    }
    (void)::poll(nullptr, 0, kDrainLookEveryMs);
    text = Call(client, "GET", admin_paths::kStatus);
  }
}

int ShowLogLevel(const ApiClient& client, const std::string& level, std::ostream& out,
                 std::ostream& err) {
  HttpRequest request{"GET", admin_paths::kLogLevel, {}, {}};
  if (!level.empty()) {
    request.method = "PUT";
    request.headers.emplace_back("Content-Type", "application/json");
    JsonObject(request.body).Text("level", level);
  }
  const auto answer = Show(client, request, out, err);
  if (!answer) return answer.error();
  out << Printable(*answer, "level") << "\n";
  return kExitOk;
}

}  // namespace recourse
