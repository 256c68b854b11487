// The text format of OpenMetrics 1.0, for scrapers that ask for it. Pure.
#pragma once

#include <prometheus/metric_family.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/telemetry/exemplars.h"

namespace recourse {

inline constexpr std::string_view kPrometheusTextType = "text/plain; version=0.0.4; charset=utf-8";
inline constexpr std::string_view kOpenMetricsType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

// Whether an Accept field would rather have it than Prometheus' own text format.
bool WantsOpenMetrics(std::string_view accept);

// `exemplars` by tool, of the histogram that has that name.
std::string OpenMetricsText(const std::vector<prometheus::MetricFamily>& families,
                            std::string_view histogram,
                            const std::map<std::string, BucketExemplars>& exemplars);

}  // namespace recourse
