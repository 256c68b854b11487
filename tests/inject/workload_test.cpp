#include "proxy/inject/workload.h"

#include <gtest/gtest.h>

#include "proxy/inject/json_patch.h"
#include "tests/inject/pods.h"

namespace recourse::workload_test {
namespace {

std::string PodOf(std::string_view object, std::string_view group, std::string_view resource) {
  const auto pod = PodOfWorkload(ParsedJson(object), group, resource);
  return pod ? PlainJson(*pod) : "";
}

constexpr std::string_view kDeployment =
    R"({"metadata":{"name":"a"},"spec":{"template":{"metadata":{"labels":{"b":"c"}},)"
    R"("spec":{"containers":[]}}}})";

TEST(Workload, ItsPodIsAsItsControllerMakesIt) {
  EXPECT_EQ(PodOf(kDeployment, "apps", "deployments"),
            R"({"metadata":{"labels":{"b":"c"},"name":"a-0","ownerReferences":[)"
            R"({"apiVersion":"apps/v1","kind":"Deployment","name":"a","controller":true}]},)"
            R"("spec":{"containers":[]}})");
  const std::string nightly =
      PodOf(R"({"metadata":{"name":"n"},"spec":{"jobTemplate":{"spec":{"template":)"
            R"({"spec":{"containers":[]}}}}}})",
            "batch", "cronjobs");
  EXPECT_NE(nightly.find(R"("apiVersion":"batch/v1","kind":"Job","name":"n")"), std::string::npos);
}

TEST(Workload, AStatefulSetsClaimsAreVolumes) {
  const std::string pod = PodOf(R"({"metadata":{"name":"a"},"spec":{"template":{"spec":)"
                                R"({"volumes":[{"name":"x"},{"name":"l"}]}},)"
                                R"("volumeClaimTemplates":[{"metadata":{"name":"l"}}]}})",
                                "apps", "statefulsets");
  EXPECT_NE(pod.find(R"("volumes":[{"name":"x"},{"name":"l","persistentVolumeClaim":)"
                     R"({"claimName":"l-a-0"}}])"),
            std::string::npos)
      << pod;
}

std::string Shared(std::string_view resource, std::string_view spec) {
  const std::string_view pod = R"({"spec":{"volumes":[{"name":"recourse-ledger",)"
                               R"("persistentVolumeClaim":{"claimName":"c"}}]}})";
  std::string text(spec);
  text.replace(text.find("POD"), 3, pod);
  const bool is_batch = resource.ends_with("jobs");
  return WhyPodsShareClaim(ParsedJson(R"({"spec":)" + text + "}"), is_batch ? "batch" : "apps",
                           resource)
      .value_or("");
}

TEST(Workload, TwoPodsNeverHaveOneClaim) {
  const std::string begin = "two of its pods could have the claim c of one ledger: ";
  EXPECT_EQ(
      Shared("deployments", R"({"replicas":2,"strategy":{"type":"Recreate"},"template":POD})"),
      begin + "set replicas to 1");
  EXPECT_EQ(Shared("deployments", R"({"replicas":1,"template":POD})"),
            begin +
                "set strategy.type to Recreate, as else the next pod starts before the last one "
                "ends");
  EXPECT_EQ(Shared("deployments", R"({"strategy":{"type":"Recreate"},"template":POD})"), "");
  EXPECT_EQ(Shared("jobs", R"({"parallelism":3,"template":POD})"), begin + "set parallelism to 1");
  EXPECT_EQ(Shared("jobs", R"({"completions":3,"template":POD})"), "");
  EXPECT_EQ(Shared("cronjobs", R"({"jobTemplate":{"spec":{"template":POD}}})"),
            begin + "set concurrencyPolicy to Forbid");
  EXPECT_EQ(Shared("cronjobs", R"({"concurrencyPolicy":"Forbid","jobTemplate":{"spec":)"
                               R"({"parallelism":2,"template":POD}}})"),
            begin + "set parallelism to 1");
  EXPECT_EQ(Shared("cronjobs", R"({"concurrencyPolicy":"Replace","jobTemplate":{"spec":)"
                               R"({"template":POD}}})"),
            "");
  EXPECT_EQ(WhyPodsShareClaim(ParsedJson(kDeployment), "apps", "deployments"), std::nullopt);
}

TEST(Workload, WhatMakesNoPodsIsNone) {
  EXPECT_EQ(PodOf(kDeployment, "apps.others", "deployments"), "");
  EXPECT_EQ(PodOf(kDeployment, "", "services"), "");
  EXPECT_EQ(PodOf(kDeployment, "batch", "cronjobs"), "");
  EXPECT_EQ(PodOf(R"({"spec":{"template":{"spec":"x"}}})", "apps", "deployments"), "");
  EXPECT_EQ(PodOf(R"({"spec":null})", "apps", "deployments"), "");
}

}  // namespace
}  // namespace recourse::workload_test
