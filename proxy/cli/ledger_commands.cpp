#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <utility>

#include "filters/ledger/seal/key_ring.h"
#include "proxy/base/crypto/aead.h"
#include "proxy/base/limits.h"
#include "proxy/base/random.h"
#include "proxy/cli/audit_client.h"
#include "proxy/cli/command_line.h"
#include "proxy/cli/commands.h"
#include "proxy/cli/process_client.h"
#include "proxy/cli/shared_ledger_client.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

// What the callbacks share; lives as long as they do.
struct LedgerArguments {
  ExportQuery dump;
  std::string format = "events";
  std::string head_file, head_key, reason, backup_path, directory, group, key_id = "k1";
  SharedLedgerArguments shared;
  SharedGrant grant;
  bool all_groups = false;
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

int Verify(const ApiClient& client, const LedgerArguments& args) {
  if (!args.shared.ledger.empty()) {
    return VerifySharedLedger(args.shared, client.json, std::cout, std::cerr);
  }
  if (args.head_file.empty()) return VerifyLedger(client, std::cout, std::cerr);
  return VerifyLedgerWithHead(client, args.head_file, args.head_key, std::cout, std::cerr);
}

int Accept(const ApiClient& client, const LedgerArguments& args) {
  if (args.reason.find_first_not_of(' ') == std::string::npos) {
    std::cerr << "recourse: say why with --reason TEXT: it is kept in the ledger\n";
    return kExitUsage;
  }
  if (args.shared.ledger.empty()) return AcceptLedger(client, args.reason, std::cout, std::cerr);
  if (args.group.empty() != args.all_groups) {
    std::cerr << "recourse: whose? Each group has its own calls to look after: give --group, or "
                 "--all-groups\n";
    return kExitUsage;
  }
  return AcceptSharedLedger(args.shared, args.group, args.reason, std::cout, std::cerr);
}

int Export(const ApiClient& client, const LedgerArguments& args) {
  const bool is_shared = !args.shared.ledger.empty();
  if (is_shared && (args.format != "ndjson" || args.dump.after != 0)) {
    std::cerr << "recourse: of --ledger every chain is exported whole: give --format ndjson and "
                 "no --after; for events ask a process\n";
    return kExitUsage;
  }
  if (args.format != "ndjson") return ExportLedger(client, args.dump, std::cout, std::cerr);
  if (!args.dump.trace.empty() || args.dump.with_answers) {
    std::cerr << "recourse: --format ndjson is the whole chain, whose bytes are sealed: leave "
                 "--trace and --with-answers out\n";
    return kExitUsage;
  }
  return is_shared ? ExportSharedLedger(args.shared, std::cout, std::cerr)
                   : ExportRows(client, args.dump.after, std::cout, std::cerr);
}

void AddPasswordFile(CLI::App& added, LedgerArguments& args) {
  added.add_option("--ledger-password-file", args.shared.password_file,
                   "File with the password of the database");
}

CLI::Option* OfDatabase(CLI::App& added, LedgerArguments& args) {
  AddPasswordFile(added, args);
  return added.add_option("--ledger", args.shared.ledger,
                          "A shared ledger, asked itself: postgres://USER@HOST/DATABASE");
}

CLI::Option* OfRows(CLI::App& added, LedgerArguments& args) {
  CLI::Option* const of = OfDatabase(added, args);
  added
      .add_option("--ledger-key-file", args.shared.key_file,
                  "Keys of what is sealed in that ledger; without them it stays sealed")
      ->needs(of);
  return of;
}

// Those that need no running process at all.
void AddDatabaseCommands(CLI::App& ledger, const std::shared_ptr<LedgerArguments>& args,
                         int& exit_code) {
  CLI::App* migrate = ledger.add_subcommand(
      "migrate", "Make the tables of a shared ledger, or what a later version adds to them");
  OfDatabase(*migrate, *args)->required();
  migrate->callback(
      [args, &exit_code] { exit_code = MigrateLedger(args->shared, std::cout, std::cerr); });
  CLI::App* grant = ledger.add_subcommand(
      "grant", "Give a role of the database what its task needs, and rows of its group alone");
  OfDatabase(*grant, *args)->required();
  grant->add_option("--role", args->grant.role, "Of the database; is there already")->required();
  grant
      ->add_option("--as", args->grant.task,
                   "pod: serves agents. keeper: also lets old rows leave. migration: makes and "
                   "changes tables. reader: looks and exports")
      ->required()
      ->check(CLI::IsMember({"pod", "keeper", "migration", "reader"}));
  grant->add_option("--group", args->grant.group,
                    "Whose rows, as in the policy; a reader without it sees all");
  grant->callback([args, &exit_code] {
    exit_code = GrantLedger(args->shared, args->grant, std::cout, std::cerr);
  });
  CLI::App* import = ledger.add_subcommand(
      "import",
      "Bring a ledger of --data into a shared one, with its ids and all that is open; again after "
      "whatever ended it");
  import->add_option("directory", args->directory, "Where it is; no process may hold it")
      ->required();
  import->add_option("--to", args->shared.ledger, "postgres://USER@HOST/DATABASE")->required();
  import->add_option("--group", args->group, "The pods that go on with it, as their policy says")
      ->required();
  AddPasswordFile(*import, *args);
  import->add_option("--ledger-key-file", args->shared.key_file,
                     "Keys of what is sealed in it; default: its own");
  import->add_option("--install-secret-file", args->shared.install_secret_file,
                     "The secret that its keys are made with; default: its own");
  import->callback([args, &exit_code] {
    exit_code =
        ImportIntoSharedLedger(args->shared, args->directory, args->group, std::cout, std::cerr);
  });
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
  CLI::App* verify = command("verify", "Verify every record and the whole hash chain",
                             [args, &client] { return Verify(client, *args); });
  CLI::Option* const head = verify->add_option(
      "--head", args->head_file,
      "A file of --ledger-head-file: the ledger must still hold the head that it signs");
  verify->add_option("--head-key", args->head_key, "Public key of that head, PEM")->needs(head);
  OfRows(*verify, *args)->excludes(head);
  // Whoever names one is told what to do; help does not show it.
  verify->add_option("directory", args->directory)->group("")->check([](const std::string& name) {
    return fmt::format(
        "'{}' is not taken: verify asks a running process (--admin), or a shared "
        "ledger (--ledger). For a stopped directory start one on it: recourse run "
        "--data {} --policy FILE",
        name, name);
  });
  CLI::App* status = command("status", "Say how full and how old it is", [args, &client] {
    return args->shared.ledger.empty() ? ShowLedger(client, std::cout, std::cerr)
                                       : ShowSharedLedger(args->shared, std::cout, std::cerr);
  });
  OfDatabase(*status, *args);
  AddDatabaseCommands(*ledger, args, exit_code);
  CLI::App* accept = command(
      "accept", "Let new writes through after a restore: you know what was done since the backup",
      [args, &client] { return Accept(client, *args); });
  accept->add_option("--reason", args->reason, "What you know of it; kept in the ledger")
      ->required();
  CLI::Option* const of = OfDatabase(*accept, *args);
  accept->add_option("--group", args->group, "Whose writes, as in the policy")->needs(of);
  accept->add_flag("--all-groups", args->all_groups, "Those of every group of the database")
      ->needs(of);
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
  OfRows(*dump, *args);
  CLI::App* key = ledger->add_subcommand(
      "new-key", "Print a line with a fresh key, to be put first into the key file");
  key->add_option("id", args->key_id, "Name of the key")->capture_default_str();
  key->callback([args, &exit_code] { exit_code = PrintNewKey(args->key_id); });
  command("backup", "Copy the running ledger into a file and check the copy",
          [args, &client] { return BackupLedger(client, args->backup_path, std::cout, std::cerr); })
      ->add_option("file", args->backup_path, "Where to put it; not there yet")
      ->required();
}

}  // namespace recourse
