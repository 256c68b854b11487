// The stream of a ledger that was embedded: its rows come into the database as they are, and then,
// in one transaction, all that the tables say of them. Until then nobody acts on them, and from
// then on whoever lives takes over what was open, as that of a dead process.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/import/imported_tables.h"

namespace recourse {

struct ImportSource {
  Digest identity{};  // of the embedded ledger
  std::string group, pod;
  // As whom the group's agents called its pods; once it is imported they keep the volume's name.
  std::string agents{};
  LogBase base{};
};

// One thread; blocks. All that fails does so with a line for people.
class ImportStream {
 public:
  using Done = std::expected<void, std::string>;

  explicit ImportStream(PgConnection& connection) : connection_(connection) {}

  // Begins it, or goes on where an earlier try was ended. Refused where another ledger was
  // imported; and where pods of the group are at work, or its agents have called any: their repeats
  // would be taken for calls of the volume's agents, which nobody has made yet.
  Done Begin(const ImportSource& source);
  std::uint64_t head() const { return head_; }  // the last row that is there
  const Digest& chain() const { return chain_; }
  bool is_complete() const { return is_complete_; }

  // The row behind the last one. Some wait for the next ones.
  Done Add(const LogColumns& columns, std::string_view bytes, std::int64_t wall_ms);
  struct Summary {
    std::size_t operations = 0, open = 0;
    std::size_t known = 0;  // keys that the database had already, and keeps as it has them
  };
  // All rows are there.
  std::expected<Summary, std::string> Complete(const ImportedTables& tables);

 private:
  struct Row {
    LogColumns columns;
    std::string bytes;
    std::int64_t wall_ms = 0;
  };

  Done Flush();
  std::expected<std::vector<PgRows>, std::string> Run();
  std::string WhyRefused(const ImportSource& source);
  std::expected<std::size_t, std::string> PutOperations(const ImportedTables& tables);
  Done PutRest(const ImportedTables& tables);

  PgPurpose Purpose() const { return {"pod", group_}; }

  PgConnection& connection_;
  std::string group_;
  std::uint64_t head_ = 0;
  Digest chain_{};
  bool is_complete_ = false;
  std::vector<Row> waiting_;
  std::size_t waiting_bytes_ = 0;
};

}  // namespace recourse
