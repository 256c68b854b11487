// News as an incoming webhook of Slack, or of what speaks like it, takes them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace recourse {

// What people are told. Texts may come from agents and backends.
struct Notice {
  std::string title;
  std::vector<std::pair<std::string_view, std::string>> facts;  // in order; empty ones are left out
  std::string command;                                          // shows more
};

// `text` for notifications and one plain_text block. Nothing in it is formatting, a link or a
// mention: & < > are escaped as Slack asks, mrkdwn is off, control and hidden characters become
// spaces, and a value has at most 300 bytes.
std::string SlackMessage(const Notice& notice);

}  // namespace recourse
