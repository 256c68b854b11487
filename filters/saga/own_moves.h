// From which version to which our undos have moved a resource. Two writes of one resource are
// undone newest first: what the older one left is there again then, under a version that is nobody
// else's. Each undo remembers its move with its outcome, so that another process, or this one
// started again, is told of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "filters/ledger/model/event.h"

namespace recourse {

namespace limits {
inline constexpr std::size_t kOwnMovesMax = 1'024;
}  // namespace limits

class OwnMoves {
 public:
  // What the undo of `step` remembers of its move: of its `ours` the version follows from its
  // answer. nullopt: nobody knows from where.
  static std::optional<StateKept> MoveOf(const Event& step) {
    if (!step.state || step.state->before.version.empty()) return std::nullopt;
    StateKept move{step.state->request, {.version = step.state->before.version}, {}};
    std::erase_if(move.request.headers, [](const Header& field) { return IsTerm(field.first); });
    return move;
  }

  // The undo has succeeded.
  void Note(const Event& undo) {
    if (!undo.state || undo.phase != Phase::kSucceeded) return;
    const std::string& from = undo.state->before.version;
    const std::string& to = undo.state->ours.version;
    if (from.empty() || to.empty()) return;
    Move move{NameOf(undo), from, to};
    if (std::ranges::find(moves_, move) != moves_.end()) return;
    if (moves_.size() == limits::kOwnMovesMax) moves_.pop_front();
    moves_.push_back(std::move(move));
  }

  // Whether one has led from what `step` left to that version.
  bool LeadsTo(const Event& step, const std::string& version) const {
    const std::string name = NameOf(step);
    return std::ranges::any_of(moves_, [&](const Move& move) {
      return move.IsOf(name, step) && MatchVersions(move.to, version) == VersionMatch::kSame;
    });
  }

  // Whether that version is the one after what `step` left, or after what one of ours has made of
  // that: one write alone lies between.
  bool IsNextAfter(const Event& step, const std::string& version) const {
    if (IsNextVersion(step.state->ours.version, version)) return true;
    const std::string name = NameOf(step);
    return std::ranges::any_of(moves_, [&](const Move& move) {
      return move.IsOf(name, step) && IsNextVersion(move.to, version);
    });
  }

 private:
  struct Move {
    std::string name, from, to;
    bool operator==(const Move&) const = default;
    bool IsOf(std::string_view resource, const Event& step) const {
      return name == resource &&
             MatchVersions(from, step.state->ours.version) == VersionMatch::kSame;
    }
  };
  static bool IsTerm(std::string_view field) { return field.empty() || field.front() == ':'; }
  // What the resource is asked for by.
  static std::string NameOf(const Event& event) {
    const RenderedRequest& request = event.state->request;
    std::string name = event.backend + '\n' + request.target + '\n' + request.body;
    for (const auto& [field, value] : request.headers) {
      if (!IsTerm(field)) name += '\n' + field + ':' + value;
    }
    return name;
  }

  std::deque<Move> moves_;
};

}  // namespace recourse
