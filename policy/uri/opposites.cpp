#include "policy/uri/opposites.h"

#include <array>
#include <unordered_map>

namespace recourse {
namespace {

constexpr std::array kOpposites = std::to_array<Opposite>({
    {"create", "cancel"},
    {"create", "delete"},
    {"create", "remove"},
    {"create", "destroy"},
    {"create", "close"},
    {"create", "archive"},
    {"add", "remove"},
    {"add", "delete"},
    {"insert", "delete"},
    {"insert", "remove"},
    {"new", "delete"},
    {"make", "delete"},
    {"write", "delete"},
    {"upload", "delete"},
    {"upload", "remove"},
    {"register", "unregister"},
    {"place", "cancel"},
    {"submit", "cancel"},
    {"submit", "withdraw"},
    {"schedule", "cancel"},
    {"book", "cancel"},
    {"reserve", "cancel"},
    {"reserve", "release"},
    {"hold", "release"},
    {"order", "cancel"},
    {"request", "cancel"},
    {"start", "stop"},
    {"start", "cancel"},
    {"open", "close"},
    {"enable", "disable"},
    {"lock", "unlock"},
    {"grant", "revoke"},
    {"assign", "unassign"},
    {"attach", "detach"},
    {"link", "unlink"},
    {"subscribe", "unsubscribe"},
    {"publish", "unpublish"},
    {"pin", "unpin"},
    {"star", "unstar"},
    {"follow", "unfollow"},
    {"block", "unblock"},
    {"mute", "unmute"},
    {"join", "leave"},
    {"mount", "unmount"},
    {"charge", "refund"},
    {"pay", "refund"},
    {"invite", "uninvite"},
    {"close", "reopen"},
    {"archive", "unarchive"},
    {"archive", "restore"},
    {"delete", "restore"},
    {"delete", "undelete"},
    {"suspend", "resume"},
    {"suspend", "unsuspend"},
    {"pause", "resume"},
    {"pause", "unpause"},
    {"activate", "deactivate"},
    {"freeze", "unfreeze"},
    {"ban", "unban"},
    {"watch", "unwatch"},
    {"like", "unlike"},
    {"hide", "unhide"},
    {"show", "hide"},
    {"flag", "unflag"},
    {"mark", "unmark"},
    {"connect", "disconnect"},
    {"approve", "unapprove"},
    {"resolve", "unresolve"},
    {"resolve", "reopen"},
    {"deploy", "undeploy"},
    {"install", "uninstall"},
    {"stop", "restart"},
    {"trash", "untrash"},
    {"trash", "restore"},
    {"check", "uncheck"},
    {"snooze", "unsnooze"},
    {"bind", "unbind"},
    {"tag", "untag"},
    {"favorite", "unfavorite"},
    {"approve", "reject"},
    {"read", "unread"},
    {"register", "deregister"},
    {"on", "off"},
    {"claim", "unclaim"},
});

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

std::span<const Opposite> Opposites() { return kOpposites; }

std::span<const std::string_view> OppositesOf(std::string_view verb) {
  static const auto by_verb = [] {
    std::unordered_map<std::string_view, std::vector<std::string_view>> all;
    for (const Opposite& pair : kOpposites) {
      all[pair.verb].push_back(pair.opposite);
      all[pair.opposite].push_back(pair.verb);
    }
    return all;
  }();
  const auto found = by_verb.find(verb);
  return found == by_verb.end() ? std::span<const std::string_view>() : found->second;
}

}  // namespace recourse
