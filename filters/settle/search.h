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
  bool has_near = false;     // an element may be the one that is looked for, written otherwise
  bool goes_on = false;      // the page that was read last says that another one follows
  std::string external_ref;  // of the only match
  std::string match;         // that one; the same may be on two pages of a list that changes
  std::optional<Json> found;
  std::vector<std::string> asked;  // what every page was asked by
};

// Takes one more page in. Gives the request for the next one; nullopt: there is none, or no more
// may be read.
std::optional<HttpRequest> TakePage(const SettleRule& rule, const Backend& backend,
                                    const HttpRequest& asked, const Result<Answer>& result,
                                    Search& search);

// What they come to; `last` is the answer that was read last. One match is the effect. None is
// absence only where the last page says that nothing follows, where the elements have the compared
// place at all (what never matches proves nothing), and where none looks like the one.
ProbeReading JudgeSearch(const SettleRule& rule, const Search& search, const Result<Answer>& last);

}  // namespace recourse
