// What every command has: examples, completion in a shell, words for a wrong use, exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>

namespace recourse {

// Adds `completion`, and an example to each command's help. Call when `app` has every other
// command.
void FinishCommands(CLI::App& app);

// What is wrong with a command line that CLI11 refused, what is accepted, and an example. `argv` is
// that of main.
std::string WordsFor(const CLI::App& app, const CLI::ParseError& error);
// A word that names no command, and those that there are; empty: there is none.
std::string UnknownCommand(const CLI::App& app, int argc, char** argv);

// Functions of bash that complete every command, option and fixed value that `app` has; zsh takes
// them too.
std::string BashCompletion(const CLI::App& app);
std::string FishCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);

// A check of CLI11: empty, or what is wrong with a text that should be a duration.
std::string CheckDuration(const std::string& text);

// An option, or an argument, that takes an id such as 17 or 42.17, which outlives the command.
CLI::Option* AddId(CLI::App& command, const std::string& name, std::uint64_t& id,
                   const std::string& help);
// The same for a running process, or a console, which names a ledger before it: eu:42.17.
CLI::Option* AddServedId(CLI::App& command, const std::string& name, std::string& id,
                         const std::string& help);
// The same, or the place where a list of a console was cut: eu=42.17~us=7.9.
CLI::Option* AddPlace(CLI::App& command, const std::string& name, std::string& place,
                      const std::string& help);

struct ExitCodeFact {
  int code;
  std::string_view meaning;
};
// All that a command ends with; the README has the same table.
std::span<const ExitCodeFact> ExitCodeFacts();

// An option of lists.
inline void AddPod(CLI::App& command, std::string& pod) {
  command.add_option("--pod", pod, "Only what this pod wrote last, of a shared ledger");
}

// Commands share what their options set, and CLI11 reads the variables of every command, chosen or
// not: another one's variable would come after the flag that was given. Call before `app` parses
// `argv`, which is that of main.
inline void ForgetVariablesOfOthers(CLI::App& app, int argc, char** argv) {
  for (CLI::App* command : app.get_subcommands({})) {
    const bool is_chosen = argc > 1 && command->get_name() == argv[1];
    if (is_chosen && command->get_subcommands({}).empty()) continue;
    for (CLI::Option* option : command->get_options({})) option->envname("");
    ForgetVariablesOfOthers(*command, is_chosen ? argc - 1 : 0, argv + 1);
  }
}

}  // namespace recourse
