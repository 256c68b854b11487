// Policies from text, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "policy/language/loader.h"

namespace recourse {

// The errors and warnings, one per line.
inline std::string ProblemsOf(const LoadedPolicy& loaded) {
  std::string out;
  for (const PolicyProblem& problem : loaded.problems) out += problem.ToString() + "\n";
  return out;
}

// `yaml` without its version line; fails the test when it does not load.
inline std::shared_ptr<const Policy> LoadGood(const std::string& yaml) {
  const LoadedPolicy loaded = LoadPolicyText("policy.yaml", "version: 1\n" + yaml);
  EXPECT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  return loaded.ok() ? loaded.policy : std::make_shared<const Policy>();
}

}  // namespace recourse
