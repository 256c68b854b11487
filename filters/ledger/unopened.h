// Why a ledger cannot be opened.
#pragma once

#include <string>

namespace recourse {

struct Unopened {
  std::string why{};      // a line for people, without a password
  bool may_pass = false;  // a later try may do, though nobody mends anything here
};

}  // namespace recourse
