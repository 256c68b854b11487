#include <iostream>
#include <memory>

#include "proxy/cli/command_line.h"
#include "proxy/cli/commands.h"
#include "proxy/cli/operation_client.h"

namespace recourse {
namespace {

// What the callbacks share; lives as long as they do.
struct OperationArguments {
  OperationQuery query;
  std::string shown;
  SettleArguments settle;
};

}  // namespace

void AddOperations(CLI::App& app, const ApiClient& client,
                   const std::function<void(CLI::App&)>& add_admin_options, int& exit_code) {
  const auto args = std::make_shared<OperationArguments>();
  CLI::App* operations =
      app.add_subcommand("operations", "Look at operations as they are now; settle unknown ones");
  operations->require_subcommand(1);
  CLI::App* list = operations->add_subcommand("list", "List operations, newest first");
  list->add_option("--phase", args->query.phase,
                   "Only those in this phase; UNCERTAIN: without what observe mode saw");
  list->add_option("--status", args->query.status, "PENDING, SUCCESS, FAILED or COMPENSATED");
  list->add_option("--tool", args->query.tool, "Only those of this tool");
  list->add_option("--trace", args->query.trace, "Only those of this trace id");
  list->add_option("--flow", args->query.flow, "Only those of the flow of this flow id");
  list->add_option("--caller", args->query.caller, "Only those of this caller");
  list->add_option("--value", args->query.value,
                   "Only those of this external reference, or this value of a kept answer's field");
  AddPod(*list, args->query.pod);
  list->add_option("--limit", args->query.limit, "Print at most this many")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  add_admin_options(*list);
  list->callback([args, &client, &exit_code] {
    exit_code = ListOperations(client, args->query, std::cout, std::cerr);
  });
  CLI::App* show =
      operations->add_subcommand("show", "Show what an operation is now, and all its events");
  show->add_option("id", args->shown, "The operation's number, or that of one of its events")
      ->required();
  add_admin_options(*show);
  show->callback([args, &client, &exit_code] {
    exit_code = ShowOperation(client, args->shown, std::cout, std::cerr);
  });
  CLI::App* settle = operations->add_subcommand(
      "settle", "Say what became of an operation of unknown outcome, whatever its flow is at");
  settle->add_option("id", args->settle.id, "The operation's number, or that of one of its events")
      ->required();
  settle
      ->add_option("--as", args->settle.as,
                   "happened: it had its effect; absent: it had none, and its repeat may be sent")
      ->required()
      ->check(CLI::IsMember({"happened", "absent"}));
  settle->add_option("--external-ref", args->settle.external_ref,
                     "What the backend calls the effect; its undo request may need it");
  settle->add_option("--reason", args->settle.reason, "How you know; kept in the log")->required();
  settle->add_option("--as-user", args->settle.by, "Who; put before the reason");
  add_admin_options(*settle);
  settle->callback([args, &client, &exit_code] {
    exit_code = SettleOperation(client, args->settle, std::cout, std::cerr);
  });
}

}  // namespace recourse
