#include "proxy/suggest/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "policy/explain/check.h"
#include "policy/files/sources.h"
#include "policy/import/openapi.h"
#include "policy/suggest/suggest.h"
#include "proxy/base/limits.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"
#include "proxy/drill/drill.h"
#include "proxy/traffic/traffic_file.h"

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
  const auto api = ReadOpenApi(path, std::move(*text));
  if (!api) return std::unexpected(api.error());
  for (const ApiOperation& operation : api->operations) {
    known.push_back({operation.method, operation.path, operation.id});
  }
  return known;
}

OrWords<Suggestion> Infer(const SuggestOptions& options, std::ostream& err) {
  const auto known = DescribedBy(options.openapi);
  if (!known) return std::unexpected(known.error());
  const auto secret = ReadInstallSecret(
      options.install_secret.empty() ? options.data + "/install.secret" : options.install_secret);
  if (!secret) {
    return std::unexpected(secret.error() +
                           "; --data is the directory of a process that ran in observe mode");
  }
  const TrafficKeys keys(*secret);
  const auto kept =
      ReadTraffic(options.data, keys, ToUnixMillis(SystemClock().WallNow() - options.since));
  if (!kept) return std::unexpected(kept.error());
  if (kept->seen.empty()) {
    return std::unexpected("no call was seen in that time; see --since and --install-secret-file");
  }
  if (kept->unreadable > 0) {
    err << kept->unreadable << " lines cannot be read, and were left out\n";
  }
  return SuggestTools(kept->seen, *known);
}

void TellSuggestion(const Suggestion& made, std::ostream& err) {
  std::size_t writes = 0, identities = 0, undos = 0, probes = 0;
  for (const SuggestedTool& tool : made.tools) {
    if (tool.seen.IsRead()) continue;
    ++writes;
    identities += tool.identity.is_decided;
    undos += tool.links.undo.has_value();
    probes += tool.links.probe.has_value();
  }
  err << fmt::format(
      "suggested: {} tools from {} calls ({} read, {} write); of the writes {} have "
      "a decided identity, {} an undo, {} a probe; {} are listed already\n",
      made.tools.size(), made.calls, made.tools.size() - writes, writes, identities, undos, probes,
      made.listed);
  for (const std::string& tool : made.left_out) err << "left out: " << tool << "\n";
}

// A directory that goes when this does.
class TryDirectory {
 public:
  TryDirectory() {
    std::string name = (fs::temp_directory_path() / "recourse-suggest-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  TryDirectory(const TryDirectory&) = delete;
  TryDirectory& operator=(const TryDirectory&) = delete;
  ~TryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  bool Add(const std::string& name, const std::string& text) const {
    return !path_.empty() && WriteFileAtomically(path_ + "/" + name, text).has_value();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The policy in force with the suggestion beside it.
bool FillIn(const TryDirectory& directory, const SuggestOptions& options, const std::string& text) {
  const PolicySources sources = ReadPolicyTwice(options.policy);
  std::error_code ignored;
  std::size_t number = 0;
  for (const PolicySource& source : sources.files) {
    // What an earlier suggestion wrote there is replaced by this one.
    const bool is_old =
        !options.out_file.empty() && fs::equivalent(source.name, options.out_file, ignored);
    if (is_old) continue;
    const std::string name =
        std::to_string(++number) + "-" + fs::path(source.name).filename().string();
    const bool is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
    if (!directory.Add(is_yaml ? name : name + ".yaml", source.text)) return false;
  }
  return number > 0 && directory.Add("suggested.yaml", text);
}

int TryOut(const SuggestOptions& options, const Suggestion& made, const std::string& text,
           std::ostream& err) {
  const TryDirectory directory;
  if (!FillIn(directory, options, text)) {
    err << "recourse: " << options.policy << " cannot be read, or a copy of it not be made\n";
    return kExitUsage;
  }
  if (const int checked = RunPolicyCheck(directory.path(), err); checked != 0) return kExitRuntime;
  const SuggestedReplay& replay = made.replay;
  err << fmt::format(
      "replay: {} writes, {} of them repeats; {} of those refused for other "
      "arguments, {} another intent\n",
      replay.writes, replay.repeats, replay.refused, replay.merged);
  if (replay.merged > 0) return kExitRuntime;
  if (options.skips_drill) return kExitOk;
  DrillOptions drill;
  drill.policy = directory.path();
  return RunDrill(drill, err, err) == 0 ? kExitOk : kExitRuntime;
}

}  // namespace

int RunSuggest(const SuggestOptions& options, std::ostream& out, std::ostream& err) {
  auto made = Infer(options, err);
  if (!made) {
    err << "recourse: " << made.error() << "\n";
    return kExitUsage;
  }
  const std::string text = ToolsText(*made);
  if (options.out_file.empty()) {
    out << text << std::flush;
  } else if (const auto written = WriteFileAtomically(options.out_file, text); !written) {
    err << "recourse: " << written.error() << "\n";
    return kExitUsage;
  }
  TellSuggestion(*made, err);
  return options.policy.empty() ? kExitOk : TryOut(options, *made, text, err);
}

}  // namespace recourse
