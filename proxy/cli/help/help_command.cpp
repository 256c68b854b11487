#include "proxy/cli/help/help_command.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/language/config_reader.h"
#include "proxy/base/error.h"
#include "proxy/cli/command_line.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

const ErrorFacts& ProblemAt(int index) { return FactsOf(static_cast<ErrorCode>(index)); }

// A `type` ends in the name of its problem, and may stand for it.
std::string_view LastSegment(std::string_view type) { return type.substr(type.rfind('/') + 1); }

std::string NoProblem(const std::string& text) {
  std::vector<std::string> slugs;
  for (int i = 0; i < kErrorCodeCount; ++i) {
    slugs.emplace_back(ProblemAt(i).slug);
    if (slugs.back() == LastSegment(text)) return {};
  }
  return fmt::format("'{}' is no problem{}; `recourse help problems` lists them", text,
                     DidYouMean(LastSegment(text), slugs));
}

// What an operator needs of proxy/docs/answers.md where the page is not at hand.
std::string WordsOf(const ErrorFacts& facts) {
  return fmt::format("{} ({}, {}{})\n  means:    {}\n  agent:    {}\n  operator: {}\n", facts.slug,
                     facts.http_status, facts.outcome, facts.retryable ? ", retryable" : "",
                     facts.cause, facts.advice, facts.operators);
}

// One of them, or all where `type` is empty.
void PrintProblems(std::string_view type) {
  for (int i = 0; i < kErrorCodeCount; ++i) {
    const ErrorFacts& facts = ProblemAt(i);
    if (type.empty()) {
      std::cout << WordsOf(facts) << "\n";
    } else if (facts.slug == LastSegment(type)) {
      std::cout << WordsOf(facts) << "  page:     proxy/docs/answers.md#" << facts.slug << "\n";
    }
  }
}

class OwnHelp final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    constexpr std::string_view kHidden = " []";
    std::string usage = Formatter::make_usage(app, std::move(name));
    if (const auto at = usage.find(kHidden); at != usage.npos) usage.erase(at, kHidden.size());
    return usage;
  }
};

}  // namespace

void UseOwnHelp(CLI::App& app) { app.formatter(std::make_shared<OwnHelp>()); }

void AddHelp(CLI::App& app, int& exit_code) {
  CLI::App* help =
      app.add_subcommand("help", "Print this text, or the meaning of exit codes or problems");
  help->callback([help, &app, &exit_code] {
    // app.help() is that of the command which was given.
    if (help->get_subcommands().empty()) {
      std::cout << app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
    }
    exit_code = kExitOk;
  });
  help->add_subcommand("exit-codes", "Print what each exit code means")->callback([] {
    for (const ExitCodeFact& fact : ExitCodeFacts()) {
      std::cout << fmt::format("{:>4}  {}\n", fact.code, fact.meaning);
    }
  });
  CLI::App* problems = help->add_subcommand(
      "problems", "Print what the answers that an agent may see mean, or one of them");
  const auto type = std::make_shared<std::string>();
  problems->add_option("problem", *type, "Its `type`, or the last part of that")->check(NoProblem);
  problems->callback([type] { PrintProblems(*type); });
}

}  // namespace recourse
