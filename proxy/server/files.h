// Files that a process needs beside its ledger.
#pragma once

#include <expected>
#include <string>

#include "proxy/base/random.h"

namespace recourse {

// Errors are one line for people.
template <class T>
using FileResult = std::expected<T, std::string>;

// First line of a small file, e.g. a mounted token; fails when it is empty or over 4 KiB.
FileResult<std::string> ReadSecretFile(const std::string& path);

// The secret that keys are made with, from `directory`/install.secret (mode 0600). Created, and
// made durable, only while the ledger is empty: with another secret every key would change and
// every call would run again.
FileResult<std::string> LoadOrCreateInstallSecret(const std::string& directory,
                                                  bool ledger_has_rows, Random& random);

// Replaces the file in one step, so that a reader sees all of it or nothing.
FileResult<void> WriteFileAtomically(const std::string& path, const std::string& text);

}  // namespace recourse
