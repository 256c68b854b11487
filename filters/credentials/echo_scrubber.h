// Takes credentials that only Recourse has out of what a backend answers. Pure.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/http/http_message.h"

namespace recourse {

// Each occurrence becomes as many asterisks, so that no length changes; also those in another case,
// cut by line ends, or of which a JSON writer, a url or a page has escaped some characters. A copy
// costs little.
class EchoScrubber {
 public:
  EchoScrubber() = default;
  // The values of fields.
  explicit EchoScrubber(const std::vector<std::string>& values);

  bool is_idle() const { return !known_ || known_->forms.empty(); }
  // How much of the end of the text may go on as one of them; `ends`: nothing does.
  std::size_t Clean(std::span<char> text, bool ends) const;
  void Clean(HttpResponse& response) const;

  // The next piece of a body: what of it, and of what was held back, may go on. `ends`: all of it.
  // The view is of `piece`, or stands until the next call.
  std::string_view Take(std::string_view piece, bool ends);

 private:
  struct Found {
    std::size_t at, size;
  };
  // The next one from `from` on: the longest of those that begin there. Size 0: none before `at`,
  // where one may begin that goes on behind the text, or which is its end.
  Found FindNext(std::string_view text, std::size_t from, bool ends) const;

  struct Known {
    // By their first letter, in lower case.
    std::map<char, std::vector<std::string>> forms;
    // The bytes with which one may begin, and the pairs of bytes.
    std::array<bool, 256> begins{};
    std::bitset<std::size_t{256} * 256> pairs;
  };
  static void AddBegin(const std::string& form, Known& known);
  static void AddEscapes(Known& known);
  bool MayBeginAt(std::string_view text, std::size_t at) const;

  std::shared_ptr<const Known> known_;  // null: nothing
  std::string held_;                    // what may be the beginning of one
  std::string out_;
};

}  // namespace recourse
