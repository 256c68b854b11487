#include "filters/ledger/postgres/connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <map>
#include <utility>

#include "filters/ledger/postgres/client/connect_failure.h"
#include "filters/ledger/postgres/client/load_libpq.h"
#include "proxy/base/check.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, 3> kVerifiedModes = {"verify-full", "verify-ca", "require"};
constexpr const char* kAuthorities = "/etc/ssl/certs/ca-certificates.crt";
// Plans are made once, on tables of any size: none of them may scan what will be large. What is
// right does not hang on the isolation, and under a stricter one strangers are in each other's way.
constexpr const char* kSettings =
    "SET default_transaction_isolation = 'read committed'; SET plan_cache_mode = "
    "force_generic_plan; SET jit = off; SET enable_seqscan = off;"
    "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;"
    "SET client_min_messages = warning";

// How much longer than this side the server waits for an end.
constexpr Millis kPgServerGraces{1'000};

// How often whoever wants to know is told that something is awaited.
constexpr Millis kPgWaitTurn{100};

// libpq finds no address without waiting for it.
PGconn* Meanwhile(const std::function<PGconn*()>& connect,
                  const std::function<void(Millis)>& while_waiting) {
  if (!while_waiting) return connect();
  const MonoTime start = PgNow();
  auto connected = std::async(std::launch::async, connect);
  while (connected.wait_for(kPgWaitTurn) != std::future_status::ready) {
    while_waiting(std::chrono::floor<Millis>(PgNow() - start));
  }
  return connected.get();
}

bool IsLocalHost(std::string_view host) {
  return host.empty() || host.front() == '/' || host.front() == '@' || host == "localhost" ||
         host == "::1" || host.starts_with("127.");
}

using Keywords = std::map<std::string, std::string>;

std::expected<Keywords, std::string> ReadUrl(const PgOptions& options) {
  struct Free {
    void operator()(PQconninfoOption* parsed) const { PQconninfoFree(parsed); }
  };
  if (auto loaded = LoadLibpq(); !loaded) return std::unexpected(std::move(loaded.error()));
  char* why = nullptr;
  const std::unique_ptr<PQconninfoOption, Free> parsed(PQconninfoParse(options.url.c_str(), &why));
  if (!parsed) {
    if (why != nullptr) PQfreemem(why);  // it repeats what it could not read
    return std::unexpected("the ledger's URL cannot be read: postgres://USER@HOST:PORT/DATABASE");
  }
  Keywords keywords;
  for (const PQconninfoOption* one = parsed.get(); one->keyword != nullptr; ++one) {
    if (one->val != nullptr) keywords[one->keyword] = one->val;
  }
  return keywords;
}

std::expected<void, std::string> ReadPassword(const std::string& path, Keywords& keywords) {
  // Also a directory can be opened, and says what it is when it is read.
  errno = 0;
  std::string password;
  if (std::FILE* const file = std::fopen(path.c_str(), "re"); file != nullptr) {
    char part[512];
    while (const std::size_t size = std::fread(part, 1, sizeof part, file)) {
      password.append(part, size);
    }
    const int failed = std::ferror(file) != 0 ? errno : 0;
    std::fclose(file);
    errno = failed;
  }
  if (errno != 0) {
    return std::unexpected("the password file of the ledger's database, " + path +
                           ", cannot be read: " + std::strerror(errno));
  }
  while (!password.empty() && (password.back() == '\n' || password.back() == '\r')) {
    password.pop_back();
  }
  keywords["password"] = std::move(password);
  return {};
}

std::expected<Keywords, Unopened> KeywordsOf(const PgOptions& options) {
  auto keywords = ReadUrl(options);
  if (!keywords) return std::unexpected(Unopened{keywords.error()});
  if (!options.password_file.empty()) {
    if (auto read = ReadPassword(options.password_file, *keywords); !read) {
      return std::unexpected(Unopened{read.error(), true});  // whoever writes it may be on the way
    }
  }
  const auto hosts = keywords->contains("hostaddr") ? (*keywords)["hostaddr"] : (*keywords)["host"];
  const auto mode = SslModeFor(hosts, (*keywords)["sslmode"]);
  if (!mode) return std::unexpected(Unopened{mode.error()});
  (*keywords)["sslmode"] = *mode;
  if (*mode == "verify-full") {
    if (access(kAuthorities, R_OK) == 0) keywords->try_emplace("sslrootcert", kAuthorities);
    // Without it a server in the middle that has a certificate could pass a password on.
    if (keywords->contains("password") && !keywords->contains("sslcert")) {
      keywords->try_emplace("channel_binding", "require");
    }
  }
  keywords->try_emplace("connect_timeout", "2");
  keywords->try_emplace("target_session_attrs", "read-write");
  keywords->try_emplace("application_name", "recourse");
  keywords->try_emplace("client_encoding", "UTF8");
  return std::move(*keywords);
}

// With its name two sessions show whether they are one.
constexpr PgStatement kPgSession{
    "session", "SELECT current_setting('synchronous_commit'), pg_backend_pid()::bigint"};
// The same, and no reload takes away what is found.
constexpr PgStatement kPgSafeSession{
    "session",
    "SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), false),"
    " pg_backend_pid()::bigint"};
constexpr const char* kPgSharesSessions =
    "the ledger's database is reached through a pooler that gives sessions from hand to hand and "
    "keeps no prepared statements: let it pool sessions (pgbouncer: pool_mode = session)";
// A statement that was prepared is not there, or one of another is there instead.
bool IsOfAnotherSession(std::string_view sqlstate) {
  return sqlstate == "26000" || sqlstate == "42P05";
}

PgFailure RefusalOf(const PGresult* result, std::size_t at) {
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* const severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
  PgFailure refused{.kind = PgFailure::Kind::kRefused,
                    .sqlstate = state != nullptr ? state : "",
                    .text = OneLine(PQresultErrorMessage(result)),
                    .at = at};
  // A statement whose completion is unknown (40003), a connection that failed behind who answers
  // (class 08), words of libpq's own, or the last ones of a session.
  const bool is_last = severity != nullptr && std::string_view(severity) != "ERROR";
  if (refused.sqlstate.empty() || refused.sqlstate == "40003" ||
      refused.sqlstate.starts_with("08") || is_last) {
    refused.kind = PgFailure::Kind::kUnknown;
  }
  if (IsOfAnotherSession(refused.sqlstate)) refused.text = kPgSharesSessions;
  return refused;
}

}  // namespace

std::expected<std::string, std::string> SslModeFor(std::string_view hosts, std::string_view asked) {
  bool is_local = true;
  for (std::size_t at = 0; at <= hosts.size();) {
    const std::size_t end = std::min(hosts.find(',', at), hosts.size());
    is_local = is_local && IsLocalHost(hosts.substr(at, end - at));
    at = end + 1;
  }
  if (asked.empty()) return is_local ? "prefer" : "verify-full";
  if (is_local || asked == kVerifiedModes.front()) return std::string(asked);
  return std::unexpected("sslmode of the ledger's database must be verify-full beyond this host");
}

Unopened UnopenedBy(const PgConnection& connection, const PgFailure& failure,
                    const PgPurpose& purpose) {
  constexpr std::string_view kForbidden = "42501";
  if (failure.sqlstate == kForbidden) {
    return {WhyForbidden(failure.text, connection.role(), purpose)};
  }
  if (IsOfAnotherSession(failure.sqlstate)) return {failure.text};
  const bool is_refused = failure.kind == PgFailure::Kind::kRefused;
  return {fmt::format("the ledger's database {}: {}", is_refused ? "refuses" : "does not answer",
                      failure.text),
          !is_refused || MayPass(failure.sqlstate)};
}

PgConnection::PgConnection(PGconn* connection, const PgOptions& options)
    : connection_(connection),
      answer_within_(options.answer_within),
      while_waiting_(options.while_waiting) {}

std::expected<std::unique_ptr<PgConnection>, Unopened> PgConnection::Connect(
    const PgOptions& options) {
  const auto keywords = KeywordsOf(options);
  if (!keywords) return std::unexpected(keywords.error());
  std::vector<const char*> names, values;
  for (const auto& [name, value] : *keywords) {
    if (value.empty()) continue;
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  const auto connect = [&] { return PQconnectdbParams(names.data(), values.data(), 0); };
  std::unique_ptr<PgConnection> opened(
      new PgConnection(Meanwhile(connect, options.while_waiting), options));
  PGconn* const connection = opened->connection_.get();
  if (connection == nullptr || PQstatus(connection) != CONNECTION_OK) {
    const auto given = [&](const char* keyword) {
      const auto at = keywords->find(keyword);
      return at == keywords->end() ? std::string() : at->second;
    };
    return std::unexpected(
        WhyUnconnected(connection == nullptr ? "no memory" : PQerrorMessage(connection),
                       {.password_file = options.password_file,
                        .authorities = given("sslrootcert"),
                        .tries_plain = given("sslmode") == "prefer"}));
  }
  PQsetNoticeReceiver(connection, &PgConnection::OnNotice, opened.get());
  PQsetnonblocking(connection, 1);
  PQenterPipelineMode(connection);
  return opened;
}

std::expected<std::unique_ptr<PgConnection>, Unopened> PgConnection::Open(
    const PgOptions& options) {
  auto opened = Connect(options);
  if (!opened) return opened;
  if (auto prepared = (*opened)->Prepare(options); !prepared) {
    return std::unexpected(prepared.error());
  }
  return opened;
}

// A server that ends statements or sessions sooner than this side gives them up would be in doubt
// again and again; one that never does would leave rows locked by a process that is stopped.
std::string PgConnection::Timeouts() const {
  constexpr int kHasIdleSession = 140'000, kHasTransaction = 170'000;
  const std::string most = std::to_string((answer_within_ + kPgServerGraces).count());
  std::string sql = "SET statement_timeout = " + most + "; SET lock_timeout = 0;";
  sql += "SET idle_in_transaction_session_timeout = " + most + ";";
  if (server_version() >= kHasIdleSession) sql += "SET idle_session_timeout = 0;";
  if (server_version() >= kHasTransaction) sql += "SET transaction_timeout = 0;";
  return sql;
}

std::expected<void, Unopened> PgConnection::Prepare(const PgOptions& options) {
  if (auto set = Execute(Timeouts() + kSettings); !set) {
    const bool may_pass = MayPass(set.error().sqlstate);
    return std::unexpected(
        Unopened{"the ledger's database refuses settings: " + set.error().text, may_pass});
  }
  Queue(options.unsafe_commit ? kPgSession : kPgSafeSession);
  const auto answered = Run();
  if (!answered) return std::unexpected(UnopenedBy(*this, answered.error(), {}));
  // Somebody stands between who answers and who was connected to.
  if (answered->front().Int(0, 1) != PQbackendPID(connection_.get())) {
    auto other = Connect(options);
    if (!other) return std::unexpected(other.error());
    (*other)->Queue(kPgSession);
    const auto asked = (*other)->Run();
    if (!asked && IsOfAnotherSession(asked.error().sqlstate)) {
      return std::unexpected(Unopened{kPgSharesSessions});
    }
  }
  const std::string_view mode = answered->front().Bytes(0, 0);
  const bool is_safe = mode == "on" || mode == "remote_apply";
  if (!is_safe && !options.unsafe_commit) {
    return std::unexpected(
        Unopened{"the ledger's database has synchronous_commit=" + std::string(mode) +
                 ": it confirms writes that it may lose; set it to on for the ledger's role"});
  }
  return {};
}

void PgConnection::OnNotice(void* self, const PGresult* notice) {
  const char* const severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  // A commit whose standby did not confirm it is told as a warning.
  if (severity != nullptr && std::string_view(severity) == "WARNING") {
    static_cast<PgConnection*>(self)->warning_ = OneLine(PQresultErrorMessage(notice));
  }
}

bool PgConnection::Send(const PgStatement& statement, const PgArguments& arguments) {
  if (prepared_.insert(statement.name).second) {
    if (PQsendPrepare(connection_.get(), statement.name, statement.sql, 0, nullptr) == 0) {
      return false;
    }
    queued_.push_back(statement.name);
  }
  std::vector<const char*> values;
  std::vector<int> lengths, formats;
  for (const auto& value : arguments.values()) {
    values.push_back(value ? value->data() : nullptr);
    lengths.push_back(value ? static_cast<int>(value->size()) : 0);
    formats.push_back(1);
  }
  queued_.push_back(nullptr);
  return PQsendQueryPrepared(connection_.get(), statement.name, static_cast<int>(values.size()),
                             values.data(), lengths.data(), formats.data(), 1) != 0;
}

void PgConnection::Queue(const PgStatement& statement, const PgArguments& arguments) {
  if (!is_lost() && !Send(statement, arguments)) is_lost_ = true;
}

PgFailure PgConnection::Lost(std::string_view why) {
  is_lost_ = true;
  return {.kind = PgFailure::Kind::kUnknown, .text = OneLine(why)};
}

bool PgConnection::WaitFor(MonoTime deadline, bool may_write) {
  for (;;) {
    // Not less than what is left: who wakes before the end could not say that it was too late.
    const auto left = std::max(Millis(0), std::chrono::ceil<Millis>(deadline - PgNow()));
    const Millis turn = while_waiting_ ? std::min(left, kPgWaitTurn) : left;
    pollfd wait{socket(), static_cast<short>(may_write ? POLLIN | POLLOUT : POLLIN), 0};
    const int ready = poll(&wait, 1, static_cast<int>(turn.count()));
    if (ready < 0) return errno == EINTR;
    if (ready > 0) return PQconsumeInput(connection_.get()) != 0;
    if (turn == left) return false;
    while_waiting_(answer_within_ - left);
  }
}

// nullptr: the end of one statement. Fails when nothing comes until then.
std::expected<PGresult*, PgFailure> PgConnection::Next(MonoTime deadline) {
  for (;;) {
    const int unsent = PQflush(connection_.get());
    if (unsent < 0) return std::unexpected(Lost(PQerrorMessage(connection_.get())));
    if (unsent == 0 && PQisBusy(connection_.get()) == 0) break;
    if (WaitFor(deadline, unsent > 0)) continue;
    const bool is_late = PgNow() >= deadline;
    return std::unexpected(Lost(is_late ? "no answer in time" : PQerrorMessage(connection_.get())));
  }
  PGresult* const result = PQgetResult(connection_.get());
  if (result == nullptr && is_lost()) {
    return std::unexpected(Lost(PQerrorMessage(connection_.get())));
  }
  return result;
}

std::expected<void, PgFailure> PgConnection::Execute(const std::string& sql) {
  RC_CHECK(queued_.empty());
  if (PQexitPipelineMode(connection_.get()) == 0 ||
      PQsendQuery(connection_.get(), sql.c_str()) == 0) {
    return std::unexpected(Lost(PQerrorMessage(connection_.get())));
  }
  const MonoTime deadline = PgNow() + answer_within_;
  std::optional<PgFailure> refused;
  for (;;) {
    auto result = Next(deadline);
    if (!result) return std::unexpected(std::move(result.error()));
    if (*result == nullptr) break;
    const PgRows one(*result);
    const ExecStatusType status = PQresultStatus(*result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && !refused) {
      refused = RefusalOf(*result, 0);
    }
  }
  PQenterPipelineMode(connection_.get());
  if (refused) return std::unexpected(std::move(*refused));
  return {};
}

std::expected<std::vector<PgRows>, PgFailure> PgConnection::Run() {
  const std::vector<const char*> queued = std::exchange(queued_, {});
  warning_.clear();
  if (is_lost() || PQpipelineSync(connection_.get()) == 0) {
    return std::unexpected(Lost(PQerrorMessage(connection_.get())));
  }
  std::vector<PgRows> rows;
  std::optional<PgFailure> refused;
  const MonoTime deadline = PgNow() + answer_within_;
  for (std::size_t at = 0;;) {
    auto result = Next(deadline);
    if (!result) return std::unexpected(std::move(result.error()));
    if (*result == nullptr) continue;
    PgRows one(*result);
    const ExecStatusType status = PQresultStatus(*result);
    if (status == PGRES_PIPELINE_SYNC) break;
    const char* const preparation = at < queued.size() ? queued[at] : nullptr;
    ++at;
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
      if (preparation == nullptr) rows.push_back(std::move(one));
      continue;
    }
    if (preparation != nullptr) prepared_.erase(preparation);
    if (status != PGRES_PIPELINE_ABORTED && !refused) refused = RefusalOf(*result, rows.size());
  }
  if (refused) {
    // What is prepared here, or what became of it, is not what this side believes.
    is_lost_ = is_lost_ || refused->kind == PgFailure::Kind::kUnknown ||
               IsOfAnotherSession(refused->sqlstate);
    return std::unexpected(std::move(*refused));
  }
  if (!warning_.empty()) {
    return std::unexpected(Lost("the commit was confirmed with a warning: " + warning_));
  }
  return rows;
}

}  // namespace recourse
