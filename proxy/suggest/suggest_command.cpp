#include "proxy/suggest/suggest_command.h"

#include <unistd.h>

#include <iostream>
#include <memory>

#include "policy/language/config_reader.h"
#include "proxy/cli/command_line.h"
#include "proxy/suggest/suggest.h"

namespace recourse {

void AddSuggest(CLI::App& policy, int& exit_code) {
  const auto options = std::make_shared<SuggestOptions>();
  const auto since = std::make_shared<std::string>("24h");
  CLI::App* const suggest = policy.add_subcommand(
      "suggest",
      "Write tools for a policy from the calls that observe mode has seen, and try them");
  suggest->add_option("--data", options->data, "Data directory of the process that observes")
      ->envname("RECOURSE_DATA")
      ->required();
  suggest
      ->add_option("--install-secret-file", options->install_secret,
                   "As `run` has it. Without it: DATA/install.secret")
      ->envname("RECOURSE_INSTALL_SECRET_FILE");
  suggest->add_option("--since", *since, "From so long before now")
      ->check(CheckDuration)
      ->capture_default_str();
  suggest
      ->add_option(
          "--policy", options->policy,
          "Policy in force, file or directory: the tools are checked, replayed and drilled "
          "beside it")
      ->envname("RECOURSE_POLICY");
  suggest->add_option("--openapi", options->openapi,
                      "OpenAPI description that names paths and operations");
  suggest->add_option("--out", options->out_file, "File for the tools. Without it: stdout");
  suggest->add_flag("--no-drill", options->skips_drill, "Do not drill the flows");
  suggest->add_flag("--details", options->tells_details,
                    "Print all that check and drill said, below the verdict");
  suggest->callback([options, since, &exit_code] {
    options->since = *ParseDuration(*since);
    options->tell_progress = ::isatty(STDERR_FILENO) == 1;
    exit_code = RunSuggest(*options, std::cout, std::cerr);
  });
}

}  // namespace recourse
