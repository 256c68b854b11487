#include "tests/ledger/postgres_server.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/postgres/schema.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse {
namespace {

// Another version can be named.
std::string Program(std::string_view name) {
  const char* const programs = std::getenv("RECOURSE_POSTGRES");
  return (programs != nullptr ? std::string(programs) : "/usr/lib/postgresql/15/bin") + "/" +
         std::string(name);
}
constexpr std::string_view kReady = "ready to accept connections";

// PostgreSQL refuses to run as root.
const passwd* OtherUser() { return getuid() == 0 ? getpwnam("postgres") : nullptr; }

// Its output goes into `out`.
pid_t Start(const std::vector<std::string>& words, int out) {
  const passwd* const user = OtherUser();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  if (user != nullptr &&
      (setgroups(0, nullptr) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)) {
    _exit(126);
  }
  prctl(PR_SET_PDEATHSIG, SIGQUIT);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments.front(), arguments.data());
  _exit(127);
}

class PostgresServer {
 public:
  PostgresServer() : directory_(MemoryPath()) {
    if (const passwd* const user = OtherUser()) {
      if (chown(directory_.path().c_str(), user->pw_uid, user->pw_gid) != 0) Fail("chown", "");
    }
    const std::string data = directory_.data();
    Run({Program("initdb"), "-D", data, "-A", "trust", "-U", "recourse", "-E", "UTF8", "--locale=C",
         "--no-sync", "--no-instructions"});
    Serve({Program("postgres"), "-D", data, "-k", directory_.path(), "-c",
           "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off", "-c",
           "shared_buffers=32MB", "-c", "max_connections=60", "-c", "logging_collector=off"});
  }
  ~PostgresServer() {
    kill(pid_, SIGINT);
    waitpid(pid_, nullptr, 0);
    reader_.join();
    close(log_);
  }

  // A machine that stands still may take longer for a connection than the two seconds after which
  // the ledger gives up.
  std::string Url(std::string_view schema) const {
    return "host=" + directory_.path() +
           " user=recourse dbname=postgres connect_timeout=60 options=-csearch_path=" +
           std::string(schema);
  }

 private:
  static void Fail(std::string_view what, std::string_view output) {
    ADD_FAILURE() << what << ": " << output;
    std::abort();
  }

  static void Run(const std::vector<std::string>& words) {
    int ends[2];
    if (pipe(ends) != 0) Fail("pipe", "");
    const pid_t pid = Start(words, ends[1]);
    close(ends[1]);
    std::string output;
    char part[4096];
    for (ssize_t got = 0; (got = read(ends[0], part, sizeof part)) > 0;) {
      output.append(part, static_cast<std::size_t>(got));
    }
    close(ends[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) Fail(words.front(), output);
  }

  // What it says later is read and dropped, or it would stop for a full pipe.
  void Serve(const std::vector<std::string>& words) {
    int ends[2];
    if (pipe(ends) != 0) Fail("pipe", "");
    pid_ = Start(words, ends[1]);
    close(ends[1]);
    log_ = ends[0];
    std::string output;
    char part[4096];
    while (output.find(kReady) == std::string::npos) {
      const ssize_t got = read(log_, part, sizeof part);
      if (got <= 0) Fail(words.front(), output);
      output.append(part, static_cast<std::size_t>(got));
    }
    reader_ = std::thread([log = log_] {
      char rest[4096];
      while (read(log, rest, sizeof rest) > 0) {
      }
    });
  }

  TempDirectory directory_;
  pid_t pid_ = -1;
  int log_ = -1;
  std::thread reader_;
};

PostgresServer& Server() {
  static PostgresServer server;
  return server;
}

std::unique_ptr<PgConnection> Connect(const std::string& url) {
  auto opened = PgConnection::Open({.url = url, .answer_within = std::chrono::minutes(1)});
  if (!opened) {
    ADD_FAILURE() << opened.error().why;
    std::abort();
  }
  return std::move(*opened);
}

// One connection makes all that tests begin with: a server has a process for each, whose start
// costs more than what is asked of it.
std::string Fresh(bool has_tables) {
  static std::mutex mutex;
  static int schemas = 0;
  const std::lock_guard lock(mutex);
  Server();  // ends after the connection
  static const std::unique_ptr<PgConnection> kept = Connect(Server().Url("public"));
  const std::string schema = "ledger" + std::to_string(++schemas);
  const auto created = kept->Execute("CREATE SCHEMA " + schema + "; SET search_path = " + schema);
  EXPECT_TRUE(created) << (created ? "" : created.error().text);
  if (has_tables) {
    const auto migrated = MigratePgSchema(*kept);
    EXPECT_TRUE(migrated) << (migrated ? "" : migrated.error().why);
  }
  return Server().Url(schema);
}

}  // namespace

std::string FreshPostgresUrl() { return Fresh(false); }

std::string FreshPostgresLedger() { return Fresh(true); }

std::unique_ptr<Ledger> OpenTestPostgres(const std::string& url, const Clock& clock,
                                         std::shared_ptr<const LedgerKeys> keys) {
  auto opened = TryOpenTestPostgres(url, clock, std::move(keys), "install-1");
  EXPECT_TRUE(opened) << (opened ? "" : opened.error());
  return opened ? std::move(*opened) : nullptr;
}

std::expected<std::unique_ptr<Ledger>, std::string> TryOpenTestPostgres(
    const std::string& url, const Clock& clock, std::shared_ptr<const LedgerKeys> keys,
    const std::string& install_id) {
  auto opened = OpenPostgresLedger({.store = {.connection = {.url = url},
                                              .group = "shop/checkout",
                                              .pod = "pod",
                                              .version = "test",
                                              .install_id = install_id,
                                              .time = PgStoreOptions::Time::kProcess},
                                    .keys = std::move(keys)},
                                   clock);
  if (!opened) return std::unexpected(opened.error().why);
  return std::move(*opened);
}

std::unique_ptr<Ledger> OpenTimedPostgres(const std::string& url, const Clock& clock,
                                          bool observes) {
  auto opened = OpenPostgresLedger({.store = {.connection = {.url = url},
                                              .group = "shop/checkout",
                                              .pod = "pod",
                                              .version = "test",
                                              .install_id = "install-1"},
                                    .wait = std::chrono::minutes(1),
                                    .observes = observes},
                                   clock);
  EXPECT_TRUE(opened) << (opened ? "" : opened.error().why);
  return opened ? std::move(*opened) : nullptr;
}

PGconn* PlainConnection(const std::string& url) {
  const char* const keywords[] = {"dbname", nullptr};
  const char* const values[] = {url.c_str(), nullptr};
  return PQconnectdbParams(keywords, values, 1);
}

std::string SocketOf(const std::string& url) {
  const std::size_t at = url.find('=') + 1;
  return url.substr(at, url.find(' ') - at);
}

std::string UrlThrough(const std::string& directory, const std::string& url) {
  return "host=" + directory + url.substr(url.find(' '));
}

}  // namespace recourse
