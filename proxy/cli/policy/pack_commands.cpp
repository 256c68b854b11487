#include <iostream>
#include <memory>
#include <string>

#include "policy/effects/export.h"
#include "policy/explain/packs.h"
#include "policy/language/loader.h"
#include "proxy/base/check.h"
#include "proxy/cli/policy/commands.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

int ExitCodeOf(PackResult result) {
  return result == PackResult::kDone          ? kExitOk
         : result == PackResult::kUnknownName ? kExitUsage
                                              : kExitRuntime;
}

// What its file says of itself, before its first word.
std::string AboutOf(std::string_view text) {
  std::string about;
  while (text.starts_with('#')) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(1, end - 1);
    if (line.starts_with(' ')) line.remove_prefix(1);
    about.append(line).push_back('\n');
    text.remove_prefix(end + 1);
  }
  return about;
}

PackResult ExportPack(const std::string& name, bool is_mcp) {
  const PackFile* const pack = FindPack(name, std::cerr);
  if (pack == nullptr) return PackResult::kUnknownName;
  Problems problems;
  const YamlNode tree = ReadYaml(problems.AddFile(std::string(pack->name)), pack->bytes, problems);
  const auto policy = LoadPolicyTree(tree, problems);
  RC_CHECK(policy != nullptr);  // it is part of this program
  std::cout << (is_mcp ? McpToolsOf(*policy, tree)
                       : OverlayOf(name, AboutOf(pack->bytes), *policy, tree));
  return PackResult::kDone;
}

}  // namespace

void AddPacks(CLI::App& app, int& exit_code) {
  struct Options {
    std::string name;
    std::string directory = ".";
    std::string as;
    bool is_markdown = false, is_json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* pack = app.add_subcommand("pack", "Policies of well-known APIs");
  pack->require_subcommand(1);
  CLI::App* list = pack->add_subcommand("list", "Name them, and how many writes each knows");
  list->add_flag("--markdown", options->is_markdown,
                 "A table of every write: what makes it safe to repeat, settles and undoes it");
  list->add_flag("--json", options->is_json, "That table as JSON")->excludes("--markdown");
  list->callback([options] {
    ListPacks(options->is_markdown ? PackForm::kMarkdown
              : options->is_json   ? PackForm::kJson
                                   : PackForm::kText,
              std::cout);
  });
  CLI::App* show = pack->add_subcommand("show", "Print one");
  show->add_option("name", options->name, "Such as stripe")->required();
  show->add_flag("--json", options->is_json, "With what it knows of each write");
  show->callback([options, &exit_code] {
    const PackForm form = options->is_json ? PackForm::kJson : PackForm::kText;
    exit_code = ExitCodeOf(ShowPack(options->name, form, std::cout, std::cerr));
  });
  CLI::App* add = pack->add_subcommand("add", "Copy one into a directory of policies");
  add->add_option("name", options->name, "Such as stripe")->required();
  add->add_option("--to", options->directory, "The directory; created when missing")
      ->capture_default_str();
  add->callback([options, &exit_code] {
    exit_code = ExitCodeOf(AddPack(options->name, options->directory, std::cout, std::cerr));
  });
  CLI::App* to_owner =
      pack->add_subcommand("export", "Print its facts in a form that the API's owner can ship");
  to_owner->add_option("name", options->name, "Such as stripe")->required();
  to_owner
      ->add_option("--as", options->as,
                   "overlay: of an OpenAPI description; mcp: the list of an MCP server's tools")
      ->required()
      ->check(CLI::IsMember({"overlay", "mcp"}));
  to_owner->callback([options, &exit_code] {
    exit_code = ExitCodeOf(ExportPack(options->name, options->as == "mcp"));
  });
}

}  // namespace recourse
