// The operators file of a running process, read again when it changes.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/admin/access/operator_directory.h"
#include "proxy/base/clock.h"

namespace recourse {

// The file and the JWKS file that it names, read so that nobody but their owner can have changed
// them, and until two readings agree. Blocking; asks no URL.
struct OperatorFiles {
  LoadedOperators loaded;
  Digest bytes{};  // of what was read
};
OperatorFiles ReadOperatorFiles(const std::string& path);

// Start() first; Look() and Reload() on one thread, Current() on any.
class OperatorStore {
 public:
  // Without a path there is nobody.
  OperatorStore(std::string path, const Clock& clock);

  // The problems of the file; empty: it is in force.
  std::vector<PolicyProblem> Start();
  // Takes a changed file, wholly or not at all, once two looks in a row saw the same. How long to
  // wait until the next look.
  Millis Look();
  // As Look, at once.
  void Reload();

  std::shared_ptr<const OperatorDirectory> Current() const;

 private:
  void Take(OperatorFiles files);
  void Use(std::shared_ptr<OperatorDirectory> book);

  const std::string path_;
  const Clock& clock_;
  Digest tried_{};
  std::optional<Digest> seen_;
  mutable std::mutex mutex_;
  std::shared_ptr<const OperatorDirectory> book_;  // guarded by mutex_; never null
};

}  // namespace recourse
