#include "policy/loader.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>

#include "policy/draft.h"
#include "policy/route_table.h"
#include "proxy/base/hash.h"

namespace recourse {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::string name;
  std::string text;
};

PolicyProblem FileProblem(const std::string& file, std::string message) {
  PolicyProblem problem;
  problem.file = file;
  problem.message = std::move(message);
  return problem;
}

// Reads a file that is nobody's to change but its owner's; adds a problem otherwise (Y12, Y13).
void ReadSource(const std::string& path, std::vector<Source>& sources,
                std::vector<PolicyProblem>& problems) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) {
    problems.push_back(FileProblem(path, std::string("cannot be read: ") + std::strerror(errno)));
    return;
  }
  if (!S_ISREG(info.st_mode)) {
    problems.push_back(FileProblem(path, "is not a regular file"));
    return;
  }
  if ((info.st_mode & S_IWOTH) != 0) {
    problems.push_back(FileProblem(
        path, "everyone may write to this file, so nothing in it can be trusted; chmod o-w"));
    return;
  }
  if (static_cast<std::size_t>(info.st_size) > limits::kPolicyFileBytesMax) {
    problems.push_back(FileProblem(path, "the file is larger than 10 MiB"));
    return;
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(limits::kPolicyFileBytesMax + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.eof()) {
    problems.push_back(FileProblem(path, "cannot be read to its end"));
    return;
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  text.shrink_to_fit();
  sources.push_back({path, std::move(text)});
}

bool IsPolicyFile(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string extension = path.extension().string();
  return !name.starts_with('.') && (extension == ".yaml" || extension == ".yml");
}

// A link may lead anywhere inside the directory, as those of a ConfigMap volume do, and nowhere
// else.
bool IsInside(const fs::path& file, const fs::path& directory) {
  std::error_code ec;
  const fs::path real = fs::canonical(file, ec);
  if (ec) return false;
  const fs::path root = fs::canonical(directory, ec);
  if (ec) return false;
  const auto [end, rest] = std::mismatch(root.begin(), root.end(), real.begin(), real.end());
  return end == root.end();
}

void ReadDirectory(const std::string& path, std::vector<Source>& sources,
                   std::vector<PolicyProblem>& problems) {
  std::error_code ec;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(path, ec), end; !ec && it != end; it.increment(ec)) {
    if (IsPolicyFile(it->path())) files.push_back(it->path());
  }
  if (ec) problems.push_back(FileProblem(path, "cannot be listed: " + ec.message()));
  struct stat info{};
  if (stat(path.c_str(), &info) == 0 && (info.st_mode & S_IWOTH) != 0) {
    problems.push_back(FileProblem(path, "everyone may write to this directory; chmod o-w"));
  }
  std::sort(files.begin(), files.end());
  std::size_t bytes = 0;
  for (const fs::path& file : files) {
    if (!IsInside(file, path)) {
      problems.push_back(FileProblem(file.string(), "is a link that leads out of the directory"));
      continue;
    }
    ReadSource(file.string(), sources, problems);
    bytes += sources.empty() ? 0 : sources.back().text.size();
    if (bytes > limits::kPolicyFileBytesMax) {
      problems.push_back(FileProblem(path, "the files are larger than 10 MiB together"));
      return;
    }
  }
  if (files.empty()) problems.push_back(FileProblem(path, "the directory has no *.yaml file"));
}

void ReadVersion(MapReader& root) {
  const YamlNode* version = root.Need("version", "accepted: version: 1");
  if (version == nullptr) return;
  if (version->kind != YamlNode::Kind::kScalar || version->is_quoted || version->text != "1") {
    root.problems().Error(version->place, "version", "this program reads version 1; accepted: 1");
  }
}

// Settings of the whole policy stand in one file only, so that no order of files decides.
void ReadSettings(MapReader& root, Draft& draft, std::string& seen_mode, std::string& seen_unlisted,
                  const std::string& file) {
  static constexpr std::pair<std::string_view, Mode> kModes[] = {{"enforce", Mode::kEnforce},
                                                                 {"observe", Mode::kObserve}};
  static constexpr std::pair<std::string_view, UnlistedRule> kReads[] = {
      {"pass", UnlistedRule::kPass}, {"deny", UnlistedRule::kDeny}};
  static constexpr std::pair<std::string_view, UnlistedRule> kWrites[] = {
      {"guard", UnlistedRule::kGuard},
      {"pass", UnlistedRule::kPass},
      {"deny", UnlistedRule::kDeny}};
  const auto once = [&](std::string_view name, std::string& seen) {
    if (!root.Has(name)) return;
    if (!seen.empty()) {
      root.problems().Error(root.PlaceOf(name), std::string(name), "is given in " + seen + " too");
    }
    seen = file;
  };
  once("mode", seen_mode);
  once("unlisted", seen_unlisted);
  if (const auto mode = root.OneOf("mode", kModes)) {
    draft.policy.mode = *mode;
    if (*mode == Mode::kObserve) {
      root.problems().Warn(
          root.PlaceOf("mode"), "mode",
          "observe is checked but cannot be run yet: `recourse run` refuses it; use enforce");
    }
  }
  const YamlNode* node = root.Get("unlisted");
  if (node == nullptr) return;
  MapReader unlisted(*node, "unlisted", root.problems());
  draft.policy.unlisted_reads =
      unlisted.OneOf("reads", kReads).value_or(draft.policy.unlisted_reads);
  draft.policy.unlisted_writes =
      unlisted.OneOf("writes", kWrites).value_or(draft.policy.unlisted_writes);
  unlisted.Finish();
}

struct Sections {
  const YamlNode* backends = nullptr;
  const YamlNode* tools = nullptr;
  const YamlNode* flows = nullptr;
  const YamlNode* tests = nullptr;
};

std::string VersionOf(const std::vector<Source>& sources) {
  std::string all;
  for (const Source& source : sources) AppendPart(all, source.text);
  return ToHex(Sha256(all)).substr(0, 16);
}

void Build(const std::vector<Source>& sources, Draft& draft, Problems& problems,
           std::deque<YamlNode>& trees) {
  std::vector<Sections> all;
  std::string seen_mode;
  std::string seen_unlisted;
  for (const Source& source : sources) {
    const std::size_t file = problems.AddFile(source.name);
    const bool had_errors = problems.has_errors();
    const YamlNode& tree = trees.emplace_back(ReadYaml(file, source.text, problems));
    if (tree.kind == YamlNode::Kind::kNull) {
      if (problems.has_errors() == had_errors) {
        problems.Error({file, 0, 0}, "version",
                       "is missing: the file is empty; accepted: version: 1");
      }
      continue;
    }
    MapReader root(tree, "", problems);
    ReadVersion(root);
    ReadSettings(root, draft, seen_mode, seen_unlisted, source.name);
    all.push_back({root.Get("backends"), root.Get("tools"), root.Get("flows"), root.Get("tests")});
    root.Finish();
  }
  const auto load = [&](const YamlNode* Sections::* section,
                        void (*read)(const YamlNode&, Draft&)) {
    for (const Sections& sections : all) {
      if (sections.*section != nullptr) read(*(sections.*section), draft);
    }
  };
  load(&Sections::backends, LoadBackends);
  load(&Sections::tools, LoadTools);
  load(&Sections::flows, LoadFlows);
  load(&Sections::tests, LoadTests);
  Validate(draft);
}

LoadedPolicy LoadSources(const std::vector<Source>& sources) {
  Problems problems;
  Draft draft(problems);
  std::deque<YamlNode> trees;
  Build(sources, draft, problems, trees);
  LoadedPolicy loaded;
  if (!problems.has_errors()) {
    auto policy = std::make_shared<Policy>(std::move(draft.policy));
    policy->version = VersionOf(sources);
    policy->routes = std::make_unique<const RouteTable>(*policy);
    loaded.policy = std::move(policy);
  }
  loaded.problems = problems.Take();
  return loaded;
}

}  // namespace

std::string PolicyProblem::ToString() const {
  std::string out = file;
  if (line > 0) out += fmt::format(":{}:{}", line, column);
  out += severity == Severity::kError ? ": error: " : ": warning: ";
  if (!key.empty()) out += key + ": ";
  return out + message;
}

LoadedPolicy LoadPolicy(const std::string& path) {
  std::vector<Source> sources;
  std::vector<PolicyProblem> problems;
  std::error_code ec;
  if (fs::is_directory(path, ec)) {
    ReadDirectory(path, sources, problems);
  } else {
    ReadSource(path, sources, problems);
  }
  if (problems.empty()) return LoadSources(sources);
  LoadedPolicy loaded = sources.empty() ? LoadedPolicy{} : LoadSources(sources);
  loaded.policy = nullptr;
  loaded.problems.insert(loaded.problems.begin(), problems.begin(), problems.end());
  return loaded;
}

LoadedPolicy LoadPolicyText(const std::string& name, const std::string& yaml) {
  return LoadSources({{name, yaml}});
}

}  // namespace recourse
