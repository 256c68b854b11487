// What is read without writing: lists, and operations that somebody waits for. What this process
// changes is told at once; for the rest the database is asked, more rarely the longer one waits.
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "filters/ledger/engine/join_table.h"
#include "filters/ledger/postgres/facts.h"
#include "filters/ledger/postgres/store.h"
#include "filters/ledger/postgres/waits.h"

namespace recourse {

class PgLists {
 public:
  // All of them outlive it.
  PgLists(LocalFacts& local, PgStore& store, PgJobs& jobs)
      : local_(local), store_(store), jobs_(jobs) {}

  void Add(JoinWait* join) { new_joins_.push_back(join); }
  void Add(const PgListWait& list) { lists_.push_back(list); }
  bool has_new() const { return !new_joins_.empty() || !lists_.empty(); }
  // `changed`: operations that may have moved just now. False: the database is away.
  bool Serve(const std::set<std::uint64_t>& changed);
  // How soon the database is to be asked again; max: nobody waits.
  Millis PollsIn() const { return joined_.empty() ? Millis::max() : poll_every_; }
  void ExpireJoins();
  // The database is away.
  void GiveUp();
  void EndJoins();

 private:
  using IsDone = std::function<bool()>;
  struct ListedFlow {
    Digest key{};
    bool is_others = false;
  };
  bool Fill(ReadRows& rows, const IsDone& is_done);
  bool FillFound(ReadRows& rows, const std::vector<std::uint64_t>& operations);
  bool Serve(PgEventsWait& wait);
  bool Serve(PgClaimsWait& wait);
  bool Serve(PgFlowsWait& wait);
  bool ServeLists();
  // nullopt: the database is away.
  std::optional<std::vector<ListedFlow>> FlowsOf(const PgPage& page);
  bool ServeJoins(bool has_news);
  void Answer(JoinWait& wait, ReadRows& rows, bool is_new);
  std::expected<std::vector<std::uint64_t>, PgFailure> IdsOf(const PgStatement& statement,
                                                             PgArguments arguments,
                                                             const PgPage& page);

  LocalFacts& local_;
  PgStore& store_;
  PgJobs& jobs_;
  std::vector<JoinWait*> new_joins_;
  std::vector<PgListWait> lists_;
  JoinTable joins_;
  std::set<std::uint64_t> joined_;  // operations in joins_
  Millis poll_every_{};
};

}  // namespace recourse
