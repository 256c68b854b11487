#include "proxy/cli/approval_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <ostream>
#include <sstream>
#include <utility>

#include "filters/ledger/model/missing_key.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/access/operator.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/terminal_text.h"
#include "proxy/cli/api_call.h"
#include "proxy/cli/ledger_states.h"
#include "proxy/cli/table.h"
#include "proxy/config/config.h"
#include "proxy/config/terminal.h"

namespace recourse {
namespace {

constexpr int kApprovalLookEveryMs = 1'000;
constexpr std::size_t kDigestDigits = 64, kDigestPrefix = 12;  // 48 bits name one request

std::string Names(const Json& approval) {
  std::string out;
  if (const Json* by = approval.Find("by")) {
    for (const Json& name : by->items) {
      out += (out.empty() ? "" : ", ") + TerminalText(ScalarText(name));
    }
  }
  return out;
}

bool IsSealed(const Json& approval) { return Printable(approval, "sealed") == "true"; }

// Nobody knows without the key.
std::string Progress(const Json& approval) {
  if (IsSealed(approval)) return {};
  return Printable(approval, "approvals") + "/" + Printable(approval, "needs");
}

std::string ApprovalSummary(const Json& approval) {
  if (!IsSealed(approval)) return Printable(approval, "summary");
  return "asked " + Printable(approval, "asked") + "; " + Printable(approval, "detail");
}

constexpr Column kApprovalColumns[] = {
    {"OPERATION", 9, Column::Kind::kWhole, 0, Column::Side::kRight},
    {"EXPIRES", 24, Column::Kind::kTime},
    {"STATUS", 9, Column::Kind::kWhole},
    {"TOOL", 20, Column::Kind::kText, 8},
    {"CALL", 32, Column::Kind::kText, 10},
    {"CALLER", 16, Column::Kind::kExtra, 6},
    {"YES", 3, Column::Kind::kExtra, 3, Column::Side::kRight},
    {"BY", 16, Column::Kind::kExtra, 6},
    {"SUMMARY", 24, Column::Kind::kText, 10},
};

void AddApprovalRow(PodTable& table, const Json& approval) {
  table.Row(approval, {Printable(approval, "operation"), Printable(approval, "expires"),
                       Printable(approval, "status"), Printable(approval, "tool"),
                       Printable(approval, "method") + " " + Printable(approval, "path"),
                       Printable(approval, "caller"), Progress(approval), Names(approval),
                       ApprovalSummary(approval)});
}

void PrintBody(std::ostream& out, const Json& request) {
  out << "  body (" << Printable(request, "body_bytes") << " bytes, SHA-256 "
      << Printable(request, "body_sha256") << "):\n";
  const std::string coded = Printable(request, "body_base64");
  out << "  " << (coded.empty() ? Printable(request, "body") : "(base64) " + coded) << "\n";
}

void PrintRequest(std::ostream& out, const Json& approval) {
  const Json* request = approval.Find("request");
  if (request == nullptr || request->kind != Json::Kind::kObject) {
    out << "\nits request is no longer kept\n";
    return;
  }
  out << "\n  " << Printable(*request, "method") << " " << Printable(*request, "target") << "\n";
  if (const Json* headers = request->Find("headers")) {
    for (const Json& field : headers->items) {
      if (field.items.size() != 2) continue;
      out << "  " << TerminalText(ScalarText(field.items[0])) << ": "
          << TerminalText(ScalarText(field.items[1])) << "\n";
    }
  }
  if (const Json* credentials = approval.Find("credentials")) {
    for (const Json& name : credentials->items) {
      out << "  " << TerminalText(ScalarText(name))
          << ": the policy's own, in place of the agent's\n";
    }
  }
  PrintBody(out, *request);
  const Json* original = approval.Find("original");
  if (original == nullptr) return;
  out << "edited; the agent's own body was:\n";
  PrintBody(out, *original);
  if (const Json* changes = approval.Find("changes")) {
    for (const Json& change : changes->items) {
      out << "  " << Printable(change, "at") << ": " << Printable(change, "before") << " -> "
          << Printable(change, "after") << "\n";
    }
  }
}

void PrintApproval(std::ostream& out, const Json& approval) {
  const auto line = [&](std::string_view label, std::string_view value) {
    if (!value.empty()) out << fmt::format("{:<11}{}\n", label, value);
  };
  line("operation", Printable(approval, "operation"));
  line("status", Printable(approval, "status"));
  line("detail", Printable(approval, "detail"));
  line("tool", Printable(approval, "tool"));
  line("backend", Printable(approval, "backend"));
  line("caller", Printable(approval, "caller"));
  line("pod", Printable(approval, "pod"));
  line("flow", Printable(approval, "flow"));
  line("summary", Printable(approval, "summary"));
  line("why", Printable(approval, "why"));
  line("needs", Progress(approval) + " by " + Names(approval));
  line("asked", Printable(approval, "asked"));
  line("expires", Printable(approval, "expires"));
  line("digest", Printable(approval, "digest"));
  PrintRequest(out, approval);
  if (const Json* decisions = approval.Find("decisions"); decisions && !decisions->items.empty()) {
    out << "\ndecisions\n";
    for (const Json& one : decisions->items) {
      out << fmt::format("  {}  {:<9} by {}{}{}\n", Printable(one, "time"),
                         Printable(one, "decision"), Printable(one, "who"),
                         Printable(one, "reason").empty() ? "" : ": " + Printable(one, "reason"),
                         Printable(one, "counts") == "true" ? ""
                         : Printable(one, "late") == "true" ? " (too late)"
                                                            : " (before it was edited)");
    }
  }
  if (const Json* earlier = approval.Find("earlier"); earlier && !earlier->items.empty()) {
    out << "\nother calls of this caller, newest first\n";
    for (const Json& one : earlier->items) {
      out << fmt::format("  {:>9}  {}  {:<13}  {:<20}  {} {}\n", Printable(one, "operation"),
                         Printable(one, "time"), Printable(one, "phase"), Printable(one, "tool"),
                         Printable(one, "method"), Printable(one, "path"));
    }
  }
}

std::string Target(const char* pattern, const std::string& operation) {
  return admin_paths::FillPlace(pattern, operation);
}

// A person at a terminal, who can be asked. Nobody answers for a pipe.
bool SaysYes(std::ostream& out, std::string_view operation) {
  out << "\napprove operation " << operation << "? [y/N] " << std::flush;
  std::string line;
  std::getline(std::cin, line);
  return line == "y" || line == "Y" || line == "yes";
}

// Why that person can approve nothing, whatever waits; empty: nothing is known against it.
std::string WhyNoApprover(const ApiClient& client) {
  const auto text = Call(client, "GET", admin_paths::kSession);
  const auto who = ParseJson(text.value_or(""));
  const Json* const roles = who ? who->Find("roles") : nullptr;
  if (roles == nullptr) return {};
  const auto is_approve = [](const Json& role) { return role.text == "approve"; };
  if (std::ranges::any_of(roles->items, is_approve)) return {};
  const bool is_shared = Printable(*who, "how") == NameOf(Operator::How::kAdminToken);
  return Printable(*who, "name") + " does not have the role approve, which this needs; " +
         (is_shared ? "name people in --operators FILE" : "it is given in the operators file");
}

// The digest of the request that stands there now, if that is the one that `given` means: all of
// it, or a beginning that no other will have. Without one a person at a terminal is shown the
// request and asked. The exit code when nothing is to be approved.
std::expected<std::string, int> DigestMeant(const ApiClient& client, const ApprovalWord& word,
                                            std::ostream& out, std::ostream& err) {
  const bool can_ask =
      word.digest.empty() && !client.json && IsTerminal(STDIN_FILENO) && IsTerminal(STDOUT_FILENO);
  if (word.digest.size() < kDigestPrefix && !can_ask) {
    err << "recourse: say what you approve: look at it (recourse approvals show " << word.operation
        << ") and give its digest, 12 digits of it at least: --digest DIGEST\n";
    return std::unexpected(kExitUsage);
  }
  if (word.digest.size() >= kDigestDigits) return word.digest;
  const auto text = Call(client, "GET", Target(admin_paths::kApproval, word.operation));
  if (!text) return std::unexpected(Fail(err, text.error()));
  const auto approval = ParseJson(*text);
  std::string digest = approval ? Printable(*approval, "digest") : std::string();
  if (digest.empty()) return std::unexpected(Fail(err, kNotUnderstood));
  if (!can_ask) {
    if (digest.starts_with(word.digest)) return digest;
    return std::unexpected(Fail(
        err, "what waits there is another request than the one of --digest; look at it again"));
  }
  PrintApproval(out, *approval);
  if (SaysYes(out, word.operation)) return digest;
  out << "nothing was approved\n";
  return std::unexpected(kExitRuntime);
}

FileResult<std::string> ReadBodyFile(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || text.view().size() > limits::kStoredRequestBodyBytesMax) {
    return std::unexpected("--body: " + file + " cannot be read, or is larger than 256 KiB");
  }
  return text.str();
}

}  // namespace

int ListApprovals(const ApiClient& client, const ApprovalQuery& query, std::ostream& out,
                  std::ostream& err) {
  std::string target = admin_paths::kApprovals + ("?limit=" + std::to_string(query.limit));
  for (const auto& [name, value] : {std::pair("tool", &query.tool),
                                    {"caller", &query.caller},
                                    {"by", &query.by},
                                    {"pod", &query.pod}}) {
    if (!value->empty()) target += std::string("&") + name + "=" + PercentEncode(*value);
  }
  const auto text = Call(client, "GET", target);
  if (!text) return Fail(err, text.error());
  const auto page = ParseJson(*text);
  const Json* const approvals = page ? page->Find("approvals") : nullptr;
  if (approvals == nullptr) return Fail(err, kNotUnderstood);
  LedgerStates states(err);
  states.Tell(*page);
  if (client.json) {
    out << *text << "\n";
    return states.exit_code();
  }
  PodTable table(out, kApprovalColumns);
  for (const Json& approval : approvals->items) AddApprovalRow(table, approval);
  table.Flush();
  if (!table.is_begun()) out << "none\n";
  if (std::ranges::any_of(approvals->items, IsSealed)) {
    out << "what is sealed with a key that this process lacks is not shown or decided here: "
        << kMissingKeyHelp << "\n";
  }
  if (!Printable(*page, "next").empty()) out << "there are more; raise --limit\n";
  return states.exit_code();
}

int ShowApproval(const ApiClient& client, const std::string& operation, std::ostream& out,
                 std::ostream& err) {
  const auto approval = Show(client, Target(admin_paths::kApproval, operation), out, err);
  if (!approval) return approval.error();
  PrintApproval(out, *approval);
  return kExitOk;
}

int DecideApproval(const ApiClient& client, const ApprovalWord& word, std::ostream& out,
                   std::ostream& err) {
  const bool is_approve = word.verb == "approve";
  if (!is_approve && word.reason.empty()) {
    err << "recourse: say why with --reason TEXT: the agent is told, and it is kept\n";
    return kExitUsage;
  }
  std::string body = ObjectText([&](JsonObject& json) { json.Text("reason", word.reason); });
  if (is_approve) {
    if (const std::string why = WhyNoApprover(client); !why.empty()) return Fail(err, why);
    const auto digest = DigestMeant(client, word, out, err);
    if (!digest) return digest.error();
    AppendMembers(body, [&](JsonObject& json) { json.Text("digest", *digest); });
  }
  if (!word.body_file.empty()) {
    const auto edited = ReadBodyFile(word.body_file);
    if (!edited) return Fail(err, edited.error());
    if (!IsUtf8(*edited)) return Fail(err, "--body: only text can be sent instead");
    AppendMembers(body, [&](JsonObject& json) { json.Text("body", *edited); });
  }
  const auto approval = Show(
      client,
      HttpRequest{"POST",
                  Target(is_approve ? admin_paths::kApprove : admin_paths::kReject, word.operation),
                  {{"Content-Type", "application/json"}},
                  body},
      out, err);
  if (!approval) return approval.error();
  out << "operation " << word.operation << " is " << Printable(*approval, "status") << " ("
      << Progress(*approval) << "): " << Printable(*approval, "detail") << "\n";
  return kExitOk;
}

int WatchApprovals(const ApiClient& client, std::ostream& out, std::ostream& err) {
  std::map<std::string, std::string> known;  // status by operation
  PodTable table(out, kApprovalColumns);
  LedgerStates states(err);
  if (!client.json) table.Expect(client);
  for (;; (void)::poll(nullptr, 0, kApprovalLookEveryMs)) {
    const auto text = Call(client, "GET", admin_paths::kApprovals + std::string("?limit=1000"));
    if (!text) return Fail(err, text.error());
    const auto page = ParseJson(*text);
    const Json* approvals = page ? page->Find("approvals") : nullptr;
    if (approvals == nullptr) return Fail(err, kNotUnderstood);
    states.Tell(*page);
    std::map<std::string, std::string> now;
    for (const Json& approval : approvals->items) {
      const std::string operation = Printable(approval, "operation");
      const std::string state = Printable(approval, "status") + " " + Progress(approval);
      now[operation] = state;
      const auto was = known.find(operation);
      if (was != known.end() && was->second == state) continue;
      if (client.json) {
        out << LineOfJson(approval) << "\n";
      } else {
        AddApprovalRow(table, approval);
      }
    }
    table.Flush();
    for (const auto& [id, state] : known) {
      if (now.contains(id)) continue;
      const auto one = Call(client, "GET", admin_paths::FillPlace(admin_paths::kApproval, id));
      if (!one) {  // its ledger may be away
        now.emplace(id, state);
        continue;
      }
      const auto approval = ParseJson(*one);
      if (!approval) continue;
      if (client.json) {
        out << LineOfJson(*approval) << "\n";
      } else {
        out << fmt::format("{:>9}  is {}: {}\n", id, Printable(*approval, "status"),
                           Printable(*approval, "detail"));
      }
    }
    out.flush();
    known = std::move(now);
  }
}

}  // namespace recourse
