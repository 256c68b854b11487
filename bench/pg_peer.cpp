// What an application does that makes one call durable with PostgreSQL alone: INSERT before the
// call, the call itself (POST to the backend), UPDATE with its answer. One thread and one
// connection to the database per client; all of them stay open, so that the CPU of the server's
// processes can be read from outside.
//
// usage: pg_peer CONNINFO BACKEND_PORT CLIENTS_MAX, then one line per run on the standard input:
//        CLIENTS SECONDS BODY_BYTES SEED. Prints "ready", then one JSON object per run.
//        BACKEND_PORT 0: nobody is called, and what is written are the rows that a shared ledger
//        writes of a call, by one statement for its begin and one for its outcome.
#include <libpq-fe.h>

#include <atomic>
#include <csignal>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/load.h"
#include "bench/sockets.h"

namespace recourse::bench {
namespace {

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS operations (key text PRIMARY KEY, phase text NOT NULL,"
    " request bytea NOT NULL, answer bytea, begun timestamptz NOT NULL DEFAULT now(),"
    " ended timestamptz) WITH (fillfactor = 50)";  // room for the answer beside its request
constexpr const char* kInsert =
    "INSERT INTO operations (key, phase, request) VALUES ($1, 'DISPATCHING', $2)"
    " ON CONFLICT DO NOTHING";
constexpr const char* kUpdate =
    "UPDATE operations SET phase = 'SUCCESS', answer = $2, ended = now() WHERE key = $1";

// The rows of a shared ledger, without partitions: stream and flow are updated in place.
constexpr const char* kLedgerSchema =
    "CREATE TABLE IF NOT EXISTS p_stream (stream bigint PRIMARY KEY, head bigint NOT NULL)"
    " WITH (fillfactor = 10);"
    "CREATE TABLE IF NOT EXISTS p_flow (flow uuid PRIMARY KEY, phase int NOT NULL,"
    " steps bigint NOT NULL) WITH (fillfactor = 70);"
    "CREATE TABLE IF NOT EXISTS p_intent (intent uuid PRIMARY KEY, key uuid NOT NULL);"
    "CREATE TABLE IF NOT EXISTS p_operation (key uuid PRIMARY KEY, op_stream bigint NOT NULL,"
    " op_number bigint NOT NULL, phase int NOT NULL, version bigint NOT NULL, flow uuid NOT NULL,"
    " last_stream bigint NOT NULL, last_number bigint NOT NULL, at timestamptz NOT NULL)"
    " WITH (fillfactor = 50);"
    "CREATE INDEX IF NOT EXISTS p_operation_flow ON p_operation (flow);"
    "CREATE TABLE IF NOT EXISTS p_event (stream bigint NOT NULL, number bigint NOT NULL,"
    " won boolean NOT NULL, at timestamptz NOT NULL, bytes bytea NOT NULL,"
    " PRIMARY KEY (stream, number));"
    "ALTER TABLE p_event ALTER bytes SET STORAGE EXTERNAL";
constexpr const char* kPutStream = "INSERT INTO p_stream VALUES ($1::bigint, 0)";
// Plans that were made when the tables were empty.
constexpr const char* kAsALedgerAsks =
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;"
    " SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off";
constexpr const char* kLedgerBegin =
    "WITH s AS (UPDATE p_stream SET head = $2::bigint WHERE stream = $1::bigint RETURNING 1),"
    " f AS (INSERT INTO p_flow SELECT $3::uuid, 1, 1 FROM s ON CONFLICT (flow) DO UPDATE"
    "  SET steps = p_flow.steps + 1 WHERE p_flow.phase = 1 RETURNING 1),"
    " i AS (INSERT INTO p_intent SELECT $4::uuid, $3::uuid FROM f ON CONFLICT DO NOTHING"
    "  RETURNING 1),"
    " o AS (INSERT INTO p_operation SELECT $3::uuid, $1::bigint, $2::bigint, 5, 1, $3::uuid,"
    "  $1::bigint, $2::bigint, now() FROM i ON CONFLICT DO NOTHING RETURNING 1)"
    " INSERT INTO p_event SELECT $1::bigint, $2::bigint, EXISTS (SELECT FROM o), now(), $5::bytea"
    " FROM s";
constexpr const char* kLedgerOutcome =
    "WITH s AS (UPDATE p_stream SET head = $2::bigint WHERE stream = $1::bigint RETURNING 1),"
    " o AS (UPDATE p_operation SET phase = 7, version = version + 1, last_stream = $1::bigint,"
    "  last_number = $2::bigint, at = now() FROM s WHERE key = $3::uuid AND phase = 5 RETURNING 1)"
    " INSERT INTO p_event SELECT $1::bigint, $2::bigint, EXISTS (SELECT FROM o), now(), $4::bytea"
    " FROM s";
constexpr std::size_t kEventBytes = 400;  // without what is kept of an answer

std::string BigEndian(std::uint64_t number) {
  std::string bytes(sizeof number, '\0');
  for (std::size_t i = bytes.size(); i-- > 0; number >>= 8U) {
    bytes[i] = static_cast<char>(number & 255U);
  }
  return bytes;
}

[[noreturn]] void DieOfDatabase(PGconn* database) {
  std::fprintf(stderr, "PostgreSQL: %s\n", PQerrorMessage(database));
  std::exit(1);
}

// One client: its connection to the database, and its keep-alive connection to the backend.
class Client {
 public:
  Client(const char* conninfo, std::uint16_t backend_port)
      : database_(PQconnectdb(conninfo)), backend_(backend_port == 0 ? -1 : Connect(backend_port)) {
    if (PQstatus(database_) != CONNECTION_OK) DieOfDatabase(database_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void MakeTables() { Check(PQexec(database_, backend_ < 0 ? kLedgerSchema : kSchema)); }

  // `number`: of this client.
  void Prepare(int number) {
    Check(PQprepare(database_, "begin", backend_ < 0 ? kLedgerBegin : kInsert, 0, nullptr));
    Check(PQprepare(database_, "outcome", backend_ < 0 ? kLedgerOutcome : kUpdate, 0, nullptr));
    if (backend_ >= 0) return;
    Check(PQexec(database_, kAsALedgerAsks));
    stream_ = BigEndian(static_cast<std::uint64_t>(number));
    Check(PQprepare(database_, "stream", kPutStream, 0, nullptr));
    Execute("stream", {stream_});
  }

  // False when the backend did not answer with success.
  bool Write(std::uint64_t id, const Request& request, std::size_t body_bytes) {
    if (backend_ < 0) {
      WriteRows(id, body_bytes);
      return true;
    }
    Execute("begin", {request.Id(), request.Bytes()});
    const bool is_answered = Post(request.Bytes());
    Execute("outcome", {request.Id(), answer_});
    return is_answered;
  }

 private:
  void WriteRows(std::uint64_t id, std::size_t body_bytes) {
    constexpr std::uint64_t kScatters = 0x9e3779b97f4a7c15;
    const std::string key = BigEndian(id * kScatters) + BigEndian(id);
    const std::string intent = BigEndian(id * kScatters + 1) + BigEndian(id);
    const std::string begun(kEventBytes, 'x'), ended(kEventBytes + body_bytes, 'x');
    Execute("begin", {stream_, BigEndian(++rows_), key, intent, begun});
    Execute("outcome", {stream_, BigEndian(++rows_), key, ended});
  }

  // Parameters in binary form: no escapes to make and to read.
  void Execute(const char* statement, std::initializer_list<std::string_view> parameters) {
    std::vector<const char*> values;
    std::vector<int> lengths;
    for (const std::string_view parameter : parameters) {
      values.push_back(parameter.data());
      lengths.push_back(static_cast<int>(parameter.size()));
    }
    const std::vector<int> formats(values.size(), 1);
    Check(PQexecPrepared(database_, statement, static_cast<int>(values.size()), values.data(),
                         lengths.data(), formats.data(), 1));
  }

  bool Post(std::string_view bytes) {
    if (::send(backend_, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size())) {
      Die("send");
    }
    answer_.clear();
    char buffer[16 * 1024];
    for (;;) {
      const ssize_t size = ::recv(backend_, buffer, sizeof buffer, 0);
      if (size <= 0) Die("recv");
      answer_.append(buffer, static_cast<std::size_t>(size));
      const std::size_t end = answer_.find("\r\n\r\n");
      if (end == std::string::npos) continue;
      const AnswerHead head = ReadHead(answer_);
      if (answer_.size() >= end + 4 + head.length) return head.status / 100 == 2;
    }
  }

  void Check(PGresult* result) {
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) DieOfDatabase(database_);
    PQclear(result);
  }

  PGconn* const database_;
  const int backend_;
  std::string answer_, stream_;
  std::uint64_t rows_ = 0;
};

using Clients = std::vector<std::unique_ptr<Client>>;

Tally RunOnce(Clients& clients, const Options& options) {
  std::vector<Tally> tallies(static_cast<std::size_t>(options.connections));
  std::atomic<std::uint64_t> next_id{options.seed << 32U};
  const std::uint64_t begin = NowNs();
  const std::uint64_t end = begin + static_cast<std::uint64_t>(options.seconds * 1e9);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < tallies.size(); ++i) {
      threads.emplace_back([&, i] {
        Request request(options);
        for (std::uint64_t now = NowNs(); now < end;) {
          const std::uint64_t id = ++next_id;
          request.MakeFresh(id);
          if (!clients[i]->Write(id, request, options.body_bytes)) ++tallies[i].failed;
          const std::uint64_t done = NowNs();
          tallies[i].histogram.Add(done - now);
          now = done;
        }
      });
    }
  }
  Tally all;
  all.elapsed_ns = NowNs() - begin;
  for (const Tally& tally : tallies) {
    all.histogram.Add(tally.histogram);
    all.failed += tally.failed;
  }
  return all;
}

int Serve(const char* conninfo, std::uint16_t backend_port, int clients_max) {
  Clients clients;
  for (int i = 0; i < clients_max; ++i) {
    clients.push_back(std::make_unique<Client>(conninfo, backend_port));
    if (i == 0) clients.front()->MakeTables();
    clients.back()->Prepare(i);
  }
  std::puts("ready");
  std::fflush(stdout);
  Options options{.port = backend_port, .method = "POST", .path = "/orders"};
  unsigned long seed = 0;
  while (std::scanf("%d %lf %zu %lu", &options.connections, &options.seconds, &options.body_bytes,
                    &seed) == 4) {
    if (options.connections < 1 || options.connections > clients_max) return 2;
    options.seed = seed;
    RunOnce(clients, options).Print();
  }
  return 0;
}

}  // namespace
}  // namespace recourse::bench

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: pg_peer CONNINFO BACKEND_PORT CLIENTS_MAX\n", stderr);
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  return recourse::bench::Serve(argv[1], recourse::bench::ParsePort(argv[2]), std::atoi(argv[3]));
}
