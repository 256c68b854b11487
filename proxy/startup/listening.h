// The addresses that a process listens on.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "proxy/net/loop/socket.h"

namespace recourse {

// Parses `address` and listens there; says which flag named it when that fails.
void ListenOrThrow(const char* flag, const std::string& address,
                   const std::function<void(const Tcp::endpoint&)>& listen);

struct AddressOfFlag {
  const char* flag;
  std::string address;
};

// Of the first two that cannot both be listened on, what to say; empty: there are none.
std::string ClashOf(std::span<const std::pair<const char*, Tcp::endpoint>> endpoints);

// Whether somebody else has an address may depend on a process that is about to end.
enum class Taken : std::uint8_t { kIsWrong, kMayEnd };
// Throws as ListenOrThrow, which comes later: for what cannot be read, for two that clash and, with
// kIsWrong, for what is taken now.
void JudgeAddressesOrThrow(std::span<const AddressOfFlag> addresses, Taken taken);

}  // namespace recourse
