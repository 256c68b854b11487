// Which values make two calls of a tool the same: equal in its repeats, different between its
// intents. Pure.
//
// Merging two intents loses a write, and splitting one only leaves things as they are. So whatever
// is not shown by counts stays in the key.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "policy/suggest/seen_tools.h"

namespace recourse {

struct SuggestedIdentity {
  std::size_t calls = 0, intents = 0, repeats = 0;
  // Places that are enough to tell every intent from every other.
  std::vector<std::string> anchors;
  // Empty: all arguments are the key.
  std::vector<std::string> identity;
  // JSON pointers of times and numbers that are new with every attempt.
  std::vector<std::string> ignore;
  // Texts that were worded anew: another wording of a repeat is refused, not sent again.
  std::vector<std::string> reworded;
  std::string why;  // of the identity, or what is undecided
  bool is_decided = false;
  bool is_all = false;  // shown to be all arguments
  // Why it is not, though `why` gives it: each a sentence for who looks at it.
  std::vector<std::string> doubts;
  std::vector<std::string> doubted;  // places of the identity that may be new with every attempt
  std::size_t after_answer = 0;      // of the repeats: their client had the first one's answer
  // Of each call of the tool, the sighting that began its intent, as far as repeats are known.
  std::vector<std::size_t> intent_of;
};

SuggestedIdentity InferIdentity(const std::vector<Sighting>& seen, const SeenTool& tool);

}  // namespace recourse
