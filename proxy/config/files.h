// Files that a process needs beside its ledger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>

#include "proxy/base/random.h"

namespace recourse {

// Errors are one line for people.
template <class T>
using FileResult = std::expected<T, std::string>;

// Whether every user of this machine can read the file; false when it cannot be looked at.
bool IsWorldReadable(const std::string& path);

// A file with keys, at most `bytes_max`. Refused when anybody but its owner may reach it; only its
// group may read it, and only where its owner is somebody else or nobody may write it: so look the
// files of a Kubernetes Secret that is mounted with fsGroup (root, mode 0440).
FileResult<std::string> ReadPrivateFile(const std::string& path, std::size_t bytes_max);

// A file that a command names, wholly. Fails when it is no regular file or has more than
// `bytes_max`.
FileResult<std::string> ReadInputFile(const std::string& path, std::size_t bytes_max);

// First line of a small file, e.g. a mounted token; fails when it is empty or over 4 KiB.
FileResult<std::string> ReadSecretFile(const std::string& path);

// The secret that keys are made with, from `directory`/install.secret (mode 0600). Created, and
// made durable, only while the ledger is empty: with another secret every key would change and
// every call would run again.
FileResult<std::string> LoadOrCreateInstallSecret(const std::string& directory,
                                                  bool ledger_has_rows, Random& random);
// The same from a mounted file, which is of several ledgers (ReadPrivateFile).
FileResult<std::string> ReadInstallSecret(const std::string& path);

// Who may read a file that is made; only its owner may write it.
enum class Readers : std::uint8_t { kOwner, kEverybody };

// Replaces the file in one step, so that a reader sees all of it or nothing.
FileResult<void> WriteFileAtomically(const std::string& path, const std::string& text,
                                     Readers readers = Readers::kOwner);

// The same for a file that must never be replaced: false: there was one already, and it stays.
FileResult<bool> CreateFileOnce(const std::string& path, const std::string& text);

// Makes the name of a file durable, as far as the file system allows.
void SyncDirectoryOf(const std::string& path);

}  // namespace recourse
