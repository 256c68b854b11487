#include "proxy/reload/policy_archive.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "recourse policy 1\n";

// Names and sizes stand before the texts, so that no text can be taken for a boundary.
std::string Pack(const std::vector<PolicySource>& files) {
  std::string out(kFirstLine);
  for (const PolicySource& file : files) {
    out += std::to_string(file.name.size()) + " " + std::to_string(file.text.size()) + "\n" +
           file.name + "\n" + file.text + "\n";
  }
  return out;
}

class Unpacker {
 public:
  explicit Unpacker(std::string_view rest) : rest_(rest) {}
  bool Literal(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool Number(std::size_t& value) {
    const auto [end, ec] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (ec != std::errc()) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }
  bool Text(std::size_t size, std::string& text) {
    if (size > rest_.size()) return false;
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

bool Unpack(std::string_view bytes, std::vector<PolicySource>& files) {
  Unpacker in(bytes);
  if (!in.Literal(kFirstLine)) return false;
  while (!in.at_end()) {
    std::size_t name = 0;
    std::size_t text = 0;
    PolicySource& file = files.emplace_back();
    if (!in.Number(name) || !in.Literal(" ") || !in.Number(text) || !in.Literal("\n") ||
        !in.Text(name, file.name) || !in.Literal("\n") || !in.Text(text, file.text) ||
        !in.Literal("\n")) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string PolicyArchive::PathOf(const std::string& version) const {
  return directory_ + "/" + version;
}

FileResult<void> PolicyArchive::Keep(const std::string& version,
                                     const std::vector<PolicySource>& files) {
  if (shared_ != nullptr) {
    if (const auto shared = shared_->SharePolicy(version, Pack(files)); !shared) {
      return std::unexpected(
          "the policy cannot be shared with the other processes of its ledger: " + shared.error());
    }
  }
  std::error_code ec;
  if (fs::exists(PathOf(version), ec)) {
    fs::last_write_time(PathOf(version), fs::file_time_type::clock::now(), ec);
    return {};
  }
  if (fs::create_directories(directory_, ec); ec) {
    return std::unexpected("cannot create " + directory_ + ": " + ec.message());
  }
  fs::permissions(directory_, fs::perms::owner_all, ec);
  return WriteFileAtomically(PathOf(version), Pack(files));
}

FileResult<std::shared_ptr<Policy>> PolicyArchive::Load(const std::string& version) const {
  const std::string path = PathOf(version);
  const bool is_version = !version.empty() && std::ranges::all_of(version, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (!is_version) return std::unexpected(path + " is missing");
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in) {
    auto shared = shared_ != nullptr ? shared_->SharedPolicy(version) : std::nullopt;
    if (!shared) return nullptr;
    if (!*shared) return std::unexpected(path + " is missing");
    bytes = std::move(**shared);
  }
  PolicySources sources;
  if (!Unpack(bytes, sources.files) ||
      ToHex(DigestOf(sources.files)).substr(0, version.size()) != version) {
    return std::unexpected(path + " is damaged");
  }
  LoadedPolicy loaded = load_(sources, TlsFiles::kIgnore);
  if (!loaded.ok()) {
    return std::unexpected(path +
                           " is not accepted any more: " + loaded.problems.front().ToString());
  }
  return loaded.policy;
}

std::vector<std::string> PolicyArchive::Recent() const {
  if (shared_ == nullptr) return Newest();
  const auto of_group = shared_->PoliciesOfGroup();
  return of_group ? of_group->recent : std::vector<std::string>();
}

std::vector<std::string> PolicyArchive::Newest() const {
  std::error_code ec;
  std::vector<std::pair<fs::file_time_type, std::string>> files;
  for (fs::directory_iterator it(directory_, ec), end; !ec && it != end; it.increment(ec)) {
    files.emplace_back(it->last_write_time(ec), it->path().filename().string());
  }
  std::ranges::sort(files, std::greater<>());
  std::vector<std::string> versions;
  for (auto& [time, version] : files) versions.push_back(std::move(version));
  return versions;
}

void PolicyArchive::Prune(const std::set<std::string>& needed) const {
  std::error_code ec;
  std::vector<std::string> versions = Newest();
  std::erase_if(versions, [&](const std::string& version) { return needed.contains(version); });
  for (std::size_t i = limits::kPoliciesArchived; i < versions.size(); ++i) {
    fs::remove(PathOf(versions[i]), ec);
  }
}

}  // namespace recourse
