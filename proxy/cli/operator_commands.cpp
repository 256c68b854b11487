#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/admin/access/operator_store.h"
#include "proxy/base/crypto/aead.h"
#include "proxy/base/crypto/base64url.h"
#include "proxy/base/limits.h"
#include "proxy/base/random.h"
#include "proxy/cli/commands.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

constexpr std::string_view kNameForm =
    "1 to 256 printable ASCII characters without quotes and backslashes";

struct NewToken {
  std::string name;
  std::vector<std::string> groups, roles;
};

int PrintNewToken(const NewToken& asked) {
  for (const std::string& name : asked.groups) {
    if (IsOperatorName(name)) continue;
    std::cerr << "recourse: '" << name << "' cannot name a group: " << kNameForm << "\n";
    return kExitUsage;
  }
  if (!IsOperatorName(asked.name) || asked.name == kSharedOperator) {
    std::cerr << "recourse: '" << asked.name << "' cannot name a person: " << kNameForm
              << ", and not 'admin'\n";
    return kExitUsage;
  }
  SystemRandom random;
  std::array<unsigned char, limits::kOperatorTokenBytes> bytes{};
  random.Fill(bytes);
  std::string token = ToBase64Url({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  bytes.fill(0);
  const std::string groups =
      asked.groups.empty() ? ""
                           : fmt::format(" groups: [ \"{}\" ],", fmt::join(asked.groups, "\", \""));
  std::cout << "The token, for " << asked.name << " alone; it is not shown again:\n"
            << token << "\n\nIts line for the operators file, under tokens:\n"
            << fmt::format("  - {{ name: \"{}\", sha256: \"{}\",{} roles: [ {} ] }}\n", asked.name,
                           ToHex(TokenDigest(token)), groups, fmt::join(asked.roles, ", "))
            << std::flush;
  Wipe(token);
  return kExitOk;
}

int CheckOperators(const std::string& path) {
  const OperatorFiles files = ReadOperatorFiles(path);
  for (const PolicyProblem& problem : files.loaded.problems) {
    std::cout << problem.ToString() << "\n";
  }
  if (!files.loaded.ok()) return kExitPolicy;
  const OperatorDirectory& book = *files.loaded.book;
  std::cout << fmt::format("ok: {} tokens, {} certificates, {}\n", book.tokens.size(),
                           book.certificates.size(),
                           book.jwt ? "tokens of " + book.jwt->issuer : "no issuer of tokens");
  return kExitOk;
}

}  // namespace

void AddOperators(CLI::App& app, int& exit_code) {
  const auto text = std::make_shared<std::string>();
  CLI::App* operators = app.add_subcommand("operators", "Who may use the admin API");
  operators->require_subcommand(1);
  CLI::App* token =
      operators->add_subcommand("token", "Print a fresh token, and its line for --operators");
  const auto asked = std::make_shared<NewToken>();
  asked->roles = {"read"};
  token->add_option("name", asked->name, "Whose it is, e.g. a mail address")->required();
  token->add_option("--group", asked->groups, "A group of the policy's approvals; repeatable")
      ->allow_extra_args(false);
  token->add_option("--role", asked->roles, "What they may do; repeatable")
      ->allow_extra_args(false)
      ->check(CLI::IsMember({NameOf(Role::kRead), NameOf(Role::kApprove), NameOf(Role::kRepair),
                             NameOf(Role::kSettle)}))
      ->capture_default_str();
  token->callback([asked, &exit_code] { exit_code = PrintNewToken(*asked); });
  CLI::App* check = operators->add_subcommand("check", "Report every error of an operators file");
  check->add_option("file", *text, "The file of --operators")->required();
  check->callback([text, &exit_code] { exit_code = CheckOperators(*text); });
}

}  // namespace recourse
