#include "filters/ledger/lmdb/map_fault.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

std::atomic<int> g_exit_code{0};  // 0: not asked for

// Written beforehand, as a signal handler may not allocate. No time stamp: formatting one is not
// safe there either.
std::string LineOf(std::string_view reason) {
  return ObjectText([&](JsonObject& json) {
           json.Text("level", "error");
           json.Text("msg",
                     "the ledger cannot be read any more; the process ends, and its next start "
                     "checks the "
                     "file");
           json.Text("reason", reason);
         }) +
         '\n';
}
const std::string g_unreadable =
    LineOf("its file is shorter than it was, or its disk cannot be read");
const std::string g_damaged_page = LineOf("a page of it is damaged");

void OnBus(int) { MapFault(MapTrouble::kUnreadable); }

}  // namespace

void ExitOnMapFault(int exit_code) {
  g_exit_code.store(exit_code);
  struct sigaction action = {};
  action.sa_handler = OnBus;
  (void)sigaction(SIGBUS, &action, nullptr);  // fails for wrong arguments only
}

void MapFault(MapTrouble trouble) {
  const int exit_code = g_exit_code.load();
  if (exit_code == 0) std::abort();
  const std::string& line = trouble == MapTrouble::kUnreadable ? g_unreadable : g_damaged_page;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  _exit(exit_code);
}

}  // namespace recourse
