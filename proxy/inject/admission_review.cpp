#include "proxy/inject/admission_review.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "proxy/base/crypto/hash.h"
#include "proxy/base/error.h"
#include "proxy/base/json/json_object.h"
#include "proxy/inject/injection.h"
#include "proxy/inject/policy_review.h"
#include "proxy/inject/workload.h"

namespace recourse {
namespace {

constexpr std::string_view kApiVersion = "admission.k8s.io/v1";
constexpr std::string_view kMutate = "/mutate", kValidate = "/validate";
constexpr std::string_view kResultNames[kReviewResultCount] = {
    "injected", "present", "not_asked", "refused", "not_a_pod", "workload", "policy", "bad"};

ReviewAnswer Bad(int status, std::string reason) {
  ReviewAnswer answer;
  answer.response = {status, "", {{"Content-Type", "text/plain; charset=utf-8"}}, reason + "\n"};
  answer.reason = std::move(reason);
  return answer;
}

// "application/json; charset=utf-8" too.
bool IsJson(const HttpRequest& request) {
  const std::string* const type = FindHeader(request.headers, "Content-Type");
  if (type == nullptr) return false;
  const std::string_view media = std::string_view(*type).substr(0, type->find(';'));
  return EqualsIgnoreCase(media.substr(0, media.find(' ')), "application/json");
}

std::string PodName(const Json& asked) {
  const Json* const pod = asked.Find("object");
  std::string name(TextOf(asked, "name"));
  const Json* const metadata = pod == nullptr ? nullptr : pod->Find("metadata");
  if (name.empty() && metadata != nullptr) {
    name = TextOf(*metadata, "name");
    if (name.empty()) name = std::string(TextOf(*metadata, "generateName")) + "*";
  }
  return fmt::format("{}/{}", TextOf(asked, "namespace"), name);
}

// Another kind, subresource or operation is let through: it is no agent that starts.
bool IsNewPod(const Json& asked) {
  const Json* const resource = asked.Find("resource");
  return resource != nullptr && TextOf(*resource, "group").empty() &&
         TextOf(*resource, "resource") == "pods" && TextOf(asked, "subResource").empty() &&
         TextOf(asked, "operation") == "CREATE";
}

struct PodVerdict {
  std::optional<std::string> refusal;
  std::vector<std::string> warnings;
  std::string patch;  // empty: none
};

HttpResponse Render(const Json& asked, const PodVerdict& verdict) {
  std::string body;
  {
    JsonObject review(body);
    review.Text("apiVersion", kApiVersion);
    review.Text("kind", "AdmissionReview");
    JsonObject response(review.Value("response"));
    response.Text("uid", TextOf(asked, "uid"));
    response.Bool("allowed", !verdict.refusal);
    if (verdict.refusal) {
      JsonObject status(response.Value("status"));
      status.Number("code", 403);
      status.Text("reason", "Forbidden");
      status.Text("message", *verdict.refusal);
    }
    if (!verdict.patch.empty()) {
      response.Text("patchType", "JSONPatch");
      response.Text("patch", ToBase64(verdict.patch));
    }
    if (!verdict.warnings.empty()) response.Texts("warnings", verdict.warnings);
  }
  return {200, "", {{"Content-Type", "application/json"}}, std::move(body)};
}

// What makes pods is looked at when it begins to, or makes others: nobody's scaling is refused.
bool IsNewWorkload(const Json& asked) {
  if (!TextOf(asked, "subResource").empty()) return false;
  const std::string_view operation = TextOf(asked, "operation");
  return operation == "CREATE" || operation == "UPDATE";
}

std::optional<Json> PodOf(const Json& asked, std::string_view version) {
  const Json* const object = asked.Find(version);
  if (!IsObject(object)) return std::nullopt;
  return PodOfWorkload(*object, TextAt(asked, "/resource/group"),
                       TextAt(asked, "/resource/resource"));
}

// API servers may cut a warning after 256 characters, so a longer one is more than one.
std::vector<std::string> InPieces(std::string_view text) {
  constexpr std::size_t kMax = 250;
  std::vector<std::string> pieces;
  while (text.size() > kMax) {
    const auto space = text.rfind(' ', kMax);
    const auto end = space == std::string_view::npos ? kMax : space + 1;
    pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  pieces.emplace_back(text);
  return pieces;
}

void AddInPieces(std::vector<std::string>& to, std::string_view text) {
  for (std::string& piece : InPieces(text)) to.push_back(std::move(piece));
}

// Why the sidecar would wait for what is not there, if such pods are refused; else that is told.
std::optional<std::string> WhyIncomplete(const Json& asked, const Injection& injection,
                                         const PodTemplate& from, const FindMissing& find,
                                         std::vector<std::string>& warnings) {
  if (!find || from.missing == PodTemplate::Missing::kIgnore || injection.needed.empty()) return {};
  const std::string_view space = TextOf(asked, "namespace");
  const MissingObjects missing = find(space, injection.needed);
  if (!missing.names.empty()) {
    std::string why = WhatIsMissing(space, missing.names);
    if (from.missing == PodTemplate::Missing::kRefuse) return why;
    AddInPieces(warnings, why);
  }
  if (!missing.unknown.empty()) {
    std::string why =
        "nobody can tell whether the sidecar's ConfigMap and Secrets are there: " + missing.unknown;
    if (from.refuses_unknown) return why;
    AddInPieces(warnings, why);
  }
  return std::nullopt;
}

bool IsConfigMap(const Json& asked) {
  return TextAt(asked, "/resource/group").empty() &&
         TextAt(asked, "/resource/resource") == "configmaps";
}

// The file of the policy as the sidecar has it mounted: a key of the ConfigMap.
std::string PolicyKeyOf(const PodTemplate& from) {
  constexpr std::string_view kFlag = "--policy=";
  const Json* const args = from.sidecar().Find("args");
  for (const Json& arg : args->items) {
    if (arg.text.starts_with(kFlag)) return arg.text.substr(arg.text.rfind('/') + 1);
  }
  return "policy.yaml";
}

ReviewAnswer JudgeConfigMap(const Json& asked, const PodTemplate& from) {
  const Json* const map = asked.Find("object");
  if (!IsObject(map)) return Bad(400, "request.object is no ConfigMap");
  ReviewAnswer answer;
  PolicyVerdict policy = JudgePolicy(*map, asked.Find("oldObject"), PolicyKeyOf(from));
  answer.result = policy.refusal ? ReviewResult::kRefused : ReviewResult::kPolicy;
  answer.reason = policy.refusal.value_or("");
  PodVerdict verdict;
  verdict.refusal = std::move(policy.refusal);
  for (const std::string& warning : policy.warnings) AddInPieces(verdict.warnings, warning);
  answer.warnings = verdict.warnings;
  answer.response = Render(asked, verdict);
  return answer;
}

// nullopt: it makes no pods.
std::optional<ReviewAnswer> JudgeWorkload(const Json& asked, const PodTemplate& from,
                                          const FindMissing& find) {
  const auto pod = IsNewWorkload(asked) ? PodOf(asked, "object") : std::nullopt;
  if (!pod) return std::nullopt;
  ReviewAnswer answer;
  answer.result = ReviewResult::kWorkload;
  PodVerdict verdict;
  const auto before = PodOf(asked, "oldObject");
  const auto injection = InjectionFor(*pod, from);
  const bool is_meant = injection && injection->result != Injection::Result::kNotAsked;
  auto shared = is_meant
                    ? WhyPodsShareClaim(*asked.Find("object"), TextAt(asked, "/resource/group"),
                                        TextAt(asked, "/resource/resource"))
                    : std::nullopt;
  if (shared) {  // its pods cannot tell, so nobody refuses them
    answer.result = ReviewResult::kRefused;
    answer.reason = *shared;
    verdict.refusal = std::move(shared);
  } else if (before && PlainJson(*before) == PlainJson(*pod)) {
    // Its pods are as they were.
  } else if (injection) {
    verdict.warnings = injection->warnings;
    // What is missing may be applied along with it.
    const auto why = WhyIncomplete(asked, *injection, from, find, verdict.warnings);
    if (why) AddInPieces(verdict.warnings, "its pods will be refused: " + *why);
  } else if (from.refuses_workloads) {
    answer.result = ReviewResult::kRefused;
    answer.reason = "its pods would be refused: " + injection.error();
    verdict.refusal = answer.reason;
  } else {
    AddInPieces(verdict.warnings, "its pods will be refused: " + injection.error());
  }
  answer.warnings = verdict.warnings;
  answer.response = Render(asked, verdict);
  return answer;
}

ReviewAnswer JudgePod(const Json& asked, bool mutates, const PodTemplate& from,
                      const FindMissing& find) {
  ReviewAnswer answer;
  PodVerdict verdict;
  if (!mutates || !IsNewPod(asked)) {
    answer.result = ReviewResult::kNotAPod;
    verdict.warnings.emplace_back(
        "recourse inject was asked about something else than a new pod: correct the rules of its "
        "webhook");
    answer.response = Render(asked, verdict);
    return answer;
  }
  const Json* const pod = asked.Find("object");
  const bool is_pod = pod != nullptr && AtPointer(*pod, "/spec/containers") != nullptr &&
                      AtPointer(*pod, "/metadata") != nullptr;
  if (!is_pod) return Bad(400, "request.object is no pod: it has no metadata or no containers");
  auto injection = InjectionFor(*pod, from);
  std::optional<std::string> why =
      injection ? WhyIncomplete(asked, *injection, from, find, injection->warnings)
                : std::optional(std::move(injection.error()));
  if (why) {
    answer.result = ReviewResult::kRefused;
    answer.reason = *why;
    verdict.refusal = std::move(why);
  } else {
    answer.result = injection->result == Injection::Result::kInjected  ? ReviewResult::kInjected
                    : injection->result == Injection::Result::kPresent ? ReviewResult::kPresent
                                                                       : ReviewResult::kNotAsked;
    if (!injection->patch.is_empty()) verdict.patch = injection->patch.text();
    verdict.warnings = std::move(injection->warnings);
    answer.warnings = verdict.warnings;
  }
  answer.response = Render(asked, verdict);
  return answer;
}

ReviewAnswer JudgeOne(const Json& asked, bool mutates, const PodTemplate& from,
                      const FindMissing& find) {
  if (mutates) return JudgePod(asked, mutates, from, find);
  if (IsConfigMap(asked)) return JudgeConfigMap(asked, from);
  auto workload = JudgeWorkload(asked, from, find);
  return workload ? std::move(*workload) : JudgePod(asked, mutates, from, find);
}

ReviewAnswer Judge(const Json& asked, bool mutates, const PodTemplate& from,
                   const FindMissing& find) {
  ReviewAnswer answer = JudgeOne(asked, mutates, from, find);
  answer.pod = PodName(asked);
  const Json* const dry_run = asked.Find("dryRun");
  answer.is_dry_run = dry_run != nullptr && dry_run->kind == Json::Kind::kTrue;
  return answer;
}

}  // namespace

std::string_view NameOf(ReviewResult result) { return kResultNames[static_cast<int>(result)]; }

ReviewAnswer AnswerReview(const HttpRequest& request, const PodTemplate& from,
                          const FindMissing& find) {
  const std::string_view path =
      std::string_view(request.target).substr(0, request.target.find('?'));
  if (path != kMutate && path != kValidate) {
    return Bad(404, "an API server asks at POST /mutate and POST /validate");
  }
  if (request.method != "POST") {
    ReviewAnswer answer = Bad(405, "an API server asks by POST");
    answer.response.headers.emplace_back("Allow", "POST");
    return answer;
  }
  if (!IsJson(request)) return Bad(415, "the body's Content-Type is not application/json");
  const auto review = ParseJson(request.body);
  if (!review) return Bad(400, "the body is no JSON: " + std::string(review.error().detail()));
  if (TextOf(*review, "apiVersion") != kApiVersion ||
      TextOf(*review, "kind") != "AdmissionReview") {
    return Bad(400, fmt::format("the body is no AdmissionReview of {}: set admissionReviewVersions "
                                "of the webhook to [ v1 ]",
                                kApiVersion));
  }
  const Json* const asked = review->Find("request");
  if (asked == nullptr || TextOf(*asked, "uid").empty()) {
    return Bad(400, "the AdmissionReview has no request with a uid");
  }
  return Judge(*asked, path == kMutate, from, find);
}

}  // namespace recourse
