#include "proxy/inject/injection.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/inject/pods.h"

namespace recourse::injection_test {
namespace {

constexpr std::string_view kAsks = R"("annotations":{"recourse.dev/inject":"true"})";

std::string PodText(std::string_view metadata, std::string_view spec) {
  return "{\"metadata\":{" + std::string(metadata) + "},\"spec\":{" + std::string(spec) + "}}";
}

Injection InjectionInto(std::string_view metadata, std::string_view spec) {
  auto injection = InjectionFor(ParsedJson(PodText(metadata, spec)), SmallTemplate());
  EXPECT_TRUE(injection) << injection.error();
  return injection ? *injection : Injection();
}

std::string RefusalOf(std::string_view metadata, std::string_view spec) {
  const auto injection = InjectionFor(ParsedJson(PodText(metadata, spec)), SmallTemplate());
  return injection ? "" : injection.error();
}

constexpr std::string_view kSidecar =
    R"({"name":"recourse","restartPolicy":"Always","args":["run","--log-level=info"],)"
    R"("securityContext":{"runAsUser":19080}})";
constexpr std::string_view kVolumes = R"({"name":"recourse-policy","configMap":{"name":"p"}},)"
                                      R"({"name":"recourse-ledger","emptyDir":{}})";

std::string Add(std::string_view path, std::string_view value) {
  return R"({"op":"add","path":")" + std::string(path) + R"(","value":)" + std::string(value) + "}";
}

// The ledger of the template goes with the pod.
const std::string kKept =
    Add("/metadata/annotations/cluster-autoscaler.kubernetes.io~1safe-to-evict", R"("false")");

TEST(Injection, WhatIsAbsentIsAddedWhole) {
  const Injection injection = InjectionInto(kAsks, R"("containers":[{"name":"a"}])");
  EXPECT_EQ(injection.result, Injection::Result::kInjected);
  EXPECT_EQ(injection.patch.text(),
            "[" + Add("/metadata/labels", R"({"a/b~c":"d"})") + "," + kKept + "," +
                Add("/spec/securityContext", R"({"fsGroup":19080})") + "," +
                Add("/spec/terminationGracePeriodSeconds", "60") + "," +
                Add("/spec/volumes", "[" + std::string(kVolumes) + "]") + "," +
                Add("/spec/containers/0/env", R"([{"name":"A","value":"1"}])") + "," +
                Add("/spec/initContainers", "[" + std::string(kSidecar) + "]") + "]");
}

TEST(Injection, WhatIsThereIsAddedToAndOurInitContainersComeFirst) {
  const Injection injection = InjectionInto(
      std::string(kAsks) + R"(,"labels":{})",
      R"("containers":[{"name":"a","env":[]}],"initContainers":[{"name":"b"}],"volumes":[],)"
      R"("securityContext":{},"terminationGracePeriodSeconds":61)");
  EXPECT_EQ(injection.patch.text(),
            "[" + Add("/metadata/labels/a~1b~0c", R"("d")") + "," + kKept + "," +
                Add("/spec/securityContext/fsGroup", "19080") + "," +
                Add("/spec/volumes/-", R"({"name":"recourse-policy","configMap":{"name":"p"}})") +
                "," + Add("/spec/volumes/-", R"({"name":"recourse-ledger","emptyDir":{}})") + "," +
                Add("/spec/containers/0/env/-", R"({"name":"A","value":"1"})") + "," +
                Add("/spec/initContainers/0", kSidecar) + "]");
}

TEST(Injection, AnnotationsStayAndListsGrow) {
  PodTemplate from = SmallTemplate();
  from.annotations = ParsedJson(R"({"kept":"ours","new":"ours"})");
  from.annotation_lists = ParsedJson(R"({"ports":"19082","full":"1","empty":"3,4"})");
  const auto injection = InjectionFor(
      ParsedJson(PodText(R"("annotations":{"recourse.dev/inject":"true","kept":"theirs",)"
                         R"("ports":"190821,7","full":"2,1"})",
                         R"("containers":[])")),
      from);
  ASSERT_TRUE(injection);
  const std::string text = injection->patch.text();
  EXPECT_NE(text.find(Add("/metadata/annotations/new", R"("ours")")), std::string::npos);
  EXPECT_NE(text.find(Add("/metadata/annotations/ports", R"("190821,7,19082")")),
            std::string::npos);
  EXPECT_NE(text.find(Add("/metadata/annotations/empty", R"("3,4")")), std::string::npos);
  EXPECT_EQ(text.find("annotations/kept"), std::string::npos);
  EXPECT_EQ(text.find("annotations/full"), std::string::npos);
}

// The containers that get variables, by their JSON pointers.
std::vector<std::string> AgentsAmong(std::string_view named, std::string_view spec,
                                     std::string_view note = "") {
  std::string metadata(kAsks);
  metadata.pop_back();
  if (!named.empty()) metadata += R"(,"recourse.dev/containers":")" + std::string(named) + '"';
  if (!note.empty()) metadata += ",\"" + std::string(note) + R"(":"{}")";
  metadata += '}';
  const Injection injection = InjectionInto(metadata, spec);
  EXPECT_EQ(injection.result, Injection::Result::kInjected) << spec;
  std::vector<std::string> agents;
  for (const char* const pointer :
       {"/spec/initContainers/0", "/spec/containers/0", "/spec/containers/1"}) {
    const std::string env = "\"path\":\"" + std::string(pointer) + "/env\"";
    if (injection.patch.text().find(env) != std::string::npos) agents.emplace_back(pointer);
  }
  return agents;
}

TEST(Injection, AgentsAreAllContainersButThoseOfMeshesOrThoseThatAreNamed) {
  constexpr std::string_view kInit = R"("initContainers":[{"name":"istio-proxy"}],)";
  constexpr std::string_view kFirst = "/spec/containers/0", kSecond = "/spec/containers/1";
  struct Row {
    std::string_view named, first, second;
    std::vector<std::string_view> agents;
  };
  const Row rows[] = {
      {"", "agent", "worker", {kFirst, kSecond}},
      {"", "agent", "istio-proxy", {kFirst}},
      {"", "linkerd-proxy", "agent", {kSecond}},
      {"", "my-istio-proxy", "linkerd-proxy-2", {kFirst, kSecond}},
      {"agent", "agent", "worker", {kFirst}},
      {"worker,istio-proxy", "worker", "istio-proxy", {kFirst, kSecond}},
  };
  for (const Row& row : rows) {
    const std::string spec = R"("containers":[{"name":")" + std::string(row.first) +
                             R"("},{"name":")" + std::string(row.second) + R"("}])";
    const std::vector<std::string> wanted(row.agents.begin(), row.agents.end());
    EXPECT_EQ(AgentsAmong(row.named, spec), wanted) << row.named << ' ' << spec;
  }
  EXPECT_EQ(AgentsAmong("", std::string(kInit) + R"("containers":[{"name":"agent"}])"),
            std::vector<std::string>{std::string(kFirst)});
}

TEST(Injection, TheNameOfAMeshsProxyAloneLeadsNoAgentPastRecourse) {
  constexpr std::string_view kAgent = "/spec/containers/0", kNamed = "/spec/containers/1";
  struct Row {
    std::string_view name, image, note;
    bool is_agent;
  };
  const Row rows[] = {
      {"istio-proxy", "shop/agent:1", "", true},
      {"istio-proxy", "proxyv2:1.27", "sidecar.istio.io/status", false},
      {"istio-proxy", "proxyv2:1.27", "linkerd.io/proxy-version", true},
      {"istio-proxy", "auto", "", false},
      {"linkerd-proxy", "shop/agent:1", "", true},
      {"linkerd-proxy", "proxy:edge", "linkerd.io/proxy-version", false},
  };
  for (const Row& row : rows) {
    const std::string spec =
        fmt::format(R"("containers":[{{"name":"agent","image":"a"}},{{"name":"{}","image":"{}"}}])",
                    row.name, row.image);
    std::vector<std::string> wanted{std::string(kAgent)};
    if (row.is_agent) wanted.emplace_back(kNamed);
    EXPECT_EQ(AgentsAmong("", spec, row.note), wanted) << row.name << ' ' << row.image;
  }
}

// As `istioctl kube-inject` leaves a pod: the mesh carries the sidecar's calls, first and last.
TEST(Injection, ANativeMeshProxyThatIsThereAlreadyStaysFirst) {
  constexpr std::string_view kMeshed =
      R"("annotations":{"recourse.dev/inject":"true","sidecar.istio.io/status":"{}"})";
  struct Row {
    std::string_view init_containers;
    int place;
  };
  const Row rows[] = {
      {R"({"name":"istio-init"},{"name":"istio-proxy","restartPolicy":"Always"},{"name":"own"})",
       2},
      {R"({"name":"istio-init"},{"name":"istio-proxy"})", 0},
      {R"({"name":"linkerd-proxy","image":"shop/agent:1","restartPolicy":"Always"})", 0},
      {R"({"name":"own"})", 0},
  };
  for (const Row& row : rows) {
    const Injection injection = InjectionInto(
        kMeshed, fmt::format(R"("containers":[{{"name":"agent"}}],"initContainers":[{}])",
                             row.init_containers));
    const std::string at = "/spec/initContainers/" + std::to_string(row.place);
    EXPECT_NE(injection.patch.text().find(Add(at, kSidecar)), std::string::npos)
        << row.init_containers;
  }
  // An agent that starts even before the mesh is not left without the sidecar.
  const Injection guarded = InjectionInto(
      R"("annotations":{"recourse.dev/inject":"true","sidecar.istio.io/status":"{}",)"
      R"("recourse.dev/containers":"first"})",
      R"("containers":[],"initContainers":[{"name":"first","restartPolicy":"Always"},)"
      R"({"name":"istio-proxy","restartPolicy":"Always"}])");
  EXPECT_NE(guarded.patch.text().find(Add("/spec/initContainers/0", kSidecar)), std::string::npos);
}

TEST(Injection, WhatAMeshsProxySetsAndMayDoIsItsOwn) {
  const std::string spec =
      R"("containers":[{"name":"agent"},{"name":"istio-proxy","env":[{"name":"A","value":"2"}],)"
      R"("securityContext":{"capabilities":{"add":["NET_ADMIN"]}}}])";
  EXPECT_TRUE(InjectionInto(kAsks, spec).warnings.size() == 1);
  const auto alone = InjectionInto(kAsks, R"("containers":[{"name":"istio-proxy"}])");
  ASSERT_EQ(alone.warnings.size(), 2U);
  EXPECT_NE(alone.warnings.front().find("nobody is guarded"), std::string::npos);
}

TEST(Injection, NullIsAbsent) {
  const Injection injection = InjectionInto(
      kAsks, R"("containers":[{"name":"a","env":null}],"initContainers":null,"volumes":null)");
  const std::string text = injection.patch.text();
  EXPECT_NE(text.find(Add("/spec/containers/0/env", R"([{"name":"A","value":"1"}])")),
            std::string::npos);
  EXPECT_NE(text.find(R"("path":"/spec/initContainers","value":[)"), std::string::npos);
  EXPECT_NE(text.find(R"("path":"/spec/volumes","value":[)"), std::string::npos);
}

TEST(Injection, APodThatHasTheSidecarOrDoesNotAskGetsNothing) {
  const auto present =
      InjectionInto(kAsks, R"("containers":[],"initContainers":[)" + std::string(kSidecar) + "]");
  EXPECT_EQ(present.result, Injection::Result::kPresent);
  EXPECT_TRUE(present.patch.is_empty());
  for (const char* const metadata : {"", R"("annotations":null)", R"("annotations":{"x":"y"})",
                                     R"("annotations":{"recourse.dev/inject":"false"})"}) {
    const auto silent = InjectionInto(metadata, R"("containers":[])");
    EXPECT_EQ(silent.result, Injection::Result::kNotAsked) << metadata;
    EXPECT_TRUE(silent.patch.is_empty() && silent.warnings.empty()) << metadata;
  }
}

TEST(Injection, AContainerOfTheSidecarsNameThatIsNoSidecarIsRefused) {
  EXPECT_NE(RefusalOf(kAsks, R"("containers":[{"name":"recourse"}])"), "");
  EXPECT_NE(RefusalOf(kAsks, R"("containers":[],"initContainers":[{"name":"recourse"}])"), "");
}

TEST(Injection, AFlagThatTheTemplateLacksIsAdded) {
  const auto injection = InjectionInto(
      R"("name":"a-0","ownerReferences":[{"apiVersion":"apps/v1",)"
      R"("kind":"StatefulSet","name":"a","controller":true}],)"
      R"("annotations":{"recourse.dev/inject":"true","recourse.dev/ledger-max":"2GiB",)"
      R"("recourse.dev/log-level":"debug"})",
      R"("containers":[],"volumes":[{"name":"recourse-ledger","persistentVolumeClaim":)"
      R"({"claimName":"recourse-ledger-a-0"}}])");
  EXPECT_NE(injection.patch.text().find(R"(["run","--log-level=debug","--ledger-max=2GiB"])"),
            std::string::npos);
  EXPECT_TRUE(injection.warnings.empty());
}

TEST(Injection, AnOwnerThatIsNoControllerCountsForNothing) {
  const std::string claim =
      R"("containers":[],"volumes":[{"name":"recourse-ledger","persistentVolumeClaim":)"
      R"({"claimName":"c"}}])";
  const auto owned = [](std::string_view more) {
    return std::string(kAsks) +
           R"(,"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r")" +
           std::string(more) + "}]";
  };
  EXPECT_NE(RefusalOf(owned(R"(,"controller":true)"), claim), "");
  EXPECT_EQ(RefusalOf(owned(R"(,"controller":false)"), claim), "");
  EXPECT_EQ(RefusalOf(owned(""), claim), "");
}

}  // namespace
}  // namespace recourse::injection_test
