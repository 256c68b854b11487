// Every metric: the one table, from which they are registered, and which README.md repeats.
#pragma once

#include <prometheus/metric_type.h>

#include <span>
#include <string>
#include <string_view>

namespace recourse {

struct MetricSpec {
  std::string_view name;
  prometheus::MetricType type;
  std::string_view labels;   // separated by spaces
  std::string_view meaning;  // as README.md says it

  // "Requests answered; method is one of eight or other."
  std::string help() const;
};
std::span<const MetricSpec> MetricSpecs();
// Of a name that is in the table.
const MetricSpec& MetricNamed(std::string_view name);

}  // namespace recourse
