#include "tests/power_loss/disk_model.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace recourse {
namespace {

constexpr std::size_t kSector = 512;

std::string ParentOf(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// All at once: a log has tens of megabytes, and an iterator takes them one by one.
std::string BytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::filesystem::file_size(path), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

void Put(std::string& bytes, std::uint64_t offset, std::string_view data) {
  if (bytes.size() < offset + data.size()) bytes.resize(offset + data.size());
  std::memcpy(bytes.data() + offset, data.data(), data.size());
}

// From "nothing that was not synced" to "everything".
double AnyChance(std::mt19937_64& random) {
  constexpr double kChances[] = {0.0, 0.03, 0.3, 0.5, 0.7, 0.97, 1.0};
  return kChances[random() % std::size(kChances)];
}

bool Happens(double chance, std::mt19937_64& random) {
  return std::uniform_real_distribution<>(0.0, 1.0)(random) < chance;
}

}  // namespace

ShimLog ShimLog::Load(const std::string& path) {
  ShimLog log;
  log.Add(path);
  return log;
}

void ShimLog::Add(const std::string& path) {
  const std::string& bytes = bytes_.emplace_back(BytesOf(path));
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (end - at >= static_cast<std::ptrdiff_t>(sizeof(ShimRecord))) {
    ShimEntry entry;
    std::memcpy(&entry.record, at, sizeof entry.record);
    const char* const path_at = at + sizeof entry.record;
    const std::uint64_t size = entry.record.path_bytes +
                               std::uint64_t{entry.record.second_path_bytes} +
                               entry.record.data_bytes;
    if (static_cast<std::uint64_t>(end - path_at) < size) break;  // the process died writing it
    entry.path = {path_at, entry.record.path_bytes};
    entry.second_path = {path_at + entry.path.size(), entry.record.second_path_bytes};
    entry.data = {entry.second_path.data() + entry.second_path.size(), entry.record.data_bytes};
    at = path_at + size;
    entry.end = static_cast<std::uint64_t>(at - bytes.data());
    entries_.push_back(entry);
  }
}

void DiskModel::Begin(const std::string& directory) {
  for (const auto& item : std::filesystem::recursive_directory_iterator(directory)) {
    const std::string path = item.path().string().substr(directory.size() + 1);
    struct stat status = {};
    if (::stat(item.path().c_str(), &status) != 0) continue;
    durable_[path] = {item.is_directory(), status.st_ino};
    if (item.is_directory()) continue;
    files_[status.st_ino].durable = BytesOf(item.path());
  }
  current_ = durable_;
}

void DiskModel::Change(Names& names, const NameChange& change) {
  switch (change.kind) {
    case ShimKind::kCreate:
    case ShimKind::kMakeDirectory:
      names[change.path] = change.name;
      return;
    case ShimKind::kUnlink:
      if (const auto found = names.find(change.path);
          found != names.end() && found->second.inode == change.name.inode) {
        names.erase(found);
      }
      return;
    default:
      if (const auto found = names.find(change.path);
          found != names.end() && found->second.inode == change.name.inode) {
        names.erase(found);
      }
      names[change.second_path] = change.name;
  }
}

void DiskModel::AddChange(const ShimEntry& entry) {
  NameChange change{entry.record.kind, std::string(entry.path), std::string(entry.second_path), {}};
  const auto known = current_.find(change.path);
  if (entry.record.kind == ShimKind::kCreate) {
    files_[entry.record.inode] = {};
    change.name = {false, entry.record.inode};
    if (known != current_.end() && known->second.inode == entry.record.inode) return;
  } else if (entry.record.kind == ShimKind::kMakeDirectory) {
    change.name = {true, 0};
    if (known != current_.end()) return;
  } else {
    if (known == current_.end()) return;  // it failed, or was never watched
    change.name = known->second;
  }
  Change(current_, change);
  changes_.push_back(std::move(change));
}

void DiskModel::SyncFile(File& file, std::size_t count) {
  for (std::size_t i = 0; i < std::min(count, file.pending.size()); ++i) {
    if (!file.pending[i].is_durable)
      Put(file.durable, file.pending[i].offset, file.pending[i].data);
  }
  file.pending.erase(
      file.pending.begin(),
      file.pending.begin() + static_cast<std::ptrdiff_t>(std::min(count, file.pending.size())));
}

void DiskModel::SyncNames(std::string_view directory) {
  const std::size_t count = covered_changes_[std::string(directory)];
  for (std::size_t i = 0; i < count; ++i) {
    NameChange& change = changes_[i];
    const std::string& path = change.second_path.empty() ? change.path : change.second_path;
    if (change.is_durable || ParentOf(path) != directory) continue;
    Change(durable_, change);
    change.is_durable = true;
  }
}

void DiskModel::Apply(const ShimEntry& entry) {
  const ShimRecord& record = entry.record;
  const bool is_directory = entry.path.empty() || (current_.contains(std::string(entry.path)) &&
                                                   current_[std::string(entry.path)].is_directory);
  switch (record.kind) {
    case ShimKind::kWrite:
      files_[record.inode].pending.push_back({record.offset, entry.data});
      return;
    case ShimKind::kDsyncEnd: {
      auto& pending = files_[record.inode].pending;
      if (!trust_.dsync || pending.empty()) return;
      // Alone, without what was written before it.
      Put(files_[record.inode].durable, pending.back().offset, pending.back().data);
      pending.pop_back();
      return;
    }
    case ShimKind::kSyncBegin:
      if (is_directory) {
        covered_changes_[std::string(entry.path)] = changes_.size();
      } else {
        files_[record.inode].covered = files_[record.inode].pending.size();
      }
      return;
    case ShimKind::kSyncEnd:
      if (is_directory) {
        SyncNames(entry.path);
      } else if (trust_.fdatasync) {
        SyncFile(files_[record.inode], files_[record.inode].covered);
      }
      return;
    case ShimKind::kMark:
      return;
    default:
      AddChange(entry);
  }
}

std::string DiskModel::Content(std::uint64_t inode, std::mt19937_64& random) const {
  const auto found = files_.find(inode);
  if (found == files_.end()) return {};
  std::string bytes = found->second.durable;
  std::size_t longest = bytes.size();
  const double chance = AnyChance(random);
  for (const Write& write : found->second.pending) {
    longest = std::max(longest, static_cast<std::size_t>(write.offset + write.data.size()));
    for (std::size_t at = 0; at < write.data.size();) {
      const std::size_t size =
          std::min(kSector - (write.offset + at) % kSector, write.data.size() - at);
      if (Happens(chance, random)) Put(bytes, write.offset + at, write.data.substr(at, size));
      at += size;
    }
  }
  const std::size_t shortest = found->second.durable.size();
  if (longest > shortest && random() % 2 == 0) {
    const std::size_t sectors = (longest - shortest + kSector - 1) / kSector;
    bytes.resize(std::min(longest, shortest + random() % (sectors + 1) * kSector));
  }
  return bytes;
}

void DiskModel::WriteImage(const std::string& directory, std::mt19937_64& random) const {
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  std::filesystem::permissions(directory, std::filesystem::perms(0700));
  Names names = durable_;
  const double chance = AnyChance(random);
  for (const NameChange& change : changes_) {
    if (!change.is_durable && Happens(chance, random)) Change(names, change);
  }
  for (const auto& [path, name] : names) {
    const std::string parent = ParentOf(path);
    if (!parent.empty() && !names.contains(parent)) continue;
    const std::string full = directory + "/" + path;
    if (name.is_directory) {
      std::filesystem::create_directories(full);
    } else {
      std::ofstream(full, std::ios::binary) << Content(name.inode, random);
      std::filesystem::permissions(full, std::filesystem::perms(0600));
    }
  }
}

}  // namespace recourse
