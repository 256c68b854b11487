#include <iostream>
#include <memory>

#include "proxy/cli/approval_client.h"
#include "proxy/cli/command_line.h"
#include "proxy/cli/commands.h"

namespace recourse {
namespace {

// What the callbacks share; lives as long as they do.
struct ApprovalArguments {
  ApprovalQuery query;
  ApprovalWord word;
};

}  // namespace

void AddApprovals(CLI::App& app, const ApiClient& client,
                  const std::function<void(CLI::App&)>& add_admin_options, int& exit_code) {
  const auto args = std::make_shared<ApprovalArguments>();
  CLI::App* approvals =
      app.add_subcommand("approvals", "Look at calls that wait for a human, and decide them");
  approvals->require_subcommand(1);
  CLI::App* list = approvals->add_subcommand("list", "List what waits, oldest first");
  list->add_option("--tool", args->query.tool, "Only of this tool");
  list->add_option("--caller", args->query.caller, "Only of this caller");
  list->add_option("--by", args->query.by, "Only what this group or person may decide");
  AddPod(*list, args->query.pod);
  list->add_option("--limit", args->query.limit, "Print at most this many")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000));
  add_admin_options(*list);
  list->callback([args, &client, &exit_code] {
    exit_code = ListApprovals(client, args->query, std::cout, std::cerr);
  });
  CLI::App* watch =
      approvals->add_subcommand("watch", "Print what begins to wait and what is decided");
  add_admin_options(*watch);
  watch->callback(
      [&client, &exit_code] { exit_code = WatchApprovals(client, std::cout, std::cerr); });
  const auto one = [&](const char* verb, const char* help) {
    CLI::App* command = approvals->add_subcommand(verb, help);
    AddServedId(*command, "operation", args->word.operation, "Its number")->required();
    add_admin_options(*command);
    return command;
  };
  one("show", "Show the whole request, and who said what of it")
      ->callback([args, &client, &exit_code] {
        exit_code = ShowApproval(client, args->word.operation, std::cout, std::cerr);
      });
  const auto decide = [&](const char* verb, const char* help) {
    CLI::App* command = one(verb, help);
    command->add_option("--reason", args->word.reason, "Why; kept, and told to the agent");
    command->callback([args, &client, &exit_code, verb] {
      args->word.verb = verb;
      exit_code = DecideApproval(client, args->word, std::cout, std::cerr);
    });
    return command;
  };
  CLI::App* approve = decide("approve", "Have it sent");
  approve->add_option(
      "--digest", args->word.digest,
      "Of the request that you looked at, as `approvals show` prints it: 12 digits at "
      "least; at a terminal you are shown it and asked");
  approve->add_option("--body", args->word.body_file, "Send the body in this file instead");
  decide("reject", "Have it never sent");
}

}  // namespace recourse
