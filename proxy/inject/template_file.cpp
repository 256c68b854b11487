#include "proxy/inject/template_file.h"

#include <utility>

#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"
#include "proxy/startup/startup.h"

namespace recourse {
namespace {

// FileState looks at no more than this either.
FileResult<PodTemplate> ReadTemplateFile(const std::string& path) {
  const auto text = ReadInputFile(path, limits::kTlsFileBytesMax);
  if (!text) return std::unexpected(text.error());
  auto read = ReadPodTemplate(*text);
  if (!read) return std::unexpected(path + ": " + read.error());
  return std::move(*read);
}

}  // namespace

TemplateFile::TemplateFile(std::string path, InjectMetrics& metrics)
    : path_(std::move(path)), metrics_(metrics), state_({path_}) {
  auto read = ReadTemplateFile(path_);
  if (!read) throw StartupError(kExitUsage, "--template: " + read.error());
  current_ = std::make_shared<const PodTemplate>(std::move(*read));
}

std::shared_ptr<const PodTemplate> TemplateFile::Current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

void TemplateFile::Look(FileState::Look look) {
  if (!state_.HasChanged(look)) return;
  auto read = ReadTemplateFile(path_);
  metrics_.CountTemplate(read ? InjectMetrics::Reload::kReloaded : InjectMetrics::Reload::kRefused);
  if (!read) {
    Log(LogLevel::kError, "pods get what they got before: the new template cannot be used",
        {{"reason", read.error()}});
    return;
  }
  Log(LogLevel::kInfo, "the template was read again", {{"file", path_}});
  const std::lock_guard lock(mutex_);
  current_ = std::make_shared<const PodTemplate>(std::move(*read));
}

}  // namespace recourse
