#include "proxy/inject/pod_template.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "proxy/base/check.h"
#include "proxy/base/error.h"

namespace recourse {
namespace {

using PodProblem = std::optional<std::string>;

// Reads the members of the template one by one; the first that is wrong is the problem.
class Reader {
 public:
  explicit Reader(const Json& root) : root_(root) {}

  std::vector<Json> NamedObjects(std::string_view name) {
    const Json* const list = Take(name);
    if (problem_) return {};
    bool is_good = IsArray(list);
    for (std::size_t i = 0; is_good && i < list->items.size(); ++i) {
      is_good = IsObject(&list->items[i]) && !TextOf(list->items[i], "name").empty();
    }
    if (is_good) return list->items;
    Fail(name, "is not a list of objects with a name each");
    return {};
  }

  Json Object(std::string_view name) {
    const Json* const value = Take(name);
    if (problem_ || IsObject(value)) return problem_ ? Json() : *value;
    Fail(name, "is not an object");
    return {};
  }

  std::string Text(std::string_view name) {
    const Json* const value = Take(name);
    if (problem_ || value->kind == Json::Kind::kString) return problem_ ? "" : value->text;
    Fail(name, "is not a text");
    return {};
  }

  std::int64_t Number(std::string_view name) {
    const Json* const value = Take(name);
    if (problem_) return 0;
    const auto number = WholeNumber(value);
    if (!number) Fail(name, "is not a whole number");
    return number.value_or(0);
  }

  // Whether it is the word `refuse`; else it is `warn`.
  bool Refuses(std::string_view name) {
    const std::string said = Text(name);
    if (!problem_ && said != "refuse" && said != "warn") Fail(name, "is neither refuse nor warn");
    return said == "refuse";
  }

  PodTemplate::Missing Missing(std::string_view name) {
    const std::string said = Text(name);
    if (said == "ignore") return PodTemplate::Missing::kIgnore;
    if (!problem_ && said != "refuse" && said != "warn") {
      Fail(name, "is neither refuse nor warn nor ignore");
    }
    return said == "refuse" ? PodTemplate::Missing::kRefuse : PodTemplate::Missing::kWarn;
  }

  // An object whose members are texts.
  Json Texts(std::string_view name) {
    Json object = Object(name);
    for (const auto& [key, value] : object.members) {
      if (value.kind != Json::Kind::kString) Fail(name, "has a member that is not a text");
    }
    return object;
  }

  void Fail(std::string_view name, std::string_view what) {
    if (!problem_) problem_ = fmt::format("{} {}", name, what);
  }

  // What is wrong; also a member that nobody asked for.
  PodProblem Finish() {
    for (const auto& [name, value] : root_.members) {
      if (known_.find(' ' + name + ' ') == std::string::npos) {
        Fail(name, "is not one of its members:" + known_);
      }
    }
    return problem_;
  }

 private:
  const Json* Take(std::string_view name) {
    known_.append(known_.empty() ? " " : "").append(name).append(" ");
    const Json* const value = root_.Find(name);
    if (value == nullptr) Fail(name, "is missing");
    return value;
  }

  const Json& root_;
  PodProblem problem_;
  std::string known_;
};

PodProblem WhatOfSidecar(const PodTemplate& read) {
  const Json* const sidecar = FindNamed(read.init_containers, kSidecarName);
  if (sidecar == nullptr) return "initContainers has no container 'recourse'";
  if (TextOf(*sidecar, "restartPolicy") != "Always") {
    return "initContainers: 'recourse' needs restartPolicy Always, or pods never start";
  }
  const Json* const args = sidecar->Find("args");
  if (!IsArray(args)) return "initContainers: 'recourse' has no args";
  for (const Json& arg : args->items) {
    if (arg.kind != Json::Kind::kString) return "initContainers: args of 'recourse' are texts";
  }
  const Json* const policy = FindNamed(read.volumes, kPolicyVolume);
  if (policy == nullptr || !IsObject(policy->Find("configMap"))) {
    return "volumes has no 'recourse-policy' with a configMap";
  }
  return std::nullopt;
}

PodProblem WhatOfLedgers(const PodTemplate& read) {
  bool is_known = read.ledger == kOwnLedger;
  for (const auto& [name, volume] : read.ledgers) {
    if (!IsObject(&volume) || TextOf(volume, "name") != kLedgerVolume) {
      return "ledgers: '" + name + "' is not a volume with the name 'recourse-ledger'";
    }
    is_known = is_known || name == read.ledger;
  }
  if (!is_known) return "ledger: '" + read.ledger + "' is neither 'pvc' nor one of ledgers";
  if (FindNamed(read.volumes, kLedgerVolume) != nullptr) {
    return "volumes has 'recourse-ledger', which belongs into ledgers";
  }
  return std::nullopt;
}

}  // namespace

const Json& PodTemplate::sidecar() const {
  const Json* const found = FindNamed(init_containers, kSidecarName);
  RC_CHECK(found != nullptr);
  return *found;
}

const Json* FindNamed(const std::vector<Json>& list, std::string_view name) {
  for (const Json& item : list) {
    if (item.kind == Json::Kind::kObject && TextOf(item, "name") == name) return &item;
  }
  return nullptr;
}

std::optional<std::int64_t> WholeNumber(const Json* value) {
  if (value == nullptr || value->kind != Json::Kind::kNumber) return std::nullopt;
  const std::string text = ScalarText(*value);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::expected<PodTemplate, std::string> ReadPodTemplate(std::string_view text) {
  const auto root = ParseJson(text);
  if (!root) return std::unexpected("it is no JSON: " + std::string(root.error().detail()));
  if (!IsObject(&*root)) return std::unexpected("it is no JSON object");
  Reader reader(*root);
  PodTemplate read;
  if (reader.Number("version") != 1) reader.Fail("version", "is not 1");
  read.init_containers = reader.NamedObjects("initContainers");
  read.volumes = reader.NamedObjects("volumes");
  for (const auto& [name, volume] : reader.Object("ledgers").members) {
    read.ledgers.emplace_back(name, volume);
  }
  read.ledger = reader.Text("ledger");
  read.agent_env = reader.NamedObjects("agentEnv");
  read.agent_mounts = reader.NamedObjects("agentVolumeMounts");
  read.pull_secrets = reader.NamedObjects("imagePullSecrets");
  read.labels = reader.Object("labels");
  read.annotations = reader.Texts("annotations");
  read.annotation_lists = reader.Texts("annotationLists");
  read.refuses_unsafe = reader.Refuses("unsafePods");
  read.refuses_workloads = reader.Refuses("workloads");
  read.missing = reader.Missing("missingObjects");
  read.refuses_unknown = reader.Refuses("unknownObjects");
  read.security_context = reader.Object("securityContext");
  read.grace_seconds = reader.Number("terminationGracePeriodSeconds");
  PodProblem problem = reader.Finish();
  if (!problem) problem = WhatOfSidecar(read);
  if (!problem) problem = WhatOfLedgers(read);
  if (problem) return std::unexpected(std::move(*problem));
  return read;
}

}  // namespace recourse
