// What a console of several ledgers calls things: an id is that of its ledger with the ledger's
// name before it, "eu:42.17", and a cursor over all of them has one for each, "eu=42.17~us=7.9".
// Pure.
#pragma once

#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "filters/ledger/model/ledger_id.h"
#include "proxy/base/json/json.h"

namespace recourse {

// Whether members of that name, or parameters of a query, are ids.
bool IsIdMember(std::string_view name);
bool IsIdParameter(std::string_view name);

// Appends what a ledger answered, with its name before each id.
void AppendOfLedger(std::string& out, const Json& value, std::string_view ledger);

// Which ledger the ids in the body of an order are of; empty: there are none. Fails with a line for
// people: of two, or the body is no JSON.
std::expected<std::string, std::string> LedgerOfBody(std::string_view body);
// The body as that ledger knows the ids.
std::string BodyForLedger(std::string_view body);

// By ledger; nullopt: it is no cursor over several.
using LedgerCursors = std::map<std::string, std::string, std::less<>>;
std::optional<LedgerCursors> ParseLedgerCursors(std::string_view text);
std::string PrintLedgerCursors(const LedgerCursors& cursors);

}  // namespace recourse
