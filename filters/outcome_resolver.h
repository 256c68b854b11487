// How the chain asks for an operation of unknown outcome to be settled. Implemented by
// filters/settle.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include "filters/ledger/ledger.h"
#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

// What a step that was proved absent looks like later.
enum class SecondLook : std::uint8_t {
  kAbsent,
  kTookEffect,  // after all; recorded: read it again
  kPerhaps,     // there is an effect, which may be another call's
  kNothing,     // it cannot be asked, or the answer tells nothing
};

// What came of asking now.
enum class Settled : std::uint8_t {
  kYes,      // it left UNCERTAIN: read it again
  kNo,       // it is not watched, or one answer could not tell
  kRunning,  // its server is still at work on it
  kLost,  // its server will not tell: its task ended in a way that proves nothing, or is forgotten
};

// What a server told an agent about a call that may be of unknown outcome.
struct ServerReport {
  std::string backend{}, caller{}, session{};
  std::string server{};          // ServerKeyOf() the backend that said it
  std::string method{}, task{};  // of a task: what the agent asked about it
  std::uint64_t operation = 0;   // of an answer that came late: whose it is, and of which attempt
  std::uint16_t attempt = 0;
  Digest key{};           // of that operation
  std::string message{};  // the response
};

// What a human says became of an operation of unknown outcome.
struct HumanWord {
  std::uint64_t operation = 0;
  std::optional<Digest> key{};  // see Transition::key
  bool happened = false;        // false: it had no effect
  std::string external_ref{};   // what the backend calls the effect; may be empty
  std::string reason{};         // who says so and why, for the log
  bool corrects_proof = false;  // it may be of one, too, that was proved absent
};

class OutcomeResolver {
 public:
  virtual ~OutcomeResolver() = default;

  // Takes an UNCERTAIN event into the set that is probed in the background. Does nothing for events
  // without a probe and without a task, for known operations and when the set is full: then the
  // next repeat brings it again. Thread-safe, does not wait.
  virtual void Watch(const Event& uncertain) = 0;

  // Probes a watched operation now and waits until it left UNCERTAIN, at most until `deadline`.
  // Call on `executor`'s thread; resumes there.
  virtual Task<Settled> SettleNow(std::uint64_t operation, MonoTime deadline,
                                  Executor& executor) = 0;

  // Makes a human's word durable, with what it means to the flow: `effect` goes before what the
  // policy says. The same word once more changes nothing. Gives the operation's last event; fails
  // with a line for people. Call on `executor`'s thread; resumes there.
  virtual Task<std::expected<Event, std::string>> SettleBy(
      HumanWord word, std::optional<Transition::FlowEffect> effect, Executor& executor) = 0;

  // An answer that passes may settle what it is about. Thread-safe, does not wait; what comes
  // faster than it can be looked at is dropped.
  virtual void Tell(ServerReport news) = 0;

  // Probes a step in PROVEN_ABSENT once more. Only an effect that its settle request finds by the
  // operation's own key is surely its own: after the proof the same intent may have been sent under
  // another key. Call on `executor`'s thread; resumes there.
  virtual Task<SecondLook> LookAgain(Event absent, Executor& executor) = 0;

  // Asks once whether nothing is left of a step that an undo request was sent for. False: something
  // is, or nothing tells. Call on `executor`'s thread; resumes there.
  virtual Task<bool> SaysGone(Event undone, Executor& executor) = 0;
};

}  // namespace recourse
