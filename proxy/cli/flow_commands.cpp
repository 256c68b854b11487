#include <iostream>
#include <memory>

#include "proxy/cli/command_line.h"
#include "proxy/cli/commands.h"
#include "proxy/cli/flow_client.h"

namespace recourse {
namespace {

// What the callbacks share; lives as long as they do.
struct FlowArguments {
  FlowQuery query;
  FlowOrderArguments order;
};

}  // namespace

void AddFlows(CLI::App& app, const ApiClient& client,
              const std::function<void(CLI::App&)>& add_admin_options, int& exit_code) {
  const auto args = std::make_shared<FlowArguments>();
  CLI::App* flows = app.add_subcommand("flows", "Look at flows; end, undo and repair them");
  flows->require_subcommand(1);
  CLI::App* list = flows->add_subcommand("list", "List flows that are not over, oldest first");
  list->add_flag("--parked", args->query.parked, "Only those that broke and need a human");
  list->add_flag("--stopped", args->query.stopped,
                 "Only those that their deadline stopped unfinished (on_deadline: ask)");
  const auto add_selection = [](CLI::App& command, FlowQuery& query) {
    command.add_option("--name", query.name, "Only those of this flow of the policy");
    command.add_option("--matching", query.matching, "Only those whose reason has this text");
  };
  add_selection(*list, args->query);
  AddPod(*list, args->query.pod);
  list->add_option("--phase", args->query.phase,
                   "OPEN, COMMITTED, BREAKING, UNDOING, UNDONE or NEEDS_HUMAN");
  CLI::Option* const all =
      list->add_flag("--all", args->query.all, "The newest, over or not; reads the whole log");
  list->add_flag("--follow", args->query.follows, "Go on with what begins and moves, until Ctrl-C")
      ->excludes(all);
  list->add_option("--limit", args->query.limit, "Print at most this many")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  add_admin_options(*list);
  list->callback([args, &client, &exit_code] {
    exit_code = ListFlows(client, args->query, std::cout, std::cerr);
  });
  const auto one = [&](const char* verb, const char* help, bool needs_id = true) {
    CLI::App* command = flows->add_subcommand(verb, help);
    command->add_option("id", args->order.id, "The flow's number, or its flow id or trace id")
        ->required(needs_id);
    add_admin_options(*command);
    return command;
  };
  one("show", "Show a flow, its steps and their undo requests")
      ->callback([args, &client, &exit_code] {
        exit_code = ShowFlow(client, args->order.id, std::cout, std::cerr);
      });
  const auto order = [&](const char* verb, const char* help, bool needs_id = true) {
    CLI::App* command = one(verb, help, needs_id);
    command->add_option("--reason", args->order.reason, "Why; kept with the flow");
    command->add_option("--as-user", args->order.by, "Who; put before the reason");
    command->callback([args, &client, &exit_code, verb] {
      args->order.verb = verb;
      exit_code = OrderFlow(client, args->order, std::cout, std::cerr);
    });
    return command;
  };
  CLI::App* close = order("close", "End an open or a parked flow: what was done stays", false);
  close->add_flag("--stopped", args->order.stopped.stopped,
                  "All that `flows list --stopped` lists");
  add_selection(*close, args->order.stopped);
  order("cancel", "End an open flow: what was done is undone");
  order("retry", "Let a parked flow go on: what was stuck is tried once more");
  CLI::App* undo = order("undo", "Undo a finished flow");
  undo->add_flag("--preview", args->order.preview, "Print the exact requests, send nothing");
  undo->add_flag("--yes", args->order.yes, "Send them");
  CLI::App* resolve = order("resolve", "Say what became of a step of a parked flow");
  AddServedId(*resolve, "--step", args->order.step, "The step's number, as `flows show` prints it")
      ->required();
  resolve
      ->add_option("--as", args->order.as,
                   "done: undone by hand; not-needed: its effect may stay; happened or absent: a "
                   "step of unknown outcome had its effect, or none")
      ->required()
      ->check(CLI::IsMember({"done", "not-needed", "happened", "absent"}));
  resolve->add_option("--external-ref", args->order.external_ref,
                      "What the backend calls what happened; its undo request may need it");
}

}  // namespace recourse
