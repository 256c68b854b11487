#include "proxy/telemetry/open_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <set>

#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::string_view kTotal = "_total";

std::string NumberText(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (std::isnan(value)) return "NaN";
  return fmt::format("{}", value);
}

// As a `le` has it: "1.0", not "1".
std::string BoundText(double value) {
  std::string text = NumberText(value);
  if (text.find_first_not_of("0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string LabelsText(const ClientMetric& metric, std::string_view bound = {}) {
  std::string out;
  for (const auto& label : metric.label) {
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "" : ",", label.name, Escaped(label.value));
  }
  if (!bound.empty()) out += fmt::format("{}le=\"{}\"", out.empty() ? "" : ",", bound);
  return out.empty() ? out : "{" + out + "}";
}

std::string ExemplarText(const Exemplar& exemplar) {
  if (exemplar.trace.view().empty()) return {};
  return fmt::format(" # {{trace_id=\"{}\",span_id=\"{}\"}} {}", exemplar.trace.view(),
                     exemplar.span.view(), NumberText(exemplar.seconds));
}

const BucketExemplars* ExemplarsOf(const ClientMetric& metric,
                                   const std::map<std::string, BucketExemplars>& exemplars) {
  for (const auto& label : metric.label) {
    if (label.name != "tool") continue;
    const auto found = exemplars.find(label.value);
    return found == exemplars.end() ? nullptr : &found->second;
  }
  return nullptr;
}

void AppendHistogram(const std::string& name, const ClientMetric& metric,
                     const BucketExemplars* exemplars, std::string& out) {
  const auto& histogram = metric.histogram;
  for (std::size_t i = 0; i < histogram.bucket.size(); ++i) {
    const auto& bucket = histogram.bucket[i];
    const bool has_exemplar = exemplars != nullptr && i < exemplars->size();
    out += fmt::format("{}_bucket{} {}{}\n", name,
                       LabelsText(metric, BoundText(bucket.upper_bound)), bucket.cumulative_count,
                       has_exemplar ? ExemplarText(exemplars->at(i)) : std::string());
  }
  const std::string labels = LabelsText(metric);
  out += fmt::format("{0}_count{1} {2}\n{0}_sum{1} {3}\n", name, labels, histogram.sample_count,
                     NumberText(histogram.sample_sum));
}

// A family of counters is named without the ending of its samples, unless a gauge has that name:
// then nothing is said of its type.
std::string_view NameOf(const MetricFamily& family, const std::set<std::string_view>& names) {
  const std::string_view name = family.name;
  if (family.type != MetricType::Counter || !name.ends_with(kTotal)) return name;
  const std::string_view stem = name.substr(0, name.size() - kTotal.size());
  return names.contains(stem) ? name : stem;
}

std::string_view TypeOf(const MetricFamily& family, std::string_view name) {
  switch (family.type) {
    case MetricType::Counter:
      return name == family.name ? "unknown" : "counter";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Histogram:
      return "histogram";
    default:
      return "unknown";
  }
}

// 0 to 1; 1 where none is given.
double QualityOf(std::string_view parameters) {
  const auto at = parameters.find("q=");
  if (at == std::string_view::npos) return 1;
  double quality = 0;
  const std::string_view text = parameters.substr(at + 2);
  std::from_chars(text.data(), text.data() + text.size(), quality);
  return quality;
}

}  // namespace

bool WantsOpenMetrics(std::string_view accept) {
  double open = 0, text = 0;
  while (!accept.empty()) {
    const auto comma = std::min(accept.find(','), accept.size());
    const std::string_view range = TrimBlanks(accept.substr(0, comma));
    accept.remove_prefix(std::min(comma + 1, accept.size()));
    const auto end = std::min(range.find(';'), range.size());
    const std::string_view type = TrimBlanks(range.substr(0, end));
    const std::string lower = ToLower(range.substr(end));
    if (EqualsIgnoreCase(type, "application/openmetrics-text")) {
      open = std::max(open, QualityOf(lower));
    } else if (EqualsIgnoreCase(type, "text/plain")) {
      text = std::max(text, QualityOf(lower));
    }
  }
  return open > 0 && open >= text;
}

std::string OpenMetricsText(const std::vector<MetricFamily>& families, std::string_view histogram,
                            const std::map<std::string, BucketExemplars>& exemplars) {
  std::set<std::string_view> names;
  for (const MetricFamily& family : families) names.insert(family.name);
  std::string out;
  for (const MetricFamily& family : families) {
    const std::string_view name = NameOf(family, names);
    out += fmt::format("# TYPE {0} {1}\n# HELP {0} {2}\n", name, TypeOf(family, name),
                       Escaped(family.help));
    for (const ClientMetric& metric : family.metric) {
      if (family.type == MetricType::Histogram) {
        AppendHistogram(family.name, metric,
                        family.name == histogram ? ExemplarsOf(metric, exemplars) : nullptr, out);
        continue;
      }
      const bool is_counter = family.type == MetricType::Counter;
      out += fmt::format("{}{} {}\n", family.name, LabelsText(metric),
                         NumberText(is_counter ? metric.counter.value : metric.gauge.value));
    }
  }
  return out + "# EOF\n";
}

}  // namespace recourse
