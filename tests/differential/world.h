// What both engines of the differential test stand on: a log that fails or runs short when told to,
// clients that wait, and texts of all that a verb replies, so that replies can be compared.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/memory/memory_event_log.h"
#include "filters/ledger/model/waiting_clients.h"
#include "tests/support/seeded_random.h"

namespace recourse::differential {

// What the storage does next, the same for both.
struct Storage {
  bool fails = false;
  std::uint64_t free_bytes = std::uint64_t{1} << 40;
};

// Rows in memory that outlive the engine.
class StubbornLog final : public EventLog {
 public:
  StubbornLog(std::shared_ptr<MemoryEventLog> rows, const Storage& storage)
      : rows_(std::move(rows)), storage_(storage) {}

  std::expected<void, AppendError> Append(const RowBatch& batch) override {
    if (storage_.fails) return std::unexpected(AppendError{"it was told to", false});
    return rows_->Append(batch);
  }
  std::unique_ptr<Reader> NewReader() override { return rows_->NewReader(); }
  std::uint64_t last_seq() override { return rows_->last_seq(); }
  LogBase base() override { return rows_->base(); }
  std::string LoadAges() override { return rows_->LoadAges(); }
  LogSizes sizes() override { return rows_->sizes(); }
  LogSpace Space(std::uint64_t /*need*/) override { return {storage_.free_bytes, 0}; }

 private:
  const std::shared_ptr<MemoryEventLog> rows_;
  const Storage& storage_;
};

class Link final : public ClientLink {
 public:
  bool HasLeft() const override { return false; }
  bool MayHaveLeft() const override { return false; }
};

// One engine with its log and its clients.
template <class Engine>
class Side {
 public:
  using Start = std::expected<std::unique_ptr<Engine>, std::string> (*)(LedgerParts, const Clock&);

  Side(const Clock& clock, const Storage& storage, Start start)
      : clock_(clock), storage_(storage), start_(start) {}

  // Over the rows that are there. `keys`: lines of a key file; empty: rows in clear.
  bool Open(const std::string& keys, bool is_restored) {
    engine_.reset();
    LedgerParts parts{.resources = nullptr,
                      .log = std::make_unique<StubbornLog>(rows_, storage_),
                      .cold = nullptr};
    if (!keys.empty()) {
      parts.keys = std::make_shared<LedgerKeys>(*KeyRing::Parse(keys), random_);
    }
    if (is_restored) parts.accept_restored = [] { return std::expected<void, std::string>(); };
    auto engine = start_(std::move(parts), clock_);
    if (!engine) return false;
    engine_ = std::move(*engine);
    return true;
  }
  // From now on waits for nothing.
  void Leave(std::size_t client) { waits_[client] = NewWait(); }
  ClientWait* wait(std::size_t client) { return waits_[client].get(); }
  Engine& engine() { return *engine_; }
  EventLog& log() { return *rows_; }

  static constexpr std::size_t kClients = 4;

 private:
  std::unique_ptr<ClientWait> NewWait() {
    auto wait = std::make_unique<ClientWait>();
    wait->Begin(clients_, link_);
    return wait;
  }

  const Clock& clock_;
  const Storage& storage_;
  const Start start_;
  std::shared_ptr<MemoryEventLog> rows_ = std::make_shared<MemoryEventLog>();
  SeededRandom random_{7};  // both seal with equal salts
  Link link_;
  WaitingClients clients_;
  std::vector<std::unique_ptr<ClientWait>> waits_{NewWaits()};
  std::unique_ptr<Engine> engine_;

  std::vector<std::unique_ptr<ClientWait>> NewWaits() {
    std::vector<std::unique_ptr<ClientWait>> waits;
    for (std::size_t i = 0; i < kClients; ++i) waits.push_back(NewWait());
    return waits;
  }
};

std::string Tell(const Error& error);
std::string Tell(const Event& event);
std::string Tell(const FlowState& state);
std::string Tell(const Begun& begun);
std::string Tell(const ApprovalOutcome& outcome);
std::string Tell(const PendingApproval& claim);
std::string Tell(const LedgerStats& stats);
inline std::string Tell(bool value) { return value ? "true" : "false"; }
template <class T>
std::string Tell(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += Tell(value) + ";";
  return text;
}
template <class T>
std::string Tell(const Result<T>& result) {
  if (!result) return Tell(result.error());
  if constexpr (std::is_void_v<T>) {
    return "done";
  } else {
    return Tell(*result);
  }
}

}  // namespace recourse::differential
