// Runs the program `nft`.
#pragma once

#include <expected>
#include <string>

namespace recourse {

// Has nft apply `script`, wholly or not at all; no shell is involved. Fails with one line or more
// for people.
std::expected<void, std::string> ApplyWithNft(const std::string& script);

}  // namespace recourse
