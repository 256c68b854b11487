// What `recourse drill` puts in place of parts of a run, so that nothing of it can reach what a
// real run reaches. Only a caller inside this program can make one: no flag, variable or file does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "filters/ledger/rows/event_log.h"
#include "proxy/base/clock.h"
#include "proxy/reload/policy_load.h"

namespace recourse {

struct DrillOverrides {
  const Clock& clock;  // outlives the run
  int speed = 1;       // how many times as fast as the world it goes
  // Makes a policy of files, wherever the run reads some: at its start, at a reload, and of older
  // versions. So no policy comes into force that still names real backends.
  PolicyLoader load;
  // Stands between the ledger and its log, from the first row on.
  std::function<std::unique_ptr<EventLog>(std::unique_ptr<EventLog>)> log;
  // Told once the run serves, with the ports for agents and for operators.
  std::function<void(std::uint16_t agents, std::uint16_t admin)> ready;
};

}  // namespace recourse
