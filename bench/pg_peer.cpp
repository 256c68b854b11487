// What an application does that makes one call durable with PostgreSQL alone: INSERT before the
// call, the call itself (POST to the backend), UPDATE with its answer. One thread and one
// connection to the database per client; all of them stay open, so that the CPU of the server's
// processes can be read from outside.
//
// usage: pg_peer CONNINFO BACKEND_PORT CLIENTS_MAX (BACKEND_PORT 0: nobody is called), then one
// line per run on the standard input:
//        CLIENTS SECONDS BODY_BYTES SEED. Prints "ready", then one JSON object per run.
#include <libpq-fe.h>

#include <atomic>
#include <csignal>
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

  void Run(const char* statement) { Check(PQexec(database_, statement)); }

  void Prepare() {
    Check(PQprepare(database_, "insert", kInsert, 2, nullptr));
    Check(PQprepare(database_, "update", kUpdate, 2, nullptr));
  }

  // False when the backend did not answer with success.
  bool Write(const Request& request) {
    const std::string key(request.Id());
    Execute("insert", key, request.Bytes());
    const bool is_answered = backend_ < 0 || Post(request.Bytes());
    if (backend_ < 0) answer_ = request.Bytes();
    Execute("update", key, answer_);
    return is_answered;
  }

 private:
  // Parameters in binary form: no escapes to make and to read.
  void Execute(const char* statement, const std::string& key, std::string_view bytes) {
    const char* values[] = {key.data(), bytes.data()};
    const int lengths[] = {static_cast<int>(key.size()), static_cast<int>(bytes.size())};
    const int formats[] = {1, 1};
    Check(PQexecPrepared(database_, statement, 2, values, lengths, formats, 1));
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
  std::string answer_;
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
          request.MakeFresh(++next_id);
          if (!clients[i]->Write(request)) ++tallies[i].failed;
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
    if (i == 0) clients.front()->Run(kSchema);
    clients.back()->Prepare();
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
