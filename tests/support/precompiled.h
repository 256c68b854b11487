// What every test reads, compiled once.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "filters/precompiled.h"
