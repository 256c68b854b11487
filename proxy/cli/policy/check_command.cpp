#include <iostream>
#include <memory>
#include <string>

#include "policy/explain/check.h"
#include "proxy/cli/policy/commands.h"
#include "proxy/cli/policy/operator_check.h"

namespace recourse {
namespace {

struct CheckArguments {
  std::string path, operators;
  CheckOptions options;
};

}  // namespace

void AddCheck(CLI::App& policy, int& exit_code) {
  const auto args = std::make_shared<CheckArguments>();
  CLI::App* const check = policy.add_subcommand("check", "Report every error and warning");
  check->add_option("file", args->path, "Policy file or directory")->required();
  check->add_option("--operators", args->operators,
                    "The operators file of `run`: warn of approvers that nobody in it is");
  check->add_flag("--strict", args->options.is_strict, "Fail for warnings, too");
  const auto add_form = [check, args](const char* flag, CheckForm form, const char* help) {
    return check->add_flag_callback(flag, [args, form] { args->options.form = form; }, help);
  };
  CLI::Option* const sarif =
      add_form("--sarif", CheckForm::kSarif, "Print SARIF 2.1.0, for code scanning");
  add_form("--json", CheckForm::kJson, "Print JSON")->excludes(sarif);
  check->callback([args, &exit_code] {
    const auto further = [&args](const LoadedPolicy& loaded) {
      return ProblemsWithOperators(loaded, args->operators);
    };
    exit_code = RunPolicyCheck(args->path, std::cout,
                               args->operators.empty() ? FurtherCheck() : further, args->options);
  });
}

}  // namespace recourse
