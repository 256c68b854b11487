// A backend of documents, and what is true of each of its effects: whether something that happened
// later has made it untrue (semantics of a write, told anew for the test).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proxy/base/json/json.h"
#include "tests/sim/backend.h"

namespace recourse {

// PUT, PATCH and DELETE of "/doc/ID", POST to "/doc" makes one, POST to "/doc/ID/lock" and
// "/doc/ID/unlock" takes turns.
struct DocumentWrite {
  std::string method, path, body;
  std::string trace, principal;
  std::string made;  // path of what a POST made
  bool operator==(const DocumentWrite&) const = default;
};

// A request that reached the backend.
struct DocumentSent {
  enum class End : std::uint8_t { kRunning, kExecuted, kRejected, kUnknown };
  DocumentWrite write;
  End end = End::kRunning;  // as the process that sent it knows
  bool has_effect = false;
  int effect = 0;  // its number; the order of all effects
  MonoTime at{};
  std::uint64_t begun = 0;   // in the order of all that happens
  std::uint64_t ended = 0;   // 0: not yet
  bool is_answered = false;  // a client had the whole answer
  bool has_client = true;    // that waits for it
  bool is_expected = false;  // a call of a client, of which nothing has reached the backend yet
};

// Whether `later` makes what the answer of `earlier` says untrue, if it comes after it.
bool Supersedes(const DocumentWrite& later, const DocumentWrite& earlier);

class Documents final : public SimPeer {
 public:
  Documents(TestLoop& loop, Dice& dice, unsigned fault_percent)
      : loop_(loop), dice_(dice), fault_percent_(fault_percent) {}

  // What is older is forgotten, as the ledger's retention says.
  void RememberFor(Millis time) { remembers_ = time; }
  Step Receive(const HttpRequest& request) override;
  Step Probe(const HttpRequest& request) override;
  bool RefusesConnection() override { return false; }

  // A call that may be sent, and may not reach this backend; its place in sent().
  std::size_t Expect(DocumentWrite write);
  void Expected(std::size_t at, DocumentSent::End end);
  // The process is gone: what it had sent is not known to the next one.
  void Forget();
  std::uint64_t Tick() { return ++ticks_; }
  std::vector<DocumentSent>& sent() { return sent_; }
  // Of the answer that tells of this effect; nullptr: no effect has that number.
  DocumentSent* Find(int effect);
  int effects() const { return effects_; }
  // A document that exists, or an earlier one.
  std::string AnyDocument();
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  Task<void> End(std::size_t at, Millis delay, DocumentSent::End end);
  bool Execute(DocumentSent& sent);
  void JudgeAgain(const DocumentSent& sent);
  void WasWrittenDown(std::size_t expected);

  TestLoop& loop_;
  Dice& dice_;
  const unsigned fault_percent_;
  Millis remembers_ = std::chrono::hours(24 * 365);
  std::map<std::string, std::map<std::string, std::string>> documents_;
  std::vector<std::string> names_{"/doc/a", "/doc/b"};
  std::vector<DocumentSent> sent_;
  std::vector<std::string> problems_;
  std::uint64_t ticks_ = 0;
  int effects_ = 0;
  std::size_t life_begun_ = 0;  // index into sent_
};

}  // namespace recourse
