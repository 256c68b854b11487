// Where a drill takes place: a temporary directory, and processes that end with this one.
#pragma once

#include <sys/types.h>

#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "policy/files/sources.h"
#include "proxy/base/clock.h"

namespace recourse {

// A directory of its own under `tmp`. Another process, which has this as its only task, removes it
// when all processes of the drill are gone, also when they were killed.
class DrillStage {
 public:
  // Fails with a line for people.
  static std::expected<std::unique_ptr<DrillStage>, std::string> Make(const std::string& tmp);
  ~DrillStage();  // waits until the directory is gone

  const std::string& directory() const { return directory_; }
  // What all runs read: the files of a policy, and one besides. Gives their path. Proxies watch
  // where they stand, so nothing else happens there.
  std::expected<std::string, std::string> CopyPolicy(const PolicySources& sources) const;
  std::expected<std::string, std::string> Write(const std::string& name,
                                                const std::string& text) const;

 private:
  DrillStage(std::string directory, pid_t janitor, int alive)
      : directory_(std::move(directory)), janitor_(janitor), alive_(alive) {}

  const std::string directory_;
  const pid_t janitor_;
  const int alive_;  // open in every process of the drill but the janitor
};

// Processes that play one run each.
class DrillCrew {
 public:
  // Forks; `play` gives the text that Next() hands over, and the process ends after it.
  void Start(std::size_t run, const std::function<std::string()>& play);
  std::size_t size() const { return members_.size(); }
  // The next run that ended, with its text, which is empty when the process broke down. nullopt:
  // none ended within `patience`.
  struct Ended {
    std::size_t run = 0;
    std::string text;
  };
  std::optional<Ended> Next(Millis patience);
  ~DrillCrew();  // kills who is left

 private:
  struct Member {
    std::size_t run = 0;
    int pipe = -1;
    std::string text;
  };
  std::map<pid_t, Member> members_;
};

}  // namespace recourse
