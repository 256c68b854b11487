#include "proxy/cli/ledger_commands.h"

#include <iostream>
#include <memory>
#include <utility>

#include "filters/ledger/open/shared.h"
#include "filters/ledger/seal/key_ring.h"
#include "policy/uri/ledger_url.h"
#include "proxy/base/crypto/aead.h"
#include "proxy/base/limits.h"
#include "proxy/base/random.h"
#include "proxy/cli/audit_client.h"
#include "proxy/cli/command_line.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

// What the callbacks share; lives as long as they do.
struct LedgerArguments {
  ExportQuery dump;
  std::string format = "events";
  std::string head_file, head_key, reason, backup_path, key_id = "k1";
  std::string ledger, password_file;  // of a shared one
};

int PrintNewKey(const std::string& id) {
  if (!IsKeyId(id)) {
    std::cerr << "recourse: '" << id << "' cannot name a key: a key id has 1 to "
              << limits::kKeyIdBytesMax << " letters, digits, '.', '_' or '-'\n";
    return kExitUsage;
  }
  SystemRandom random;
  std::string line = NewKeyLine(id, random);
  std::cout << line << std::flush;
  Wipe(line);
  return kExitOk;
}

// One that is no address of a database is a wrong use.
std::expected<SharedLedger, int> SharedOf(const LedgerArguments& args) {
  auto url = ParseLedgerUrl(args.ledger);
  if (url && url->is_shared()) return SharedLedger{std::move(*url), args.password_file};
  std::cerr << "recourse: --ledger: "
            << (url ? "it is no ledger in a database, which alone has tables" : url.error())
            << "\n";
  return std::unexpected(kExitUsage);
}

int PrintSaid(const std::expected<std::string, std::string>& said) {
  if (said) {
    std::cout << *said << "\n";
    return kExitOk;
  }
  std::cerr << "recourse: " << said.error() << "\n";
  return kExitLedger;
}

int MigrateLedger(const LedgerArguments& args) {
  const auto ledger = SharedOf(args);
  return ledger ? PrintSaid(MigrateSharedLedger(*ledger)) : ledger.error();
}

int ShowStatus(const ApiClient& client, const LedgerArguments& args) {
  if (args.ledger.empty()) return ShowLedger(client, std::cout, std::cerr);
  const auto ledger = SharedOf(args);
  return ledger ? PrintSaid(SharedLedgerStatus(*ledger)) : ledger.error();
}

int Export(const ApiClient& client, const LedgerArguments& args) {
  if (args.format != "ndjson") return ExportLedger(client, args.dump, std::cout, std::cerr);
  if (!args.dump.trace.empty() || args.dump.with_answers) {
    std::cerr << "recourse: --format ndjson is the whole chain, whose bytes are sealed: leave "
                 "--trace and --with-answers out\n";
    return kExitUsage;
  }
  return ExportRows(client, args.dump.after, std::cout, std::cerr);
}

}  // namespace

void AddLedger(CLI::App& app, const ApiClient& client,
               const std::function<void(CLI::App&)>& add_admin_options, int& exit_code) {
  const auto args = std::make_shared<LedgerArguments>();
  CLI::App* ledger = app.add_subcommand("ledger", "Check, export or copy the ledger");
  ledger->require_subcommand(1);
  const auto command = [&](const char* verb, const char* help, const std::function<int()>& run) {
    CLI::App* added = ledger->add_subcommand(verb, help);
    add_admin_options(*added);
    added->callback([run, &exit_code] { exit_code = run(); });
    return added;
  };
  CLI::App* verify =
      command("verify", "Verify every record and the whole hash chain", [args, &client] {
        return args->head_file.empty() ? VerifyLedger(client, std::cout, std::cerr)
                                       : VerifyLedgerWithHead(client, args->head_file,
                                                              args->head_key, std::cout, std::cerr);
      });
  CLI::Option* const head = verify->add_option(
      "--head", args->head_file,
      "A file of --ledger-head-file: the ledger must still hold the head that it signs");
  verify->add_option("--head-key", args->head_key, "Public key of that head, PEM")->needs(head);
  const auto of_database = [args](CLI::App& added) {
    added.add_option("--password-file", args->password_file,
                     "File with the password of the database");
    return added.add_option("--ledger", args->ledger,
                            "A shared ledger, asked itself: postgres://USER@HOST/DATABASE");
  };
  of_database(*command("status", "Say how full and how old it is",
                       [args, &client] { return ShowStatus(client, *args); }));
  CLI::App* migrate = ledger->add_subcommand(
      "migrate", "Make the tables of a shared ledger, or what a later version adds to them");
  of_database(*migrate)->required();
  migrate->callback([args, &exit_code] { exit_code = MigrateLedger(*args); });
  command("accept",
          "Let new writes through after a restore: you know what was done since the backup",
          [args, &client] { return AcceptLedger(client, args->reason, std::cout, std::cerr); })
      ->add_option("--reason", args->reason, "What you know of it; kept in the ledger");
  CLI::App* dump = command(
      "export", "Print the ledger as lines of JSON, between a first and a last line about them",
      [args, &client] { return Export(client, *args); });
  dump->add_option(
          "--format", args->format,
          "events: what was remembered. ndjson: every row of the hash chain, with the bytes "
          "that it is made of, so that anybody can check it")
      ->check(CLI::IsMember({"events", "ndjson"}))
      ->capture_default_str();
  AddId(*dump, "--after", args->dump.after, "Only what has a larger id: goes on from there");
  dump->add_option("--trace", args->dump.trace, "Only events of this trace id");
  dump->add_flag("--with-answers", args->dump.with_answers,
                 "Also stored answers and rendered requests, in clear");
  CLI::App* key = ledger->add_subcommand(
      "new-key", "Print a line with a fresh key, to be put first into the key file");
  key->add_option("id", args->key_id, "Name of the key")->capture_default_str();
  key->callback([args, &exit_code] { exit_code = PrintNewKey(args->key_id); });
  command("backup", "Copy the running ledger into a file and check the copy",
          [args, &client] { return BackupLedger(client, args->backup_path, std::cout, std::cerr); })
      ->add_option("file", args->backup_path, "Where to put it; replaced in one step")
      ->required();
}

}  // namespace recourse
