// What a disk is like for a ledger.
#pragma once

#include <string>

#include "proxy/doctor/judgement.h"

namespace recourse {

// Writes to a file without a name, which is gone afterwards. Blocking.
DiskFacts LookAtDisk(const std::string& data);

}  // namespace recourse
