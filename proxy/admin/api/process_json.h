// What the admin API tells of the process, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/admin/api/process_api.h"
#include "proxy/base/json/json_shape.h"
#include "proxy/base/log/log.h"

namespace recourse {

struct ProcessFacts {
  const ProcessApi::Work& work;
  const LedgerStats& stats;
  const Policy& policy;
  const PolicyReloader& reloader;
  Ledger& ledger;
  bool is_settled;
  std::string started;
  std::int64_t up_s;
};
std::string StatusJson(const ProcessFacts& facts);
std::string LogLevelJson(LogLevel level);
std::string VersionJson(const Policy& policy);

std::vector<JsonShape> ProcessShapes();

}  // namespace recourse
