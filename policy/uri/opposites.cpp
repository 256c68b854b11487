#include "policy/uri/opposites.h"

#include <array>
#include <unordered_map>

namespace recourse {
namespace {

constexpr std::array kOpposites = std::to_array<Opposite>({
    {"create", "cancel", Opposite::kUndo},
    {"create", "delete", Opposite::kUndo},
    {"create", "remove", Opposite::kUndo},
    {"create", "destroy", Opposite::kUndo},
    {"create", "close", Opposite::kUndo},
    {"create", "archive", Opposite::kUndo},
    {"add", "remove", Opposite::kUndo},
    {"add", "delete", Opposite::kUndo},
    {"insert", "delete", Opposite::kUndo},
    {"insert", "remove", Opposite::kUndo},
    {"new", "delete", Opposite::kUndo},
    {"make", "delete", Opposite::kUndo},
    {"write", "delete", Opposite::kUndo},
    {"upload", "delete", Opposite::kUndo},
    {"upload", "remove", Opposite::kUndo},
    {"register", "unregister", Opposite::kUndo},
    {"place", "cancel", Opposite::kUndo},
    {"submit", "cancel", Opposite::kUndo},
    {"submit", "withdraw", Opposite::kUndo},
    {"schedule", "cancel", Opposite::kUndo},
    {"book", "cancel", Opposite::kUndo},
    {"reserve", "cancel", Opposite::kUndo},
    {"reserve", "release", Opposite::kUndo},
    {"hold", "release", Opposite::kUndo},
    {"order", "cancel", Opposite::kUndo},
    {"request", "cancel", Opposite::kUndo},
    {"start", "stop", Opposite::kBoth},
    {"start", "cancel", Opposite::kUndo},
    {"open", "close", Opposite::kBoth},
    {"enable", "disable", Opposite::kBoth},
    {"lock", "unlock", Opposite::kBoth},
    {"grant", "revoke", Opposite::kBoth},
    {"assign", "unassign", Opposite::kBoth},
    {"attach", "detach", Opposite::kBoth},
    {"link", "unlink", Opposite::kBoth},
    {"subscribe", "unsubscribe", Opposite::kBoth},
    {"publish", "unpublish", Opposite::kBoth},
    {"pin", "unpin", Opposite::kBoth},
    {"star", "unstar", Opposite::kBoth},
    {"follow", "unfollow", Opposite::kBoth},
    {"block", "unblock", Opposite::kBoth},
    {"mute", "unmute", Opposite::kBoth},
    {"join", "leave", Opposite::kBoth},
    {"mount", "unmount", Opposite::kBoth},
    {"charge", "refund", Opposite::kUndo},
    {"pay", "refund", Opposite::kUndo},
    {"invite", "uninvite", Opposite::kUndo},
    {"close", "reopen", Opposite::kBoth},
    {"archive", "unarchive", Opposite::kBoth},
    {"archive", "restore", Opposite::kBoth},
    {"delete", "restore", Opposite::kUndo},
    {"delete", "undelete", Opposite::kUndo},
    {"suspend", "resume", Opposite::kBoth},
    {"suspend", "unsuspend", Opposite::kBoth},
    {"pause", "resume", Opposite::kBoth},
    {"pause", "unpause", Opposite::kBoth},
    {"activate", "deactivate", Opposite::kBoth},
    {"freeze", "unfreeze", Opposite::kBoth},
    {"ban", "unban", Opposite::kBoth},
    {"watch", "unwatch", Opposite::kBoth},
    {"like", "unlike", Opposite::kBoth},
    {"hide", "unhide", Opposite::kBoth},
    {"show", "hide", Opposite::kBoth},
    {"flag", "unflag", Opposite::kBoth},
    {"mark", "unmark", Opposite::kBoth},
    {"connect", "disconnect", Opposite::kBoth},
    {"approve", "unapprove", Opposite::kUndo},
    {"resolve", "unresolve", Opposite::kBoth},
    {"resolve", "reopen", Opposite::kBoth},
    {"deploy", "undeploy", Opposite::kUndo},
    {"install", "uninstall", Opposite::kUndo},
    {"stop", "restart", Opposite::kUndo},
    {"trash", "untrash", Opposite::kBoth},
    {"trash", "restore", Opposite::kBoth},
    {"check", "uncheck", Opposite::kBoth},
    {"snooze", "unsnooze", Opposite::kBoth},
    {"bind", "unbind", Opposite::kBoth},
    {"tag", "untag", Opposite::kBoth},
    {"favorite", "unfavorite", Opposite::kBoth},
    {"approve", "reject", Opposite::kEnds},
    {"read", "unread", Opposite::kBoth},
    {"register", "deregister", Opposite::kUndo},
    {"on", "off", Opposite::kBoth},
    {"claim", "unclaim", Opposite::kBoth},
});

using ByVerb = std::unordered_map<std::string_view, std::vector<std::string_view>>;

std::span<const std::string_view> In(const ByVerb& all, std::string_view verb) {
  const auto found = all.find(verb);
  return found == all.end() ? std::span<const std::string_view>() : found->second;
}

}  // namespace

std::vector<std::string> WordsOf(std::string_view name) {
  std::vector<std::string> words(1);
  bool was_lower = false;
  for (const char c : name) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    const bool is_letter = is_upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if ((!is_letter || (is_upper && was_lower)) && !words.back().empty()) words.emplace_back();
    if (is_letter) words.back().push_back(is_upper ? static_cast<char>(c | 0x20) : c);
    was_lower = is_letter && !is_upper;
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::span<const std::string_view> OppositesOf(std::string_view verb) {
  static const ByVerb all = [] {
    ByVerb found;
    for (const Opposite& pair : kOpposites) {
      found[pair.verb].push_back(pair.opposite);
      found[pair.opposite].push_back(pair.verb);
    }
    return found;
  }();
  return In(all, verb);
}

std::span<const std::string_view> UndosOf(std::string_view verb) {
  static const ByVerb all = [] {
    ByVerb found;
    for (const Opposite& pair : kOpposites) {
      if (pair.use != Opposite::kEnds) found[pair.verb].push_back(pair.opposite);
      if (pair.use == Opposite::kBoth) found[pair.opposite].push_back(pair.verb);
    }
    return found;
  }();
  return In(all, verb);
}

}  // namespace recourse
