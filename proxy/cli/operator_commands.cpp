#include "proxy/cli/operator_commands.h"

#include <fmt/format.h>

#include <array>
#include <iostream>
#include <memory>
#include <string>

#include "proxy/admin/access/operator_store.h"
#include "proxy/base/crypto/aead.h"
#include "proxy/base/crypto/base64url.h"
#include "proxy/base/limits.h"
#include "proxy/base/random.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

int PrintNewToken(const std::string& name) {
  if (!IsOperatorName(name) || name == kSharedOperator) {
    std::cerr << "recourse: '" << name
              << "' cannot name a person: 1 to 256 printable ASCII characters without quotes and "
                 "backslashes, and not 'admin'\n";
    return kExitUsage;
  }
  SystemRandom random;
  std::array<unsigned char, limits::kOperatorTokenBytes> bytes{};
  random.Fill(bytes);
  std::string token = ToBase64Url({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  bytes.fill(0);
  std::cout << "The token, for " << name << " alone; it is not shown again:\n"
            << token << "\n\nIts line for the operators file, under tokens:\n"
            << fmt::format("  - {{ name: \"{}\", sha256: \"{}\", roles: [ read ] }}\n", name,
                           ToHex(TokenDigest(token)))
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
  token->add_option("name", *text, "Whose it is, e.g. a mail address")->required();
  token->callback([text, &exit_code] { exit_code = PrintNewToken(*text); });
  CLI::App* check = operators->add_subcommand("check", "Report every error of an operators file");
  check->add_option("file", *text, "The file of --operators")->required();
  check->callback([text, &exit_code] { exit_code = CheckOperators(*text); });
}

}  // namespace recourse
