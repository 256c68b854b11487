#include "proxy/cli/policy/pack_commands.h"

#include <iostream>
#include <memory>
#include <string>

#include "policy/explain/packs.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

int ExitCodeOf(PackResult result) {
  return result == PackResult::kDone          ? kExitOk
         : result == PackResult::kUnknownName ? kExitUsage
                                              : kExitRuntime;
}

}  // namespace

void AddPacks(CLI::App& app, int& exit_code) {
  struct Options {
    std::string name;
    std::string directory = ".";
    bool is_markdown = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* pack = app.add_subcommand("pack", "Policies of well-known APIs");
  pack->require_subcommand(1);
  CLI::App* list = pack->add_subcommand("list", "Name them, and how many writes each knows");
  list->add_flag("--markdown", options->is_markdown,
                 "A table of every write: what makes it safe to repeat, settles and undoes it");
  list->callback([options] {
    ListPacks(options->is_markdown ? PackForm::kMarkdown : PackForm::kText, std::cout);
  });
  CLI::App* show = pack->add_subcommand("show", "Print one");
  show->add_option("name", options->name, "Such as stripe")->required();
  show->callback([options, &exit_code] {
    exit_code = ExitCodeOf(ShowPack(options->name, std::cout, std::cerr));
  });
  CLI::App* add = pack->add_subcommand("add", "Copy one into a directory of policies");
  add->add_option("name", options->name, "Such as stripe")->required();
  add->add_option("--to", options->directory, "The directory; created when missing")
      ->capture_default_str();
  add->callback([options, &exit_code] {
    exit_code = ExitCodeOf(AddPack(options->name, options->directory, std::cout, std::cerr));
  });
}

}  // namespace recourse
