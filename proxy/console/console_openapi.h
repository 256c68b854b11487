// The description of a console's API: that of the admin API, with what several ledgers add to it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace recourse {

// Without the endpoints at the paths of `left_out`.
std::string ConsoleOpenApi(std::string_view document, std::span<const std::string_view> left_out);

}  // namespace recourse
