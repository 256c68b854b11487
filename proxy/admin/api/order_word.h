// What an operator says with an order about a flow or an operation.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "proxy/admin/access/operator.h"

namespace recourse {

struct OrderWord {
  std::string reason, as, external_ref;
  std::string by;  // who gave the order: whom the credential names. A shared one says who, and
                   // proves only that it is the shared one: "admin (ada)"
  std::uint64_t step = 0;
};

// Reads the body of the request; its error is a line for people.
std::expected<OrderWord, std::string> ReadOrderWord(const std::string& body, const Operator& who);

// For the log: who did it comes first.
std::string ReasonOf(const OrderWord& word);

}  // namespace recourse
