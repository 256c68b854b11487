// Which ledgers of a console a list lacks: whoever reads it has to know that.
#pragma once

#include <iosfwd>
#include <map>
#include <string>

#include "proxy/base/json/json.h"

namespace recourse {

class LedgerStates {
 public:
  explicit LedgerStates(std::ostream& err) : err_(err) {}  // outlives it

  // Of a page, or the last line of one: tells once of each that is away or refuses, and when it is
  // back. Where no console answered there is nothing to tell.
  void Tell(const Json& page);
  // Of the command that has listed: it fails where none of them answered.
  int exit_code() const;

 private:
  std::ostream& err_;
  std::map<std::string, std::string> lacking_;  // what was said of it, by name
  bool is_nobody_there_ = false;
};

}  // namespace recourse
