#include "proxy/cli/api_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <ostream>
#include <ranges>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/ledger/lmdb/backup_file.h"
#include "filters/ledger/model/missing_key.h"
#include "filters/ledger/model/row_id.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/log/terminal_text.h"
#include "proxy/cli/api_call.h"
#include "proxy/cli/ledger_states.h"
#include "proxy/cli/table.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"
#include "proxy/net/beast/http_client.h"
#include "proxy/report/report_text.h"

namespace recourse {
namespace {

constexpr int kBackupTimeoutSeconds = 60;  // without a byte
constexpr int kLookEveryMs = 1'000;
// More than can come between two looks.
constexpr std::size_t kFollowedMost = 20'000;
constexpr int kRefused = 422;  // a policy that was not taken

Result<Json> ParsePage(const std::string& text) {
  auto page = ParseJson(text);
  if (!page || page->Find("events") == nullptr) {
    return std::unexpected(Error(ErrorCode::kInternal, kNotUnderstood));
  }
  return page;
}

constexpr Column kEventColumns[] = {
    {"EVENT", 8, Column::Kind::kWhole, 0, Column::Side::kRight},
    {"TIME", 24, Column::Kind::kTime},
    {"STATUS", 11, Column::Kind::kExtra, 11},
    {"PHASE", 11, Column::Kind::kWhole},
    {"TRY", 3, Column::Kind::kExtra, 3, Column::Side::kRight},
    {"TOOL", 22, Column::Kind::kText, 16},
    {"EXTERNAL REF", 14, Column::Kind::kText, 8},
    {"TRACE", 32, Column::Kind::kText, 9},
};

// What an event means to its flow.
std::string NoteOn(const Json& event) {
  const std::string cause = Printable(event, "cause");
  if (cause == "human" || cause == "too_late") return "  " + Printable(event, "detail");
  return cause == "undone" ? "  undone" : std::string();
}

void AddFlowEvent(PodTable& table, const Json& moved) {
  std::string reason = Printable(moved, "reason");
  if (reason.empty()) reason = Printable(moved, "cause");
  table.Row(moved,
            {Printable(moved, "event_id"), Printable(moved, "time"), "flow",
             Printable(moved, "phase"), "", Printable(moved, "flow_name"),
             "flow " + Printable(moved, "flow_number"), Printable(moved, "flow") + "  " + reason});
}

void AddEventRow(PodTable& table, const Json& event) {
  if (Printable(event, "kind") == "flow") {
    AddFlowEvent(table, event);
    return;
  }
  table.Row(event,
            {Printable(event, "event_id"), Printable(event, "time"), Printable(event, "status"),
             Printable(event, "phase"), Printable(event, "attempt"), ToolOrUndo(event),
             Printable(event, "external_ref"), Printable(event, "trace_id") + NoteOn(event)});
}

std::string EventsTarget(const EventQuery& query, const std::string& after, std::uint64_t limit) {
  std::string target = admin_paths::kEvents + ("?flows=true&after=" + PercentEncode(after)) +
                       "&limit=" + std::to_string(limit);
  if (!query.trace.empty()) target += "&trace=" + PercentEncode(query.trace);
  if (!query.tool.empty()) target += "&tool=" + PercentEncode(query.tool);
  if (!query.flow.empty()) target += "&flow=" + PercentEncode(query.flow);
  if (!query.status.empty()) target += "&status=" + PercentEncode(query.status);
  if (!query.phase.empty()) target += "&phase=" + PercentEncode(query.phase);
  if (!query.pod.empty()) target += "&pod=" + PercentEncode(query.pod);
  return target;
}

// Of an id as the API tells it; 0: it is none.
std::uint64_t ToId(std::string_view text) { return ParseRowId(text).value_or(0); }

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The log is read backwards, a page of rows at a time.
int ListNewest(const ApiClient& client, const EventQuery& query, std::ostream& out,
               std::ostream& err) {
  const std::string rows = EventsTarget(query, query.after, kAdminPageMax) +
                           "&lines=true&back=" + std::to_string(kAdminPageMax);
  std::uint64_t shown = 0;
  bool is_cut = false, has_more = true;
  PodTable table(out, kEventColumns);
  LedgerStates states(err);
  if (client.json) out << '[';
  for (std::string target = rows; has_more && !is_cut;) {
    const auto text = Call(client, "GET", target);
    if (!text) return Fail(err, text.error());
    std::vector<std::string_view> lines = LinesOf(*text);
    if (lines.empty()) return Fail(err, kNotUnderstood);
    const Json tail = ParseJson(lines.back()).value_or(Json());
    states.Tell(tail);
    const std::string older = Printable(tail, "older");
    lines.pop_back();
    target = rows + "&up_to=" + PercentEncode(older);
    has_more = !older.empty();
    for (const std::string_view line : lines | std::views::reverse) {
      is_cut = shown == query.limit;
      if (is_cut) break;
      if (client.json) {
        out << (shown == 0 ? "" : ",") << line;
      } else {
        AddEventRow(table, ParseJson(line).value_or(Json()));
      }
      ++shown;
    }
    table.Flush();
  }
  if (client.json) {
    out << "]\n";
  } else if (shown == 0) {
    out << "none\n";
  }
  if (is_cut) {
    err << "recourse: the newest " << shown << " are shown; a larger --limit shows older ones\n";
  }
  return states.exit_code();
}

// Prints events for whoever follows them.
class Follower {
 public:
  Follower(const ApiClient& client, const EventQuery& query, std::ostream& out, std::ostream& err)
      : client_(client),
        query_(query),
        out_(out),
        err_(err),
        table_(out, kEventColumns),
        states_(err) {}

  // All there are, and then what comes, at whatever pod.
  int Run() {
    const auto now = Ask("now");
    if (!now) return Fail(err_, now.error());
    if (!client_.json) table_.Expect(client_);
    for (std::string after = query_.after; !after.empty();) {
      const auto text =
          Call(client_, "GET", EventsTarget(query_, after, kAdminPageMax) + "&lines=true");
      if (!text) return Fail(err_, text.error());
      after = Printable(Print(*text), "next");
    }
    for (std::string place = Printable(Print(*now), "next");;) {
      const auto text = Ask(place);
      if (!text) return Fail(err_, text.error());
      const Json tail = Print(*text);
      place = Printable(tail, "next");
      if (Printable(tail, "gap") == "true") {
        err_ << "recourse: more came than can be followed; the rest: recourse events list\n";
      }
      if (Printable(tail, "more") != "true") (void)::poll(nullptr, 0, kLookEveryMs);
    }
  }

 private:
  FileResult<std::string> Ask(const std::string& place) const {
    return Call(client_, "GET",
                EventsTarget(query_, "0", kAdminPageMax) + "&follow=" + PercentEncode(place));
  }

  // Gives the last line, which is about where to go on.
  Json Print(const std::string& text) {
    std::vector<std::string_view> lines = LinesOf(text);
    if (lines.empty()) return {};
    const Json tail = ParseJson(lines.back()).value_or(Json());
    states_.Tell(tail);
    lines.pop_back();
    for (const std::string_view line : lines) {
      const Json event = ParseJson(line).value_or(Json());
      if (!IsNew(Printable(event, "event_id"))) continue;
      if (client_.json) {
        out_ << line << "\n";
      } else {
        AddEventRow(table_, event);
      }
    }
    table_.Flush();
    out_.flush();
    return tail;
  }

  // What was listed last may also have come since one began to list.
  bool IsNew(const std::string& id) {
    if (!known_.insert(id).second) return false;
    order_.push_back(id);
    if (order_.size() > kFollowedMost) {
      known_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }

  const ApiClient& client_;
  const EventQuery& query_;
  std::ostream& out_;
  std::ostream& err_;
  PodTable table_;
  LedgerStates states_;
  std::set<std::string> known_;
  std::deque<std::string> order_;  // of what is known
};

}  // namespace

int ListEvents(const ApiClient& client, const EventQuery& query, std::ostream& out,
               std::ostream& err) {
  if (query.newest_first) return ListNewest(client, query, out, err);
  if (query.follows) return Follower(client, query, out, err).Run();
  std::uint64_t left = query.limit;
  std::string after = query.after;
  std::string json = "[";
  PodTable table(out, kEventColumns);
  LedgerStates states(err);
  while (left > 0 && !after.empty()) {
    const auto text =
        Call(client, "GET", EventsTarget(query, after, std::min(left, kAdminPageMax)));
    if (!text) return Fail(err, text.error());
    const auto page = ParsePage(*text);
    if (!page) return Fail(err, page.error().detail());
    states.Tell(*page);
    const Json& events = *page->Find("events");
    left -= std::min<std::uint64_t>(left, events.items.size());
    after = Printable(*page, "next");
    if (!client.json) {
      for (const Json& event : events.items) AddEventRow(table, event);
      table.Flush();
      continue;
    }
    AppendItems(json, *text, "events");
  }
  if (client.json) {
    out << json << "]\n";
  } else if (!table.is_begun()) {
    out << "none\n";
  }
  if (left == 0 && !after.empty()) {
    // Who reads a list that was cut has to know it.
    err << "recourse: the oldest " << query.limit << " are shown, and more follow: go on with "
        << "--after " << after << ", give a larger --limit, or begin at the end with --newest\n";
  }
  return states.exit_code();
}

int ShowEvent(const ApiClient& client, const std::string& id, std::ostream& out,
              std::ostream& err) {
  const auto event = Show(client, admin_paths::FillPlace(admin_paths::kEvent, id), out, err);
  if (!event) return event.error();
  for (const auto& [name, value] : event->members) {
    out << fmt::format("{:<16} {}\n", name, TerminalText(ScalarText(value)));
  }
  if (Printable(*event, "kind") == "flow") {
    out << "\nAll of this flow: recourse flows show " << Printable(*event, "flow_number") << "\n";
    return kExitOk;
  }
  const auto operation =
      Call(client, "GET",
           admin_paths::kEvents + ("?operation=" + PercentEncode(Printable(*event, "operation"))));
  if (!operation) return Fail(err, operation.error());
  const auto page = ParsePage(*operation);
  if (!page) return Fail(err, page.error().detail());
  out << "\nAll events of this operation:\n";
  PodTable table(out, kEventColumns);
  for (const Json& row : page->Find("events")->items) AddEventRow(table, row);
  table.Flush();
  return kExitOk;
}

int ShowReport(const ApiClient& client, const std::string& since, const std::string& until,
               std::ostream& out, std::ostream& err) {
  std::string target = admin_paths::kReport;
  if (!since.empty()) target += "?since=" + PercentEncode(since);
  if (!until.empty()) target += (since.empty() ? "?until=" : "&until=") + PercentEncode(until);
  const auto report = Show(client, target, out, err);
  if (!report) return report.error();
  // The names of fields are whatever agents send.
  std::istringstream lines(ReportText(*report));
  for (std::string line; std::getline(lines, line);) out << TerminalText(line) << "\n";
  return kExitOk;
}

int ShowPolicy(const ApiClient& client, std::ostream& out, std::ostream& err) {
  const auto state = Show(client, admin_paths::kPolicy, out, err);
  if (!state) return state.error();
  const Json* last = state->Find("last_reload");
  const Json* orphaned = state->Find("orphaned");
  if (last == nullptr || orphaned == nullptr) return Fail(err, kNotUnderstood);
  out << fmt::format("in force      {}\nfrom          {}\nlast reload   {} by {} at {}\n",
                     Printable(*state, "version"), Printable(*state, "path"),
                     Printable(*last, "result"), Printable(*last, "trigger"),
                     Printable(*last, "time"));
  for (const Json& problem : last->Find("problems")->items) {
    out << "              " << TerminalText(ScalarText(problem)) << "\n";
  }
  for (const Json& orphan : orphaned->items) {
    out << fmt::format(
        "orphaned      {} open operations of {} ({}), begun under {}, first event {}\n",
        Printable(orphan, "operations"), Printable(orphan, "tool"), Printable(orphan, "reason"),
        Printable(orphan, "policy_version"), Printable(orphan, "first_event"));
  }
  return kExitOk;
}

int ReloadPolicy(const ApiClient& client, std::ostream& out, std::ostream& err) {
  int status = 0;
  const auto text = Call(client, {"POST", admin_paths::kPolicyReload, {}, {}}, &status);
  if (!text) {
    const int failed = Fail(err, text.error());
    return status == kRefused ? kExitPolicy : failed;
  }
  const auto report = ParseJson(*text);
  if (!report) return Fail(err, kNotUnderstood);
  if (client.json) {
    out << *text << "\n";
  } else {
    const std::string result = Printable(*report, "result");
    out << result << ", version " << Printable(*report, "version")
        << (result == "announced" ? ", in force in 18 s, once the other pods know it" : "") << "\n";
  }
  return kExitOk;
}

int ExportLedger(const ApiClient& client, const ExportQuery& query, std::ostream& out,
                 std::ostream& err) {
  const auto ledger = LedgerOf(client);
  if (!ledger) return Fail(err, ledger.error());
  const std::string last = Printable(*ledger, "last_id");
  out << ObjectText([&](JsonObject& json) {
    json.Text("kind", "export");
    json.Number("version", 1);
    json.Text("ledger", Printable(*ledger, "identity"));
    json.Raw("row_format", Printable(*ledger, "row_format"));
    json.Raw("after", RowIdJson(query.after));
    json.Raw("up_to", RowIdJson(ToId(last)));
    json.TextIfAny("trace", query.trace);
    if (query.with_answers) json.Bool("with_answers", true);
  }) << "\n";
  std::ptrdiff_t count = 0;
  std::string after = PrintRowId(query.after);
  while (after != "null") {
    std::string target = admin_paths::kEvents +
                         ("?lines=true&limit=" + std::to_string(kAdminPageMax)) + "&after=" + after;
    // The end of one stream of many is not that of the others.
    if (UnpackRowId(ToId(last)).stream == 0) target += "&up_to=" + last;
    if (query.with_answers) target += "&answers=true";
    if (!query.trace.empty()) target += "&trace=" + PercentEncode(query.trace);
    const auto page = Call(client, "GET", target);
    if (!page) return Fail(err, page.error());
    // The last line is about the page.
    const auto begin = page->size() < 2 ? 0 : page->rfind('\n', page->size() - 2) + 1;
    const auto tail = ParseJson(std::string_view(*page).substr(begin));
    if (!tail) return Fail(err, kNotUnderstood);
    out.write(page->data(), static_cast<std::streamsize>(begin));
    count += std::count(page->begin(), page->begin() + static_cast<std::ptrdiff_t>(begin), '\n');
    after = Printable(*tail, "next");
    if (after.empty()) after = "null";
    if (!out.flush()) return Fail(err, "the export cannot be written; is the disk full?");
  }
  out << ObjectText([&](JsonObject& json) {
    json.Text("kind", "end");
    json.Number("events", count);
    json.Raw("up_to", RowIdJson(ToId(last)));
    json.Text("head", Printable(*ledger, "head"));
  }) << "\n";
  return out.flush() ? kExitOk : Fail(err, "the export cannot be written; is the disk full?");
}

int AcceptLedger(const ApiClient& client, const std::string& reason, std::ostream& out,
                 std::ostream& err) {
  std::string before;
  const auto ledger = LedgerOf(client, &before);
  if (!ledger) return Fail(err, ledger.error());
  if (Printable(*ledger, "restored") == "false") {
    out << (client.json ? before : std::string("nothing to accept: new writes are let through"))
        << "\n";
    return kExitOk;
  }
  const std::string body = ObjectText([&](JsonObject& json) { json.Text("reason", reason); });
  const auto text = Call(client, {"POST", admin_paths::kLedgerAccept, {}, body});
  if (!text) return Fail(err, text.error());
  out << (client.json ? *text : std::string("ok: new writes are let through")) << "\n";
  return kExitOk;
}

int VerifyLedger(const ApiClient& client, std::ostream& out, std::ostream& err) {
  const auto text = Call(client, "POST", admin_paths::kLedgerVerify);
  if (!text) return Fail(err, text.error());
  const auto report = ParseJson(*text);
  if (!report) return Fail(err, kNotUnderstood);
  const bool ok = Printable(*report, "ok") == "true";
  const bool lacks_key = !ok && Printable(*report, "check") == kMissingKeyCheck;
  if (client.json) {
    out << *text << "\n";
  } else if (ok) {
    const std::string stream = Printable(*report, "stream");
    out << "ok: " << (stream.empty() ? "" : "stream " + stream + ": ") << Printable(*report, "rows")
        << " rows, chain head " << Printable(*report, "head") << "\n";
    if (!stream.empty()) {
      out << "this process writes that one alone; all of them: recourse ledger verify --ledger "
             "URL\n";
    }
    if (const std::string base = Printable(*report, "base"); !base.empty()) {
      out << "rows before " << Printable(*report, "first_id")
          << " were removed by retention; chain base " << base << "\n";
    }
  } else {
    out << (lacks_key ? "NOT WHOLLY CHECKED: " : "BROKEN: ") << Printable(*report, "problem")
        << "\n";
  }
  if (lacks_key) return Fail(err, kMissingKeyHelp);
  return ok ? kExitOk : kExitLedger;
}

int BackupLedger(const ApiClient& client, const std::string& path, std::ostream& out,
                 std::ostream& err) {
  if (::access(path.c_str(), F_OK) == 0) {
    return Fail(err, path + " is there already: name a new file, or move that one away");
  }
  const auto prepared = PrepareAdminCall(client, {"POST", admin_paths::kLedgerBackup, {}, {}});
  if (!prepared) return Fail(err, prepared.error());
  const std::string part = path + ".part";
  const auto fail = [&](std::string_view what) {
    ::unlink(part.c_str());
    return Fail(err, what);
  };
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return Fail(err, "cannot create " + part + ": " + std::strerror(errno));
  const auto loaded = Download(prepared->place, prepared->request, kBackupTimeoutSeconds, file);
  const bool is_synced = ::fsync(file) == 0;
  ::close(file);
  if (!loaded) {
    const auto problem = ParseJson(loaded.error());
    return fail(std::string("POST ") + admin_paths::kLedgerBackup + ": " +
                (problem ? Printable(*problem, "detail") : loaded.error()));
  }
  if (!is_synced) return fail("cannot sync " + part + ": " + std::strerror(errno));
  const auto report = VerifyLedgerFile(part);
  if (!report || !report->ok) {
    return fail("the copy is not sound: " + (report ? report->problem : report.error()));
  }
  if (::rename(part.c_str(), path.c_str()) != 0) {
    return fail("cannot write " + path + ": " + std::strerror(errno));
  }
  SyncDirectoryOf(path);
  if (client.json) {
    out << ToJson(*report) << "\n";
  } else {
    out << "ok: " << report->rows << " rows, chain head " << report->head << "\n";
  }
  return kExitOk;
}

}  // namespace recourse
