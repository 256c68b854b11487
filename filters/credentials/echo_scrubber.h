// Takes credentials that only Recourse has out of what a backend answers. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/http/http_message.h"

namespace recourse {

namespace limits {
// What is shorter stands in answers by chance.
inline constexpr std::size_t kScrubbedBytesMin = 8;
}  // namespace limits

// Each occurrence becomes as many asterisks, so that no length changes; also those of which a JSON
// writer, a url or a page has escaped some characters.
class EchoScrubber {
 public:
  EchoScrubber() = default;
  explicit EchoScrubber(std::vector<std::string> secrets);

  bool is_idle() const { return secrets_.empty(); }
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

  std::vector<std::string> secrets_;
  std::array<bool, 256> begins_{};  // the bytes with which one may begin
  std::string held_;                // what may be the beginning of one
  std::string out_;
};

}  // namespace recourse
