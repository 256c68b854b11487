// What the filters and all that stands on them read, compiled once: a change of one of these
// compiles nearly everything anew in any case.
#pragma once

#include "filters/filter.h"
#include "filters/ledger/precompiled.h"
#include "policy/model/policy.h"
#include "proxy/base/log/log.h"
