// One connection to PostgreSQL: statements go out together and are answered together. Blocking, for
// the thread of a lane; nothing of a URL or a password ever reaches a log line.
#pragma once

#include <libpq-fe.h>

#include <cstddef>
#include <expected>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/postgres/client/connect_failure.h"
#include "filters/ledger/postgres/pg_values.h"
#include "filters/ledger/unopened.h"
#include "proxy/base/clock.h"

namespace recourse {

struct PgOptions {
  std::string url{};            // postgres://…, or keywords and values as libpq knows them
  std::string password_file{};  // read at every connect; empty: none
  // How long an answer may take. A server that is stopped still acknowledges bytes, so TCP sees
  // nothing of it.
  Millis answer_within{3'000};
  // Told again and again, on the same thread, how long an answer or a connection has been awaited;
  // it asks nothing of the connection. Empty: nobody wants to know.
  std::function<void(Millis)> while_waiting{};
  bool unsafe_commit = false;  // accept a server that confirms commits it may lose
};

// Prepared at its first use, under its name; both live as long as the process.
struct PgStatement {
  const char* name = nullptr;
  const char* sql = nullptr;
};

struct PgFailure {
  // kUnknown: whether what was sent happened is not known: the answer did not come, or came with a
  // warning. kRefused: the server said no, and the transaction did not happen.
  enum class Kind : std::uint8_t { kUnknown, kRefused };
  Kind kind = Kind::kUnknown;
  std::string sqlstate{};  // of kRefused, or empty
  std::string text{};      // for people; without secrets
  std::size_t at = 0;      // the statement that was refused
  // Sent again, it may succeed: it met another transaction.
  bool is_conflict() const { return sqlstate == "40001" || sqlstate == "40P01"; }
  // It is about values that rows have, and says nothing of other rows.
  bool is_of_values() const {
    return sqlstate.starts_with("22") || sqlstate.starts_with("23") || sqlstate.starts_with("54");
  }
};

class PgConnection {
 public:
  static std::expected<std::unique_ptr<PgConnection>, Unopened> Open(const PgOptions& options);

  // Goes out with the next Run.
  void Queue(const PgStatement& statement, const PgArguments& arguments = {});
  // Sends what is queued as one transaction, or as a part of the one that it began, and waits for
  // all answers. After a failure of kUnknown the connection is of no more use.
  std::expected<std::vector<PgRows>, PgFailure> Run();
  // Text that is no prepared statement, each part for itself: DDL, BEGIN over two rounds.
  std::expected<void, PgFailure> Execute(const std::string& sql);

  // It is of no more use.
  void GiveUp() { is_lost_ = true; }
  bool is_lost() const { return is_lost_ || PQstatus(connection_.get()) != CONNECTION_OK; }
  // As whom it is connected.
  const char* role() const { return PQuser(connection_.get()); }
  int server_version() const { return PQserverVersion(connection_.get()); }
  // To wait for what the server says unasked.
  int socket() const { return PQsocket(connection_.get()); }

 private:
  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };
  explicit PgConnection(PGconn* connection, const PgOptions& options);

  // Connected, with nothing asked yet.
  static std::expected<std::unique_ptr<PgConnection>, Unopened> Connect(const PgOptions& options);
  std::expected<void, Unopened> Prepare(const PgOptions& options);
  std::string Timeouts() const;
  bool Send(const PgStatement& statement, const PgArguments& arguments);
  bool WaitFor(MonoTime deadline, bool may_write);
  std::expected<PGresult*, PgFailure> Next(MonoTime deadline);
  PgFailure Lost(std::string_view why);
  static void OnNotice(void* self, const PGresult* notice);

  const std::unique_ptr<PGconn, Finish> connection_;
  const Millis answer_within_;
  const std::function<void(Millis)> while_waiting_;
  std::set<std::string_view> prepared_;
  std::vector<const char*> queued_;  // since the last Run; of a preparation what it prepares
  std::string warning_;              // since the last Run
  bool is_lost_ = false;
};

// What became of something that was asked for that purpose.
Unopened UnopenedBy(const PgConnection& connection, const PgFailure& failure,
                    const PgPurpose& purpose);

// Time by which answers are awaited, whatever a test says of it.
inline MonoTime PgNow() { return SystemClock().Now(); }

// What is done about TLS where the URL does not say it: verify-full, but on this host. Fails with a
// line for people where it says less. Pure.
std::expected<std::string, std::string> SslModeFor(std::string_view hosts, std::string_view asked);

}  // namespace recourse
