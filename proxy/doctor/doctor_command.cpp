#include "proxy/doctor/doctor_command.h"

#include <iostream>
#include <memory>

#include "proxy/config/config.h"
#include "proxy/config/terminal.h"
#include "proxy/doctor/examine.h"

namespace recourse {

void AddDoctor(CLI::App& app, const ApiClient& client,
               const std::function<void(CLI::App&)>& add_admin_options, int& exit_code) {
  const Config usual;
  const auto setup = std::make_shared<Setup>();
  setup->listen = usual.listen;
  setup->probes = usual.probes;
  setup->connections = usual.bounds.connections_max;
  CLI::App* doctor = app.add_subcommand(
      "doctor", "Look at a set-up, from the agent's side and yours, and say what to mend");
  doctor->add_option("--policy", setup->policy, "Policy file or directory")
      ->envname("RECOURSE_POLICY")
      ->required();
  doctor->add_option("--data", setup->data, "Directory of the ledger, whose disk is looked at")
      ->envname("RECOURSE_DATA");
  doctor->add_option("--listen", setup->listen, "Address for agents; https:// where it speaks TLS")
      ->envname("RECOURSE_LISTEN")
      ->capture_default_str();
  doctor->add_option("--probes", setup->probes, "Address of /ready")
      ->envname("RECOURSE_PROBES")
      ->capture_default_str();
  doctor->add_option("--operators", setup->operators, "The operators file of `run`")
      ->envname("RECOURSE_OPERATORS");
  doctor->add_option("--connections-max", setup->connections, "Of `run`")
      ->envname("RECOURSE_CONNECTIONS_MAX")
      ->capture_default_str();
  auto* const call = doctor->add_option(
      "--try-key", setup->key.call,
      "Make this call (METHOD BACKEND /path) three times, with its effects: does the backend "
      "de-duplicate by its key?");
  doctor->add_option("--try-body", setup->key.body_file, "File with the body of that call")
      ->needs(call);
  doctor->add_option("--try-header", setup->key.headers, "'Name: value', a field of it; repeatable")
      ->needs(call);
  add_admin_options(*doctor);
  doctor->callback([setup, &client, &exit_code] {
    const std::vector<Check> checks = Examine(*setup, client);
    if (client.json) {
      std::cout << JsonOf(checks) << "\n";
    } else {
      std::cout << TextOf(checks, HasColours());
    }
    exit_code = HasBad(checks) ? kExitRuntime : kExitOk;
  });
}

}  // namespace recourse
