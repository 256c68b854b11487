// What the ledger's files read, compiled once. No header of the filters: their changes leave the
// ledger as it is.
#pragma once

#include "filters/ledger/ledger.h"
#include "proxy/base/precompiled.h"
