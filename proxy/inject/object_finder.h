// Asks the API server which objects there are, within bounds.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/inject/cluster/kube_api.h"
#include "proxy/inject/needed_objects.h"

namespace recourse {

// Blocking; one thread. What is there is believed for a while, what is not is looked for each
// time; after a failure nobody is asked for a while.
class ObjectFinder {
 public:
  // Both outlive it.
  ObjectFinder(const KubeApi& api, const Clock& clock) : api_(api), clock_(clock) {}

  MissingObjects Find(std::string_view space, const std::vector<NeededObject>& needed);

 private:
  bool IsKnown(const std::string& path);
  void Remember(std::string path);

  const KubeApi& api_;
  const Clock& clock_;
  std::map<std::string, MonoTime> known_;  // path: until when
  MonoTime resumes_{};
  std::string failure_;
};

}  // namespace recourse
