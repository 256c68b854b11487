// The lease protocol of one operation, two processes and their database, as a machine of small
// numbers: every step may be delayed for ever, which is what a pause is, but for what the kernel
// does. Each rule of the protocol can be left out.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace recourse::lease_model {

enum class Rule : unsigned char {
  kFence,                  // a batch is written only while its stream lives
  kHead,                   // and only behind the rows that it was made for
  kBeatIsCompared,         // a stream is dead only at the beat that was seen
  kLeaseFromSending,       // not from the answer
  kLeaseFromFirstSending,  // of a batch whose answer was lost, and which was sent again
  kCheck,                  // of the lease, before an attempt is sent
  kWatchdog,               // ends a process between the check and the send
  kLostOwnerIsUnknown,     // and never "not sent"
  kClockCountsPauses,      // of the machine
  kAbsenceFromTakeOver,    // not from the dispatch
  kTestimonyOfItsAttempt   // an outcome is that of one attempt
};

struct Found {
  std::size_t states = 0;
  std::string violation;           // empty: none
  std::vector<std::string> trace;  // of steps that lead to it
};

// All states that can be reached without those rules, up to the first violation.
Found Explore(const std::set<Rule>& without);

}  // namespace recourse::lease_model
