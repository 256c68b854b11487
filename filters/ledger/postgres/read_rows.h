// What has been read for one verb of rows that others change too: what is decided on it happens
// only if it is still so. What it lacks it wishes for, and what many verbs lack is read in one
// round trip.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/lease/clients.h"
#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/stored.h"
#include "filters/ledger/rules/known.h"

namespace recourse {

// What a verb lacks.
struct Wishes {
  std::set<Uuid> keys, intents, flows, histories;
  std::set<std::uint64_t> operations, rows, streams;
  bool open_writes = false, claims = false;

  bool empty() const {
    return keys.empty() && intents.empty() && flows.empty() && histories.empty() &&
           operations.empty() && rows.empty() && streams.empty() && !open_writes && !claims;
  }
  void Add(const Wishes& more);
};

// What was read, of one verb or of many.
struct Fetched {
  Versions versions;
  std::map<std::uint64_t, std::optional<Uuid>> keys_of;  // of operations
  std::map<std::uint64_t, StoredRow> rows;
  std::map<std::uint64_t, StreamSign> streams;
  std::map<Uuid, std::vector<StoredRow>> histories;        // rows of a flow's name, in their order
  std::optional<std::vector<std::uint64_t>> open, claims;  // operations
};

// Reads what is wished for. A round trip, two where rows name further ones.
std::expected<Fetched, PgFailure> Fetch(PgConnection& connection, const Wishes& wishes,
                                        const std::string& group);

// One verb's.
class ReadRows {
 public:
  template <class Fact>
  using Maybe = std::optional<Result<Fact>>;  // nullopt: wished for

  // `guesses`: what nobody has read yet is taken to be new.
  ReadRows(RowDecryptor& opener, bool guesses) : opener_(opener), guesses_(guesses) {}

  void Take(const Fetched& fetched);
  const Wishes& wishes() const { return wishes_; }
  const Versions& versions() const { return fetched_.versions; }
  bool guesses() const { return guesses_; }
  bool has_guessed() const { return has_guessed_; }
  // What this process has written last. Another one may have gone on since then.
  void Remember(const Uuid& key, const StoredFlow& flow) { fetched_.versions.flows[key] = flow; }
  void Remember(const Uuid& key, const StoredOperation& operation, StoredRow row);

  // nullptr: wished for. A version of 0: there is none.
  const StoredOperation* Operation(const Digest& key);
  const StoredIntent* Intent(const Digest& digest);
  const StoredFlow* Flow(const Digest& key);
  const StoredRow* Row(std::uint64_t row);
  const StreamSign* Stream(std::uint64_t stream);
  // Operations that may be open, and that may wait for a human. nullptr: wished for.
  const std::vector<std::uint64_t>* OpenWrites();
  // Whether that mark was an earlier one when it was read before them.
  bool HasMoved(const Digest& mark, const StoredIntent& now) const;
  const std::vector<std::uint64_t>* Claims();

  Maybe<std::optional<FoundOperation>> FoundAt(const Digest& key, const StoredOperation& stored);
  Maybe<std::optional<FoundOperation>> Found(std::uint64_t operation);
  struct ByOperation {
    Digest key{};
    const StoredOperation* stored = nullptr;  // null: there is no such operation
  };
  std::optional<ByOperation> OfOperation(std::uint64_t operation);
  Maybe<Event> Decode(std::uint64_t row, AnswerPart part);
  // The flow of that name that is not over.
  Maybe<std::optional<FlowState>> State(const Digest& key);

 private:
  template <class Row>
  const Row* Look(const Digest& digest, std::map<Uuid, Row>& known, std::set<Uuid>& wished);

  RowDecryptor& opener_;
  const bool guesses_;
  bool has_guessed_ = false;
  Fetched fetched_;
  Wishes wishes_;
  std::map<Uuid, StoredIntent> before_open_;
};

}  // namespace recourse
