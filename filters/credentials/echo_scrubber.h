// Takes credentials that only Recourse has out of what a backend answers. Pure.
#pragma once

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

// Each occurrence becomes as many asterisks, so that no length changes; also those that a JSON
// writer or a url has escaped.
class EchoScrubber {
 public:
  EchoScrubber() = default;
  explicit EchoScrubber(std::vector<std::string> secrets);

  bool is_idle() const { return secrets_.empty(); }
  void Clean(std::span<char> text) const;
  void Clean(HttpResponse& response) const;

  // The next piece of a body: what of it, and of what was held back, may go on. `ends`: all of it.
  // The view is of `piece`, or stands until the next call.
  std::string_view Take(std::string_view piece, bool ends);

  // How much of the end of the text may go on as one of them.
  std::size_t BeginningAtEnd(std::string_view text) const;

 private:
  std::vector<std::string> secrets_;
  std::string held_;  // what may be the beginning of one
  std::string out_;
};

}  // namespace recourse
