#include <fmt/format.h>

#include <charconv>
#include <csignal>
#include <expected>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/language/config_reader.h"
#include "policy/uri/addresses.h"
#include "proxy/cli/command_line.h"
#include "proxy/cli/commands.h"
#include "proxy/config/config.h"
#include "proxy/net/loop/redirect_trial.h"
#include "proxy/net/loop/signal_wait.h"
#include "proxy/redirect/nft.h"
#include "proxy/redirect/pod_networks.h"
#include "proxy/redirect/redirect_rules.h"

namespace recourse {
namespace {

constexpr std::string_view kEvery = "all";

struct RedirectArguments {
  RedirectRules rules;
  std::vector<std::string> ports, exclude_ports, exclude_networks;
};

std::optional<std::uint16_t> PortOf(std::string_view text) {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [after, ec] = std::from_chars(text.data(), end, port);
  if (ec != std::errc() || after != end || port == 0) return std::nullopt;
  return port;
}

std::string CheckPort(const std::string& text) {
  return PortOf(text) ? std::string() : "'" + text + "' is not a port from 1 to 65535";
}

std::string CheckPortOrEvery(const std::string& text) {
  return text == kEvery || PortOf(text)
             ? std::string()
             : "'" + text + "' is not a port from 1 to 65535, nor the word all";
}

std::string CheckNetwork(const std::string& text) {
  return ParseAddressRange(text)
             ? std::string()
             : "'" + text +
                   "' is not a network such as 10.0.0.0/8, fd00::/8 or 10.1.2.3 (no bits set after "
                   "its prefix)";
}

void AddRuleOptions(CLI::App& command, RedirectArguments& args) {
  command.add_option("--uid", args.rules.uid, "User of Recourse itself, whose connections go on")
      ->check(CLI::Range(std::uint32_t{0}, std::uint32_t{0xfffffffe}))
      ->capture_default_str();
  command.add_option("--port", args.rules.port, "Port of `recourse run --redirect`")
      ->check(CLI::Range(std::uint16_t{1}, std::uint16_t{65535}))
      ->capture_default_str();
  command
      .add_option("--ports", args.ports,
                  "TCP ports that agents connect to, or the word all: all but DNS (53, 853) "
                  "(default: 80,443)")
      ->delimiter(',')
      ->check(CheckPortOrEvery);
  command.add_option("--exclude-ports", args.exclude_ports, "TCP ports that stay as they are")
      ->delimiter(',')
      ->check(CheckPort);
  command
      .add_option("--exclude-cidrs", args.exclude_networks,
                  "Networks that are reached as ever, e.g. 10.0.0.0/8,fd00::/8")
      ->delimiter(',')
      ->expected(1, static_cast<int>(kRedirectNetworksMax))
      ->check(CheckNetwork);
}

const RedirectRules& Resolve(RedirectArguments& args) {
  RedirectRules& rules = args.rules;
  if (!args.ports.empty()) rules.ports.clear();
  bool is_every = false;
  for (const std::string& port : args.ports) {
    is_every = is_every || port == kEvery;
    if (port != kEvery) rules.ports.insert(*PortOf(port));
  }
  if (is_every) rules.ports.clear();
  for (const std::string& port : args.exclude_ports) rules.exclude_ports.insert(*PortOf(port));
  rules.exclude_networks = args.exclude_networks;
  return rules;
}

int TellApplied(const std::expected<void, std::string>& applied, const std::string& done) {
  if (!applied) {
    std::cerr << "recourse: " << applied.error() << "\n";
    return kExitRuntime;
  }
  std::cout << done << "\n";
  return kExitOk;
}

int Install(const RedirectRules& rules) {
  if (rules.uid == 0) {
    std::cerr << "recourse: --uid 0 also exempts every agent that runs as root\n";
  }
  return TellApplied(
      ApplyWithNft(RenderRedirectRules(rules)),
      fmt::format("installed: connections to {} go to port {}, but for those of user {}",
                  WordsForRedirected(rules), rules.port, rules.uid));
}

// The options of a process that waits; it is not to be trusted.
std::expected<RedirectRules, std::string> ParseRules(const std::vector<std::string>& words) {
  CLI::App app;
  RedirectArguments args;
  std::string longest;
  AddRuleOptions(app, args);
  app.add_option("--for", longest);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Error& error) {
    return std::unexpected(std::string(error.what()));
  }
  return Resolve(args);
}

int Await(const RedirectRules& rules, Millis longest) {
  const std::optional<std::uint16_t> port = SomeRedirectedPort(rules);
  if (!port) {
    std::cerr << "recourse: these options lead no port anywhere\n";
    return kExitUsage;
  }
  const std::expected<bool, std::string> led = IsLedTo(rules.port, *port, longest);
  if (led && *led) {
    std::cout << fmt::format("connections to {} go to port {}\n", WordsForRedirected(rules),
                             rules.port);
    return kExitOk;
  }
  std::cerr << "recourse: "
            << (led ? fmt::format("connections to port {} do not go to port {}: does `recourse "
                                  "redirect node` (the chart's redirect.node) run on this node?",
                                  *port, rules.port)
                    : led.error())
            << "\n";
  return kExitRuntime;
}

// Until SIGTERM or SIGINT.
int ServeNode() {
  constexpr Millis kPause{250};
  SignalWait signals({SIGTERM, SIGINT}, -1);
  PodNetworks networks(&ParseRules);
  std::cout << "writing rules for pods of this machine that wait for them" << std::endl;
  do {
    for (const std::string& news : networks.Look()) std::cout << news << std::endl;
  } while (signals.Wait(kPause).signal == 0);
  return kExitOk;
}

void AddAwait(CLI::App& redirect, int& exit_code) {
  struct Arguments {
    RedirectArguments rules;
    std::string longest = "60s";
  };
  const auto args = std::make_shared<Arguments>();
  CLI::App* const command = redirect.add_subcommand(
      "await", "Wait until `recourse redirect node` has written the rules for this pod");
  AddRuleOptions(*command, args->rules);
  command->add_option("--for", args->longest, "How long")
      ->check(CheckDuration)
      ->capture_default_str();
  command->callback([args, &exit_code] {
    exit_code = Await(Resolve(args->rules), *ParseDuration(args->longest));
  });
}

}  // namespace

void AddRedirect(CLI::App& app, int& exit_code) {
  const auto args = std::make_shared<RedirectArguments>();
  CLI::App* redirect = app.add_subcommand(
      "redirect", "nftables rules that bring agents here that know nothing of a proxy");
  redirect->require_subcommand(1);
  CLI::App* show = redirect->add_subcommand("show", "Print the rules, for nft -f");
  AddRuleOptions(*show, *args);
  show->callback([args, &exit_code] {
    std::cout << RenderRedirectRules(Resolve(*args));
    exit_code = kExitOk;
  });
  CLI::App* install = redirect->add_subcommand(
      "install", "Apply the rules to this network namespace, in place of earlier ones");
  AddRuleOptions(*install, *args);
  install->callback([args, &exit_code] { exit_code = Install(Resolve(*args)); });
  AddAwait(*redirect, exit_code);
  CLI::App* const node = redirect->add_subcommand(
      "node",
      "Write the rules for pods of this machine that wait for them (as root, and where "
      "their processes are seen)");
  node->callback([&exit_code] { exit_code = ServeNode(); });
  CLI::App* remove = redirect->add_subcommand("remove", "Remove the rules, if there are any");
  remove->callback([&exit_code] {
    exit_code =
        TellApplied(ApplyWithNft(RenderRedirectRemoval()), "removed: nothing is redirected");
  });
}

}  // namespace recourse
