// What was sent as a credential before it was renewed: a backend that shows earlier requests shows
// it, and it may still be good. Of this process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace recourse {

namespace limits {
inline constexpr std::size_t kSpentSecretsMax = 4;  // of one source, with the one that holds
}  // namespace limits

// Thread-safe.
class SpentSecrets {
 public:
  void Note(const std::string& source, const std::string& value) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string>& known = known_[source];
    if (std::ranges::find(known, value) != known.end()) return;
    if (known.size() == limits::kSpentSecretsMax) known.erase(known.begin());
    known.push_back(value);
  }
  // All that were noted last.
  std::vector<std::string> Of(const std::string& source) const {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(source);
    return found == known_.end() ? std::vector<std::string>() : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> known_;
};

}  // namespace recourse
