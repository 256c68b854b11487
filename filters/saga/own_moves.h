// From which version to which undos of this process have moved a resource. Two writes of one
// resource are undone newest first: what the older one left is there again then, under a version
// that is nobody else's. Forgotten at a restart: then a human is asked.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "filters/ledger/model/event.h"

namespace recourse {

namespace limits {
inline constexpr std::size_t kOwnMovesMax = 1'024;
}  // namespace limits

class OwnMoves {
 public:
  // The undo of `step` has left `version`.
  void Note(const Event& step, std::string version) {
    const std::string& from = step.state->before.version;
    if (from.empty() || version.empty()) return;
    if (moves_.size() == limits::kOwnMovesMax) moves_.pop_front();
    moves_.push_back({NameOf(step), from, std::move(version)});
  }
  // Whether one has led from what `step` left to that version.
  bool LeadsTo(const Event& step, const std::string& version) const {
    for (const Move& move : moves_) {
      if (move.from == step.state->ours.version && move.to == version &&
          move.name == NameOf(step)) {
        return true;
      }
    }
    return false;
  }

 private:
  struct Move {
    std::string name, from, to;
  };
  // What the resource is asked for by.
  static std::string NameOf(const Event& step) {
    const RenderedRequest& request = step.state->request;
    std::string name = step.backend + '\n' + request.target + '\n' + request.body;
    for (const auto& [field, value] : request.headers) {
      if (!field.empty() && field.front() != ':') name += '\n' + field + ':' + value;
    }
    return name;
  }

  std::deque<Move> moves_;
};

}  // namespace recourse
