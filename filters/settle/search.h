// A list in the answers to a settle request, searched for what a write made. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "filters/settle/probe.h"

namespace recourse {

// What the pages that were read so far have shown.
struct Search {
  std::vector<std::string> wanted;  // a value for each test of the rule
  int pages = 0;
  int matches = 0;
  bool has_elements = false;
  bool knows_place = false;  // some element has what the tests look at, whatever it says
  bool is_unclear = false;   // a page was no such list, was cut, or may have been old
  std::string external_ref;  // of the only match
};

// Takes one more page in. Gives the request for the next one; nullopt: there is none, or no more
// may be read.
std::optional<HttpRequest> TakePage(const SettleRule& rule, const Backend& backend,
                                    const HttpRequest& asked, const Result<Answer>& result,
                                    Search& search);

// What they come to; `last` is the answer that was read last. One match is the effect. None is
// absence only where the last page says that nothing follows, and where the elements have the
// compared place at all: what never matches proves nothing.
ProbeReading JudgeSearch(const SettleRule& rule, const Search& search, const Result<Answer>& last);

}  // namespace recourse
