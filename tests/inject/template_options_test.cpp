#include "proxy/inject/template_options.h"

#include <gtest/gtest.h>

#include "proxy/inject/json_patch.h"
#include "tests/inject/pods.h"

namespace recourse::template_options_test {
namespace {

PodTemplate WithPorts() {
  PodTemplate from = SmallTemplate();
  from.init_containers = {
      ParsedJson(R"({"name":"recourse-redirect","args":["redirect","--port=19083"]})"),
      ParsedJson(R"({"name":"recourse","args":["run","--listen=127.0.0.1:19080",)"
                 R"("--admin=127.0.0.1:19081","--probes=[::]:19082","--redirect=19083"],)"
                 R"("ports":[{"name":"recourse-probes","containerPort":19082}]})")};
  from.agent_env = {ParsedJson(R"({"name":"HTTP_PROXY","value":"http://127.0.0.1:19080"})"),
                    ParsedJson(R"({"name":"J","value":"-Da=19080 -Db=119080"})")};
  from.annotation_lists = ParsedJson(R"({"skip":"19082"})");
  return from;
}

TEST(TemplateOptions, APortMovesWhereverItIsNamed) {
  PodOptions options;
  options.ports = {
      {"proxy", "29080"}, {"admin", "29081"}, {"probes", "29082"}, {"redirect", "29083"}};
  const PodTemplate to = TemplateFor(options, WithPorts());
  EXPECT_EQ(PortsOf(to), (std::vector<std::int64_t>{29080, 29081, 29082, 29083}));
  EXPECT_EQ(PlainJson(to.init_containers[0]),
            R"({"name":"recourse-redirect","args":["redirect","--port=29083"]})");
  EXPECT_EQ(PlainJson(to.init_containers[1]),
            R"({"name":"recourse","args":["run","--listen=127.0.0.1:29080",)"
            R"("--admin=127.0.0.1:29081","--probes=[::]:29082","--redirect=29083"],)"
            R"("ports":[{"name":"recourse-probes","containerPort":29082}]})");
  EXPECT_EQ(TextOf(to.agent_env[0], "value"), "http://127.0.0.1:29080");
  EXPECT_EQ(TextOf(to.agent_env[1], "value"), "-Da=29080 -Db=119080");
  EXPECT_EQ(PlainJson(to.annotation_lists), R"({"skip":"29082"})");
}

TEST(TemplateOptions, APortThatTheSidecarDoesNotHaveIsNoneOfIts) {
  PodOptions options;
  options.ports = {{"redirect", "29083"}};
  const PodTemplate to = TemplateFor(options, SmallTemplate());
  EXPECT_EQ(PlainJson(to.sidecar()), PlainJson(SmallTemplate().sidecar()));
}

TEST(TemplateOptions, TheNodeHasRoomForALedgerInThePod) {
  const Json ledger = ParsedJson(R"({"name":"l","emptyDir":{"sizeLimit":"1Gi"}})");
  PodTemplate from = SmallTemplate();
  EXPECT_EQ(PlainJson(*InitContainersFor(&ledger, from)[0].Find("resources")),
            R"({"requests":{"ephemeral-storage":"1Gi"}})");
  from.init_containers[0].members.push_back(
      {"resources", ParsedJson(R"({"requests":{"ephemeral-storage":"2Gi"}})")});
  EXPECT_EQ(PlainJson(*InitContainersFor(&ledger, from)[0].Find("resources")),
            R"({"requests":{"ephemeral-storage":"2Gi"}})");
  EXPECT_EQ(InitContainersFor(nullptr, SmallTemplate())[0].Find("resources"), nullptr);
}

TEST(TemplateOptions, ResourcesAreOfTheSidecarAlone) {
  PodOptions options;
  options.resources = {{"requests/cpu", "5m"}, {"limits/memory", "64Mi"}};
  PodTemplate from = WithPorts();
  from.init_containers[1].members.push_back(
      {"resources", ParsedJson(R"({"requests":{"cpu":"50m","memory":"1Mi"}})")});
  const PodTemplate to = TemplateFor(options, from);
  EXPECT_EQ(PlainJson(*to.sidecar().Find("resources")),
            R"({"requests":{"cpu":"5m","memory":"1Mi"},"limits":{"memory":"64Mi"}})");
  EXPECT_EQ(to.init_containers[0].Find("resources"), nullptr);
}

}  // namespace
}  // namespace recourse::template_options_test
