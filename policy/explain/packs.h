// The policy packs (policy/packs), which are part of the binary: `recourse pack list | show | add`.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace recourse {

// Both texts live as long as the process.
struct PackFile {
  std::string_view name;  // "stripe.yaml"
  std::string_view bytes;
};
// Written by proxy/base/embed.cmake, in the order of their names.
std::span<const PackFile> EmbeddedPacks();

enum class PackForm : std::uint8_t { kText, kMarkdown, kJson };

// API x write x what makes it safe to repeat, what settles and what undoes it, and its class.
void ListPacks(PackForm form, std::ostream& out);

// nullptr: there is none of that name, which was told.
const PackFile* FindPack(const std::string& name, std::ostream& err);

enum class PackResult : std::uint8_t { kDone, kUnknownName, kNotWritten };
// kJson: its file and its rows of the table.
PackResult ShowPack(const std::string& name, PackForm form, std::ostream& out, std::ostream& err);
// Never over a file that is there.
PackResult AddPack(const std::string& name, const std::string& directory, std::ostream& out,
                   std::ostream& err);

}  // namespace recourse
