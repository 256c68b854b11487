#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "policy/import/openapi.h"
#include "policy/language/config_reader.h"
#include "proxy/base/limits.h"
#include "proxy/cli/policy/commands.h"
#include "proxy/cli/policy/mcp_tool_listing.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"

namespace recourse {
namespace {

int FailImport(const std::string& why) {
  std::cerr << "recourse: " << why << "\n";
  return kExitUsage;
}

int ImportOpenApi(const std::string& path, const std::vector<std::string>& overlay_paths) {
  const auto read = [](const std::string& file) {
    return ReadInputFile(file, limits::kImportedBytesMax);
  };
  auto text = read(path);
  if (!text) return FailImport(text.error() + "; give an OpenAPI file, JSON or YAML");
  std::vector<ApiFile> overlays;
  for (const std::string& overlay : overlay_paths) {
    auto changes = read(overlay);
    if (!changes) return FailImport(changes.error() + "; give an OpenAPI overlay, JSON or YAML");
    overlays.push_back({overlay, std::move(*changes)});
  }
  auto api = ReadOpenApi({path, std::move(*text)}, std::move(overlays));
  if (!api) return FailImport(api.error());
  const auto policy = PolicyFromOpenApi(path, std::move(*api));
  if (!policy) return FailImport(policy.error());
  std::cout << *policy;
  return kExitOk;
}

void AddOpenApi(CLI::App& import, int& exit_code) {
  struct Options {
    std::string file;
    std::vector<std::string> overlays;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* openapi = import.add_subcommand("openapi", "From an OpenAPI 3 description");
  openapi->add_option("file", options->file, "OpenAPI 3.0 or 3.1, JSON or YAML")->required();
  openapi->add_option("--overlay", options->overlays,
                      "OpenAPI Overlay 1.0 put on it, such as one with x-effect; may be repeated");
  openapi->callback(
      [options, &exit_code] { exit_code = ImportOpenApi(options->file, options->overlays); });
}

void AddMcp(CLI::App& import, int& exit_code) {
  struct Options {
    McpImport import;
    std::string patience = std::to_string(limits::kImportPatience.count() / 1000) + "s";
  };
  const auto options = std::make_shared<Options>();
  CLI::App* mcp = import.add_subcommand("mcp", "From the tools of a running MCP server");
  mcp->add_option("url", options->import.url, "The server's endpoint (Streamable HTTP)")
      ->required();
  mcp->add_option("--header-file", options->import.header_file,
                  "File with fields for every request, one \"Name: value\" a line");
  mcp->add_option("--ca", options->import.ca_file,
                  "Certificates trusted for an https url in place of the system's, PEM");
  mcp->add_option("--policy", options->import.policy,
                  "The policy in use: where it says trust_effects of that server, what its tools "
                  "declare of their effects is put in force");
  mcp->add_option("--timeout", options->patience, "For all of it")
      ->check([](const std::string& text) {
        return ParseDuration(text) ? std::string() : "accepted: a duration such as 10s";
      })
      ->capture_default_str();
  mcp->callback([options, &exit_code] {
    options->import.patience = *ParseDuration(options->patience);
    exit_code = RunImportMcp(options->import);
  });
}

}  // namespace

void AddImports(CLI::App& policy, int& exit_code) {
  CLI::App* import = policy.add_subcommand("import", "Write a starting policy");
  import->require_subcommand(1);
  AddOpenApi(*import, exit_code);
  AddMcp(*import, exit_code);
}

}  // namespace recourse
