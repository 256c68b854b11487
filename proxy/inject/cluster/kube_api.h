// The API server of the cluster, asked as the ServiceAccount of this pod.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/base/clock.h"
#include "proxy/base/json/json.h"

namespace recourse {

struct KubeApiConfig {
  std::string url;  // https, without a path
  // Directory as Kubernetes mounts it: token, ca.crt, namespace.
  std::string service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
};

struct KubeFailure {
  int status = 0;  // 0: no answer came
  std::string why;
};
template <class T>
using KubeResult = std::expected<T, KubeFailure>;

// Blocking. Token and CA are read each time: Kubernetes replaces them.
class KubeApi {
 public:
  explicit KubeApi(KubeApiConfig config) : config_(std::move(config)) {}

  enum class Form : std::uint8_t {
    kWhole,
    kMetadata,  // of a Secret nothing comes over but its name
  };
  // Waits at most `longest`.
  KubeResult<Json> Get(const std::string& path, Form form, Millis longest) const;
  // `type` is the media type of the patch. Gives the object as it is then.
  KubeResult<Json> Patch(const std::string& path, std::string_view type, std::string body,
                         Millis longest) const;
  // Of this pod.
  KubeResult<std::string> Namespace() const;

 private:
  KubeResult<Json> Ask(std::string_view method, const std::string& path, std::string_view accept,
                       std::string_view type, std::string body, Millis longest) const;

  const KubeApiConfig config_;
};

}  // namespace recourse
