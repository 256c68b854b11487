// Every stream of a ledger in PostgreSQL, checked and read whole by who writes none of them.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "filters/ledger/postgres/reader.h"
#include "filters/ledger/queries/log_queries.h"

namespace recourse {

struct PgStream {
  std::uint64_t stream = 0;
  std::string group, pod;
  std::uint64_t last_id = 0;
  Digest chain{};  // hash of that row
};
// All of them, in their order. Fails with a line for people.
std::expected<std::vector<PgStream>, std::string> ListPgStreams(PgReader& reader);

// Its chain from the first row that is kept to the last one that it had when it was listed, and
// that the table's columns say what the rows' bytes say. Without keys no seal is opened.
VerifyReport VerifyPgStream(PgReader& reader, const SharedKeys& keys, const PgStream& stream);

}  // namespace recourse
