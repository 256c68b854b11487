#include "proxy/inject/inject_metrics.h"

#include <prometheus/text_serializer.h>

#include "proxy/config/build_commit.h"

namespace recourse {
namespace {

const prometheus::Histogram::BucketBoundaries kBuckets{0.0001, 0.0005, 0.001, 0.005,
                                                       0.01,   0.05,   0.25,  1};

}  // namespace

InjectMetrics::InjectMetrics(WallTime started)
    : reviews_(prometheus::BuildCounter()
                   .Name("recourse_inject_reviews_total")
                   .Help("Answers to API servers, by what was said.")
                   .Register(registry_)),
      warnings_(prometheus::BuildCounter()
                    .Name("recourse_inject_warnings_total")
                    .Help("Warnings about pods; the log has them.")
                    .Register(registry_)
                    .Add({})),
      durations_(prometheus::BuildHistogram()
                     .Name("recourse_inject_review_duration_seconds")
                     .Help("From a whole request to its answer.")
                     .Register(registry_)
                     .Add({}, kBuckets)),
      api_failures_(prometheus::BuildCounter()
                        .Name("recourse_inject_api_failures_total")
                        .Help("Questions to the API server without an answer.")
                        .Register(registry_)
                        .Add({})),
      certificate_end_(
          prometheus::BuildGauge()
              .Name("recourse_inject_certificate_end_timestamp_seconds")
              .Help("When the certificate that is shown, or the CA that it is made with, ends.")
              .Register(registry_)
              .Add({})) {
  for (int i = 0; i < kReviewResultCount; ++i) {
    by_result_.at(static_cast<std::size_t>(i)) =
        &reviews_.Add({{"result", std::string(NameOf(static_cast<ReviewResult>(i)))}});
  }
  auto& reloads = prometheus::BuildCounter()
                      .Name("recourse_inject_template_reloads_total")
                      .Help("Changed templates.")
                      .Register(registry_);
  reloaded_ = &reloads.Add({{"result", "reloaded"}});
  refused_ = &reloads.Add({{"result", "refused"}});
  prometheus::BuildGauge()
      .Name("recourse_build_info")
      .Help("1.")
      .Register(registry_)
      .Add({{"version", RECOURSE_VERSION}, {"commit", std::string(BuildCommit())}})
      .Set(1);
  prometheus::BuildGauge()
      .Name("process_start_time_seconds")
      .Help("When the process started.")
      .Register(registry_)
      .Add({})
      .Set(static_cast<double>(ToUnixMillis(started)) / 1000);
}

void InjectMetrics::Count(ReviewResult result, std::size_t warnings,
                          std::chrono::nanoseconds took) {
  by_result_.at(static_cast<std::size_t>(result))->Increment();
  warnings_.Increment(static_cast<double>(warnings));
  durations_.Observe(std::chrono::duration<double>(took).count());
}

void InjectMetrics::CountTemplate(Reload result) {
  (result == Reload::kReloaded ? reloaded_ : refused_)->Increment();
}

void InjectMetrics::CertificateInForce(WallTime end) {
  const std::int64_t seconds = ToUnixMillis(end) / 1000;
  certificate_end_.Set(static_cast<double>(seconds));
}

std::string InjectMetrics::Scrape() {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace recourse
