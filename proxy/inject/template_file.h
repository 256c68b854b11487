// The template that is in force, from a file that may change.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "proxy/inject/inject_metrics.h"
#include "proxy/inject/pod_template.h"
#include "proxy/net/tls/tls_context.h"

namespace recourse {

class TemplateFile {
 public:
  // Throws StartupError when it cannot be used.
  TemplateFile(std::string path, InjectMetrics& metrics);

  // Thread-safe.
  std::shared_ptr<const PodTemplate> Current() const;

  // Reads a file that has changed; one that cannot be used is logged, and changes nothing.
  // Blocking. One thread at a time.
  void Look(FileState::Look look);

 private:
  const std::string path_;
  InjectMetrics& metrics_;
  FileState state_;
  mutable std::mutex mutex_;
  std::shared_ptr<const PodTemplate> current_;  // guarded by mutex_
};

}  // namespace recourse
