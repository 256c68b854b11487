// A log line for a person at a terminal.
#pragma once

#include <ctime>
#include <initializer_list>
#include <string>
#include <string_view>

#include "proxy/base/log/log.h"

namespace recourse {

// "09:52:42Z warning: the file is gone (file: /x; reason: none)". Pure; nothing in it steers a
// terminal.
std::string LogText(std::time_t now, LogLevel level, std::string_view message,
                    std::initializer_list<LogField> fields);

}  // namespace recourse
