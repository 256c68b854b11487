// Stands between a ledger and its PostgreSQL, and loses an answer or gives one of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/ledger/ledger_test_support.h"

namespace recourse {

// Within a minute.
inline bool HappensSoon(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Also reads the ledger's own words: a batch is known by its first statement.
class PostgresRelay {
 public:
  enum class Loses : std::uint8_t {
    kNothing,
    kBatch,   // the next batch does not arrive
    kAnswer,  // the next batch arrives, and its answer is lost
  };
  // `server`: the directory of the server's socket.
  explicit PostgresRelay(std::string server);
  ~PostgresRelay();

  const std::string& directory() const { return directory_.path(); }
  void LoseNext(Loses what) { loses_ = what; }
  // What the server is said to have said; after another severity than ERROR the connection is over.
  struct Word {
    std::string sqlstate{}, severity{"ERROR"};
    bool is_committed = false;  // the batch has arrived all the same
  };
  void AnswerNext(Word to_batch);
  void RefuseNext(std::string sqlstate);  // who connects next
  // Nobody gets through, and who was connected is cut off.
  void SetAway(bool is_away);
  // Connected, but nothing gets through; what has been said is passed on once it may be.
  void SetSilent(bool is_silent);
  int connects() const { return connects_; }  // that were tried
  bool has_lost() const { return has_lost_; }

 private:
  struct Link {
    int client = -1, server = -1;
  };
  void Run();
  bool Round(std::vector<Link>& links);
  void Accept(std::vector<Link>& links);
  bool FromClient(const Link& link);
  static bool Answer(const Link& link, std::string batch, const Word& word);
  static bool FromServer(const Link& link);
  static void Close(const Link& link);

  const std::string server_;
  TempDirectory directory_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  std::atomic<Loses> loses_ = Loses::kNothing;
  std::atomic<bool> has_lost_ = false;
  std::atomic<bool> is_away_ = false;
  std::atomic<bool> is_silent_ = false;
  std::atomic<int> connects_ = 0;
  std::mutex mutex_;
  std::optional<Word> to_batch_, to_next_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace recourse
