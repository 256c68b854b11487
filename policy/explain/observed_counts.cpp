#include "policy/explain/observed_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace recourse {
namespace {

struct CountColumn {
  std::string_view title;
  std::size_t ObservedCounts::* count;
};
constexpr auto kColumns = std::to_array<CountColumn>({
    {"seen", &ObservedCounts::seen},
    {"sent", &ObservedCounts::sent},
    {"replayed", &ObservedCounts::replayed},
    {"joined", &ObservedCounts::joined},
    {"in doubt", &ObservedCounts::in_doubt},
    {"refused", &ObservedCounts::refused},
    {"asks", &ObservedCounts::asks},
    {"untold", &ObservedCounts::untold},
});

}  // namespace

std::string CountsTable(const std::map<std::string, ObservedCounts>& tools) {
  std::string_view first = "tool";
  std::size_t width = first.size();
  for (const auto& [name, counts] : tools) width = std::max(width, name.size());
  std::string out;
  if (tools.empty()) return out;
  out += fmt::format("{:<{}}", first, width);
  for (const CountColumn& column : kColumns) out += fmt::format("  {}", column.title);
  out += '\n';
  for (const auto& [name, counts] : tools) {
    out += fmt::format("{:<{}}", name, width);
    for (const CountColumn& column : kColumns) {
      out += fmt::format("  {:>{}}", counts.*column.count, column.title.size());
    }
    out += '\n';
  }
  return out;
}

}  // namespace recourse
