#include "proxy/suggest/suggest.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "policy/explain/check.h"
#include "policy/files/sources.h"
#include "policy/import/openapi.h"
#include "policy/language/loader.h"
#include "policy/suggest/suggest.h"
#include "policy/suggest/tool_verdict.h"
#include "proxy/base/limits.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"
#include "proxy/drill/drill.h"
#include "proxy/suggest/kept_calls.h"

namespace recourse {
namespace {

namespace fs = std::filesystem;

template <class T>
using OrWords = std::expected<T, std::string>;  // the error is a line for people

OrWords<std::vector<KnownOperation>> DescribedBy(const std::string& path) {
  std::vector<KnownOperation> known;
  if (path.empty()) return known;
  auto text = ReadInputFile(path, limits::kImportedBytesMax);
  if (!text) return std::unexpected(text.error());
  const auto api = ReadOpenApi({path, std::move(*text)});
  if (!api) return std::unexpected(api.error());
  for (const ApiOperation& operation : api->operations) {
    known.push_back({operation.method, operation.path, operation.id});
  }
  return known;
}

// What an earlier suggestion wrote is replaced by this one.
PolicySources WithoutOutFile(const SuggestOptions& options) {
  PolicySources sources = ReadPolicyTwice(options.policy);
  std::error_code ignored;
  std::erase_if(sources.files, [&](const PolicySource& source) {
    return !options.out_file.empty() && fs::equivalent(source.name, options.out_file, ignored);
  });
  return sources;
}

OrWords<Suggestion> Infer(const SuggestOptions& options, std::ostream& err) {
  const auto known = DescribedBy(options.openapi);
  if (!known) return std::unexpected(known.error());
  const auto kept = ReadKeptCalls({options.data, options.install_secret, options.since}, err);
  if (!kept) return std::unexpected(kept.error());
  if (options.policy.empty()) return SuggestTools(kept->seen, *known);
  // One that is invalid is told by the trial.
  const LoadedPolicy listed = LoadPolicyFiles(WithoutOutFile(options));
  return SuggestTools(kept->seen, *known, listed.ok() ? listed.policy.get() : nullptr);
}

// What became of it beside the policy in force.
struct Trial {
  std::string lines;    // of the verdict
  std::string details;  // what the check and the drill said
  std::string failed;   // why it does not hold; empty: it does
  int exit_code = kExitOk;
};

// The policy in force with the suggestion beside it.
PolicySources Beside(const SuggestOptions& options, const std::string& text) {
  PolicySources sources = WithoutOutFile(options);
  sources.files.push_back({options.out_file.empty() ? "suggested.yaml" : options.out_file, text});
  return sources;
}

void TryDrill(const SuggestOptions& options, const PolicySources& sources, Trial& trial,
              std::ostream& err) {
  DrillOptions drill;
  drill.policy = options.policy;
  drill.tell_progress = options.tell_progress;
  const auto findings = PlayDrill(sources, drill, err);
  if (!findings) {
    trial.lines += "  drill   none: no write can be called by it\n";
    trial.details += findings.error();
    return;
  }
  trial.lines += "  drill   " + DrillSummary(*findings);
  trial.details += DrillTable(*findings);
  if (SumsOf(*findings).is_kept()) return;
  trial.failed = "the drill did not keep the promise";
  trial.exit_code = kExitRuntime;
}

Trial TryOut(const SuggestOptions& options, const Suggestion& made, const std::string& text,
             std::ostream& err) {
  Trial trial;
  const PolicySources sources = Beside(options, text);
  const CheckedPolicy checked =
      CheckPolicyFiles(options.policy + " with " + sources.files.back().name, sources);
  trial.details = checked.text;
  const auto counted = [](std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  trial.lines = fmt::format("  check   {} beside {}: {}, {}\n",
                            checked.is_valid ? "valid" : "INVALID", options.policy,
                            counted(checked.errors, "error"), counted(checked.warnings, "warning"));
  if (!checked.is_valid) {
    const bool is_read = sources.problems.empty();
    trial.exit_code = is_read ? kExitRuntime : kExitUsage;
    trial.failed = is_read ? "the policy is invalid with it, see below" : "no policy, see below";
    return trial;
  }
  const SuggestedReplay& replay = made.replay;
  trial.lines += fmt::format(
      "  replay  {}, {}; {} of those refused for other arguments, {} another "
      "intent\n",
      counted(replay.writes, "write"), counted(replay.repeats, "repeat"), replay.refused,
      replay.merged);
  if (replay.merged > 0) {
    trial.failed = "it takes two intents for one";
    trial.exit_code = kExitRuntime;
  } else if (!options.skips_drill) {
    TryDrill(options, sources, trial, err);
  }
  return trial;
}

std::string VerdictOn(const SuggestOptions& options, const Suggestion& made, const Trial& trial) {
  std::size_t reads = 0, undecided = 0;
  for (const SuggestedTool& tool : made.tools) {
    reads += tool.seen.IsRead();
    undecided += VerdictOf(tool).must_decide;
  }
  const std::string word = options.policy.empty()  ? "not tried, as no --policy is named"
                           : !trial.failed.empty() ? trial.failed
                                                   : "it holds";
  return fmt::format(
      "verdict: {}; {} tools from {} calls ({} read, {} write), {} listed already; {} to decide "
      "before enforce\n",
      word, made.tools.size(), made.calls, reads, made.tools.size() - reads, made.listed,
      undecided);
}

}  // namespace

int RunSuggest(const SuggestOptions& options, std::ostream& out, std::ostream& err) {
  auto made = Infer(options, err);
  if (!made) {
    err << "recourse: " << made.error() << "\n";
    return kExitUsage;
  }
  const std::string text = ToolsText(*made);
  if (!options.out_file.empty()) {
    if (const auto written = WriteFileAtomically(options.out_file, text); !written) {
      err << "recourse: " << written.error() << "\n";
      return kExitUsage;
    }
  }
  const Trial trial = options.policy.empty() ? Trial() : TryOut(options, *made, text, err);
  err << VerdictOn(options, *made, trial) << VerdictLines(*made) << trial.lines;
  if (const std::string line = UntracedLine(*made); !line.empty())
    err << "  trace   " << line << "\n";
  const bool is_told = options.tells_details || !trial.failed.empty();
  if (is_told) err << "\n" << trial.details;
  if (!is_told && !trial.details.empty()) err << "--details tells what check and drill said\n";
  err << std::flush;
  if (options.out_file.empty()) out << text << std::flush;
  return trial.exit_code;
}

}  // namespace recourse
