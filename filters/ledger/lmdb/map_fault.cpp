#include "filters/ledger/lmdb/map_fault.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace recourse {
namespace {

std::atomic<int> g_exit_code{0};  // 0: not asked for

void Write(const char* text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void OnBus(int) { MapFault("its file is shorter than it was, or its disk cannot be read"); }

}  // namespace

void ExitOnMapFault(int exit_code) {
  g_exit_code.store(exit_code);
  struct sigaction action = {};
  action.sa_handler = OnBus;
  (void)sigaction(SIGBUS, &action, nullptr);  // fails for wrong arguments only
}

// No time stamp: formatting one is not safe in a signal handler.
void MapFault(const char* what) {
  const int exit_code = g_exit_code.load();
  if (exit_code == 0) std::abort();
  Write(
      "{\"level\":\"error\",\"msg\":\"the ledger cannot be read any more; the process ends, and "
      "its next start checks the file\",\"reason\":\"");
  Write(what);
  Write("\"}\n");
  _exit(exit_code);
}

}  // namespace recourse
