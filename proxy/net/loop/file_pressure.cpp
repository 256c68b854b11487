#include "proxy/net/loop/file_pressure.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "proxy/base/post_job.h"

namespace recourse {
namespace {

// All but a sixteenth.
int FilesShortFrom() {
  constexpr rlim_t kMany = std::numeric_limits<int>::max();
  rlimit files{};
  const rlim_t most = ::getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : kMany;
  return static_cast<int>(std::min(most, kMany) / 16 * 15);
}

}  // namespace

FilePressure::FilePressure(Executor& executor, DeadlineWheel& wheel)
    : executor_(executor), wheel_(wheel), short_from_(FilesShortFrom()) {}

// Who looks for files that other threads can close. Shared with what those do, which may take
// longer than anybody waits; used on the thread that looks alone.
struct FilePressure::Search {
  Search(DeadlineWheel& wheel, std::size_t asked)
      : limit(wheel, &Search::GiveUp, this), left(asked) {}
  static void GiveUp(void* self) { static_cast<Search*>(self)->End(false); }
  void Told(bool freed) {
    --left;
    if (freed || left == 0) End(freed);
  }
  void End(bool freed) {
    limit.Disarm();
    if (!found.is_set()) found.Set(freed);
  }

  Promise<bool> found;
  Deadline limit;
  std::size_t left;  // have not answered
};

Task<bool> FilePressure::FreeAnywhere(MonoTime limit) {
  if (Free()) co_return true;
  if (all_.size() <= 1) co_return false;
  const auto search = std::make_shared<Search>(wheel_, all_.size() - 1);
  search->limit.Arm(limit);
  for (FilePressure* const peer : all_) {
    if (peer == this) continue;
    PostJob(peer->executor_, [this, peer, shared = search]() mutable {
      const bool freed = peer->Free();
      PostJob(executor_, [back = std::move(shared), freed] { back->Told(freed); });
    });
  }
  co_return co_await search->found.Wait();
}

}  // namespace recourse
