#include "proxy/cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/ledger/model/ledger_id.h"
#include "filters/ledger/model/row_id.h"
#include "policy/language/config_reader.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

// An example for each command, without its first word.
constexpr std::pair<std::string_view, std::string_view> kExamples[] = {
    {"run", "--policy policy.yaml --data /var/lib/recourse/ledger --admin-token-file token"},
    {"steward", "--policy policy.yaml --data data --ledger postgres://recourse@db.svc/recourse"},
    {"console", "--ledger eu=https://steward-eu:19081 --ledger us=https://steward-us:19081"},
    {"events list", "--trace 4bf92f3577b34da6a3ce929d0e0e4736 --limit 20"},
    {"events show", "42"},
    {"report", "--since 24h"},
    {"status", "--json"},
    {"doctor", "--policy policy.yaml --data /var/lib/recourse/ledger"},
    {"drain", "--wait 30s"},
    {"log-level", "debug"},
    {"flows list", "--parked"},
    {"flows show", "21"},
    {"flows close", "21 --reason \"the customer keeps it\""},
    {"flows cancel", "21 --reason \"ordered by mistake\""},
    {"flows retry", "21 --reason \"the bank is back\""},
    {"flows undo", "42 --preview"},
    {"flows resolve", "21 --step 23 --as done --reason \"refunded by hand, ticket 812\""},
    {"operations list", "--phase UNCERTAIN"},
    {"operations settle", "7 --as happened --external-ref ch_81 --reason \"seen at the bank\""},
    {"operations show", "7"},
    {"approvals list", "--by finance"},
    {"approvals watch", "--json"},
    {"approvals show", "3"},
    {"approvals approve", "3 --digest DIGEST --reason \"spoke to the customer\""},
    {"approvals reject", "3 --reason \"not without a ticket\""},
    {"operators token", "ann@example.com"},
    {"operators check", "operators.yaml"},
    {"redirect show", "--ports 80,443,8080"},
    {"redirect remove", ""},
    {"redirect await", "--ports 80,443 --for 60s"},
    {"redirect node", ""},
    {"redirect install", "--ports all --exclude-ports 22,5432 --exclude-cidrs 10.96.0.0/12"},
    {"ca init", "/var/lib/recourse/ca"},
    {"ca bundle", "/var/lib/recourse/ca --out /etc/agent/ca-bundle.pem"},
    {"env", "--bundle /etc/agent/ca-bundle.pem --format dotenv > agent.env"},
    {"drill", "--policy policy.yaml"},
    {"inject", "--template template.json --tls-cert tls.crt --tls-key tls.key"},
    {"ledger verify", "--json"},
    {"ledger status", "--json"},
    {"ledger migrate", "--ledger postgres://recourse@db.svc/recourse"},
    {"ledger grant", "--ledger postgres://owner@db.svc/recourse --role shop --as pod --group shop"},
    {"ledger import", "/var/lib/recourse --to postgres://recourse@db.svc/recourse --group shop"},
    {"ledger accept", "--reason \"no call since the backup, ticket 812\""},
    {"ledger export", "--format ndjson > ledger.ndjson"},
    {"ledger new-key", "k2"},
    {"ledger backup", "ledger.mdb"},
    {"policy check", "policy.yaml --strict"},
    {"policy test", "policy.yaml"},
    {"policy schema", "> policy.schema.json"},
    {"policy import mcp", "http://127.0.0.1:3000/mcp"},
    {"policy import openapi", "openapi.yaml"},
    {"policy replay", "events.ndjson --policy policy.yaml"},
    {"policy suggest", "--policy policy.yaml --data data --since 24h --out tools.yaml"},
    {"policy status", "--json"},
    {"policy reload", "--admin 127.0.0.1:19081 --admin-token-file token"},
    {"policy explain", "policy.yaml \"POST http://orders.shop.svc/orders\" --body order.json"},
    {"pack list", "--markdown"},
    {"pack show", "stripe > stripe.yaml"},
    {"pack add", "stripe --to policy"},
    {"pack export", "stripe --as overlay > stripe.overlay.yaml"},
    {"version", ""},
    {"completion", "bash > /etc/bash_completion.d/recourse"},
    {"help exit-codes", ""},
    {"help problems", "outcome-unknown"},
};
constexpr ExitCodeFact kExitCodes[] = {
    {kExitOk, "done; of `drill`: the promise was kept"},
    {kExitRuntime,
     "it could not be done, or what was looked at is not as it should be; the line on stderr says "
     "why; `run`: start it again, also where a shared ledger's database is away"},
    {kExitUsage, "the command line, or a file that it names, is wrong"},
    {kExitPolicy, "the policy or the operators file has errors; each is named by line and column"},
    {kExitLatched,
     "`run`: the ledger could not be written and writes were refused since; start it again"},
    {kExitLedgerCut,
     "`run`: the ledger's file was cut or its disk failed under it; the next start checks it"},
    {kExitLedger,
     "the ledger is damaged, unusable or held by another process, or its database refuses "
     "this process; no restart helps, the line on stderr says what does"},
};

// "events list"; empty for the app itself.
std::string PathOf(const CLI::App& command) {
  std::string path;
  for (const CLI::App* at = &command; at->get_parent() != nullptr; at = at->get_parent()) {
    path = at->get_name() + (path.empty() ? "" : " ") + path;
  }
  return path;
}

std::string ExampleOf(const std::string& path) {
  for (const auto& [of, example] : kExamples) {
    if (of == path)
      return fmt::format("recourse {}{}{}", path, example.empty() ? "" : " ", example);
  }
  return {};
}

void AddExamples(CLI::App& command) {
  const std::string example = ExampleOf(PathOf(command));
  if (!example.empty()) command.footer("Example:\n  " + example);
  for (CLI::App* below : command.get_subcommands({})) AddExamples(*below);
}

std::vector<std::string> NamesOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* below : command.get_subcommands({})) names.push_back(below->get_name());
  return names;
}

// "--log-level" or "operation".
std::string NameOf(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames().front();
}

// The values of an option that takes one of a few.
std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

std::string AcceptedBy(const CLI::Option& option) {
  if (const auto choices = ChoicesOf(option); !choices.empty()) {
    return CLI::detail::join(choices, ", ");
  }
  const std::string type = option.get_type_name();
  if (type.find("SIZE") != std::string::npos) return "1MiB to 16TiB, such as 512MiB or 8GiB";
  if (const auto at = type.find(" in ["); at != std::string::npos) {
    std::string range = type.substr(at + 5, type.find(']') - at - 5);
    if (const auto dash = range.find(" - "); dash != std::string::npos) {
      range.replace(dash, 3, " to ");
    }
    return range;
  }
  if (type.find("POSITIVE") != std::string::npos) return "a whole number from 1";
  if (type.find("INT") != std::string::npos) return "a whole number";
  return type.find("FLOAT") != std::string::npos ? "a number" : option.get_description();
}

const CLI::App& DeepestOf(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().back();
  return *at;
}

const CLI::Option* OptionNamed(const CLI::App& command, std::string_view name) {
  for (const CLI::Option* option : command.get_options({})) {
    if (option->get_name() == name || NameOf(*option) == name) return option;
  }
  return nullptr;
}

std::string WordsForMissing(const CLI::App& command) {
  std::string missing;
  for (const CLI::Option* option : command.get_options({})) {
    if (!option->get_required() || option->count() > 0) continue;
    missing += fmt::format("{}{} ({})", missing.empty() ? "" : " and ", NameOf(*option),
                           option->get_description());
  }
  return fmt::format("{} needs {}", PathOf(command), missing);
}

std::string WordsForExtras(const CLI::App& command, std::string_view what) {
  // The library names what is left over, the last word first.
  std::string word;
  std::istringstream words{std::string(what.substr(what.find(": ") + 2))};
  for (std::string next; words >> next;) {
    if (word.empty() || next.starts_with('-') || !word.starts_with('-')) word = next;
  }
  const std::string path = PathOf(command);
  if (!word.starts_with('-')) return fmt::format("{} does not take '{}'", path, word);
  word.resize(std::min(word.find('='), word.size()));
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options({})) {
    if (!option->get_lnames().empty()) known.push_back(NameOf(*option));
  }
  return fmt::format("{} does not know '{}'{}; accepted: {}", path.empty() ? "recourse" : path,
                     word, DidYouMean(word, known), JoinWords(known));
}

// "NAME: what is wrong", or "Could not convert: NAME = VALUE".
std::string WordsForValue(const CLI::App& command, std::string_view what) {
  constexpr std::string_view kConvert = "Could not convert: ";
  std::string name, value, said;
  if (what.starts_with(kConvert)) {
    const auto equals = what.find(" = ");
    name = what.substr(kConvert.size(), equals - kConvert.size());
    value = what.substr(equals + 3);
  } else {
    const auto colon = what.find(": ");
    name = what.substr(0, colon);
    said = what.substr(colon + 2);
  }
  const CLI::Option* const option = OptionNamed(command, name);
  // Checks of our own begin with the value and say everything.
  if (option == nullptr || said.starts_with('\'')) return fmt::format("{}: {}", name, said);
  if (!option->results().empty()) value = option->results().back();
  if (value.empty()) return fmt::format("{} takes {}", NameOf(*option), AcceptedBy(*option));
  return fmt::format("{}: '{}' is no value for it; accepted: {}", NameOf(*option), value,
                     AcceptedBy(*option));
}

std::string WordsForMismatch(const CLI::App& command, std::string_view what) {
  const std::string name(what.substr(0, what.find(':')));
  const CLI::Option* const option = OptionNamed(command, name);
  if (option == nullptr) return std::string(what);
  if (option->get_items_expected_max() == 0) return name + " takes no value";
  return fmt::format("{} needs {}value: {}", name, option->count() > 1 ? "one " : "a ",
                     AcceptedBy(*option));
}

// Whoever has no policy yet gets one that changes nothing.
constexpr std::string_view kFirstPolicy = R"(
No policy yet? This one only watches. Save it as policy.yaml, with your own backend's address:

  version: 1
  mode: observe
  backends:
    shop: { url: "http://127.0.0.1:8080", hosts: [ "127.0.0.1:19080" ] }

Start it, and let the agent use http://127.0.0.1:19080 in place of the backend's address:

  (umask 077; openssl rand -hex 16 > token)
  recourse run --policy policy.yaml --data ./ledger --admin-token-file token

What enforcing would have done, and, after some hundred calls, tools for the policy from them:

  recourse report --since 1h --admin-token-file token
  recourse policy suggest --data ./ledger --policy policy.yaml --out tools.yaml

)";

bool LacksPolicy(const CLI::App& command, const CLI::ParseError& error) {
  const CLI::Option* const policy = OptionNamed(command, "--policy");
  return static_cast<CLI::ExitCodes>(error.get_exit_code()) == CLI::ExitCodes::RequiredError &&
         PathOf(command) == "run" && policy != nullptr && policy->count() == 0 &&
         command.remaining().empty();
}

std::string WhatIsWrong(const CLI::App& command, const CLI::ParseError& error) {
  const std::string what = error.what();
  const auto at = what.find(" requires ");
  // Its name may be that of the command.
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::RequiredError:
      // What was meant for it may be misspelled.
      for (const std::string& word : command.remaining()) {
        if (word.starts_with('-')) return WordsForExtras(command, ": " + word);
      }
      return command.get_subcommands({}).empty()
                 ? WordsForMissing(command)
                 : fmt::format("say what to do; accepted: {}", JoinWords(NamesOf(command)));
    case CLI::ExitCodes::ExtrasError:
      return WordsForExtras(command, what);
    case CLI::ExitCodes::ConversionError:
    case CLI::ExitCodes::ValidationError:
      return WordsForValue(command, what);
    case CLI::ExitCodes::ArgumentMismatch:
      return WordsForMismatch(command, what);
    case CLI::ExitCodes::RequiresError:
      if (at == std::string::npos) return what;
      return fmt::format("{} needs {} too", what.substr(0, at), what.substr(at + 10));
    default:
      return what;
  }
}

// One line of a case: what is typed after `path`, where nothing else has been said.
void AppendCommand(std::string& words, std::string& values, std::string& paths,
                   const CLI::App& command) {
  const std::string path = PathOf(command);
  const std::string key = path.empty() ? "recourse" : "recourse " + path;
  if (!path.empty()) paths += fmt::format("{}'{}'", paths.empty() ? "" : "|", key);
  std::string all = CLI::detail::join(NamesOf(command), " "), free;
  for (const CLI::Option* option : command.get_options({})) {
    const auto choices = ChoicesOf(*option);
    const std::string joined = CLI::detail::join(choices, " ");
    if (option->get_lnames().empty()) {
      all += (all.empty() ? "" : " ") + joined;
      continue;
    }
    const std::string name = NameOf(*option);
    all += (all.empty() ? "" : " ") + name;
    if (option->get_items_expected_max() == 0) continue;
    if (choices.empty()) {
      free += fmt::format("{}'{} {}'", free.empty() ? "" : "|", key, name);
    } else {
      values += fmt::format("    '{} {}') words='{}' ;;\n", key, name, joined);
    }
  }
  if (!free.empty()) values += fmt::format("    {}) return ;;\n", free);
  words += fmt::format("    '{}') words='{}' ;;\n", key, all);
  for (const CLI::App* below : command.get_subcommands({})) {
    AppendCommand(words, values, paths, *below);
  }
}

std::string FishQuoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "'";
}

// What may stand behind a command, one line each.
void AppendFish(std::string& lines, std::string& paths, const CLI::App& command) {
  const std::string path = PathOf(command);
  const std::string key = path.empty() ? "recourse" : "recourse " + path;
  if (!path.empty()) paths += fmt::format(" '{}'", key);
  const std::string at = fmt::format("complete -c recourse -n \"__recourse_at '{}'\"", key);
  for (const CLI::App* below : command.get_subcommands({})) {
    lines += fmt::format("{} -f -a {} -d {}\n", at, below->get_name(),
                         FishQuoted(below->get_description()));
  }
  for (const CLI::Option* option : command.get_options({})) {
    const std::string choices = CLI::detail::join(ChoicesOf(*option), " ");
    if (option->get_lnames().empty()) {
      if (!choices.empty()) lines += fmt::format("{} -f -a '{}'\n", at, choices);
      continue;
    }
    lines += fmt::format("{} -l {}{} -d {}\n", at, option->get_lnames().front(),
                         option->get_items_expected_max() == 0 ? std::string()
                         : choices.empty()                     ? std::string(" -r")
                                                               : " -x -a '" + choices + "'",
                         FishQuoted(option->get_description()));
  }
  for (const CLI::App* below : command.get_subcommands({})) AppendFish(lines, paths, *below);
}

void AddCompletion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      app.add_subcommand("completion", "Print what completes these commands in a shell");
  completion->add_option("shell", *shell, "bash, fish or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "fish", "zsh"}));
  completion->callback([shell, &app] {
    std::cout << (*shell == "bash"   ? BashCompletion(app)
                  : *shell == "fish" ? FishCompletion(app)
                                     : ZshCompletion(app));
  });
}

}  // namespace

std::string CheckDuration(const std::string& text) {
  return ParseDuration(text) ? std::string()
                             : "'" + text + "' is not a duration such as 500ms, 25s or 2m";
}

CLI::Option* AddId(CLI::App& command, const std::string& name, std::uint64_t& id,
                   const std::string& help) {
  const auto objection = [](const std::string& text) {
    return ParseRowId(text) ? std::string() : "'" + text + "' is not an id such as 17 or 42.17";
  };
  return command
      .add_option_function<std::string>(
          name, [&id](const std::string& text) { id = ParseRowId(text).value_or(0); }, help)
      ->check(objection)
      ->type_name("ID");
}

CLI::Option* AddServedId(CLI::App& command, const std::string& name, std::string& id,
                         const std::string& help) {
  const auto objection = [](const std::string& text) {
    return ParseRowId(text) || SplitLedgerId(text)
               ? std::string()
               : "'" + text + "' is not an id such as 17 or 42.17, or eu:42.17 at a console";
  };
  return command.add_option(name, id, help)->check(objection)->type_name("ID");
}

CLI::Option* AddPlace(CLI::App& command, const std::string& name, std::string& place,
                      const std::string& help) {
  const auto objection = [](const std::string& text) {
    return ParseRowId(text) || SplitLedgerId(text) || IsPlaceInLedgers(text)
               ? std::string()
               : "'" + text + "' is neither an id such as 17 or eu:42.17 nor what a list named";
  };
  return command.add_option(name, place, help)->check(objection)->type_name("ID");
}

void FinishCommands(CLI::App& app) {
  AddCompletion(app);
  AddExamples(app);
  app.footer("Exit codes: recourse help exit-codes. Answers to agents: recourse help problems");
}

std::string WordsFor(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = DeepestOf(app);
  const std::string path = PathOf(command), example = ExampleOf(path);
  std::string words = WhatIsWrong(command, error) + "\n";
  if (LacksPolicy(command, error)) words += kFirstPolicy;
  if (!example.empty()) words += "  example: " + example + "\n";
  return words + fmt::format("  more:    recourse {}{}--help\n", path, path.empty() ? "" : " ");
}

std::string UnknownCommand(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    if (at->get_subcommands({}).empty()) return {};
    const CLI::App* next = nullptr;
    for (const CLI::App* command : at->get_subcommands({})) {
      if (command->get_name() == argv[i]) next = command;
    }
    if (next == nullptr) {
      const std::vector<std::string> names = NamesOf(*at);
      return fmt::format("there is no command '{}'{}; accepted: {}", argv[i],
                         DidYouMean(argv[i], names), JoinWords(names));
    }
    at = next;
  }
  return {};
}

std::string BashCompletion(const CLI::App& app) {
  std::string words, values, paths;
  AppendCommand(words, values, paths, app);
  return fmt::format(R"(# Completes the commands of {}.
_recourse() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  local at=recourse words= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at ${{COMP_WORDS[i]}}" in
    {}) at="$at ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$at" in
{}  esac
  # The value of an option; without fixed values the shell completes names of files.
  case "$at $before" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _recourse recourse
)",
                     std::string("recourse ") + RECOURSE_VERSION, paths, words, values);
}

std::string ZshCompletion(const CLI::App& app) {
  // As a file of $fpath it is read when the first Tab asks, and has to answer that one too.
  return "#compdef recourse\nautoload -U +X bashcompinit && bashcompinit\n" + BashCompletion(app) +
         "(( $+compstate )) && _bash_complete -o default -F _recourse\n";
}

std::string FishCompletion(const CLI::App& app) {
  std::string lines, paths;
  AppendFish(lines, paths, app);
  return fmt::format(R"(# Completes the commands of {}.
function __recourse_at
    set -l at recourse
    for word in (commandline -opc)[2..-1]
        switch "$at $word"
            case{}
                set at "$at $word"
        end
    end
    test "$at" = "$argv[1]"
end
{})",
                     std::string("recourse ") + RECOURSE_VERSION, paths, lines);
}

std::span<const ExitCodeFact> ExitCodeFacts() { return kExitCodes; }

}  // namespace recourse
