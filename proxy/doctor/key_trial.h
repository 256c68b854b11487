// `recourse doctor --try-key`: whether a backend really de-duplicates by the key that the policy
// gives its calls. Makes a call, with its effects, twice under one key and once under another.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "policy/model/policy.h"
#include "proxy/doctor/check.h"

namespace recourse {

struct KeyTrial {
  std::string call;  // "POST payments /v1/charges"; empty: nothing is tried
  std::string body_file;
  std::vector<std::string> headers;  // "Name: value"
};

struct KeyFacts {
  struct Answer {
    std::string failure;  // no answer came
    int status = 0;
    std::string body;
  };
  std::string subject;
  std::string problem;            // why nothing was sent
  std::array<Answer, 3> answers;  // two under one key, then one under another
};
// Pure.
Check JudgeKey(const KeyFacts& facts);

// Blocking.
Check TryKey(const Policy& policy, const KeyTrial& trial);

}  // namespace recourse
