// Commands for auditors: the whole hash chain as lines of JSON, and a signed head held against it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "proxy/cli/api_client.h"

namespace recourse {

// Every row after `after` in order, each with the bytes that the chain is made of, between a first
// and a last line about them. An export that ends without its last line was cut off.
int ExportRows(const ApiClient& client, std::uint64_t after, std::ostream& out, std::ostream& err);

// As VerifyLedger, and that the ledger still holds the signed head in `file`. `key_file`: the
// public key that it must be signed with; empty: the signature is not looked at.
int VerifyLedgerWithHead(const ApiClient& client, const std::string& file,
                         const std::string& key_file, std::ostream& out, std::ostream& err);

}  // namespace recourse
