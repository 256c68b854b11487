// An export of one hash chain: its rows as lines between a first and a last line about them.
#pragma once

#include <openssl/evp.h>

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/crypto/openssl_objects.h"

namespace recourse {

inline constexpr std::string_view kCannotWriteExport =
    "the export cannot be written; is the disk full?";

class RowExport {
 public:
  explicit RowExport(std::ostream& out);

  struct Begin {
    std::string ledger;      // its identity
    std::string row_format;  // a number
    std::uint64_t after = 0;
    std::string base;                       // hex hash of the row `after`
    std::optional<std::uint64_t> stream{};  // of a shared ledger
  };
  // Each false: it cannot be written.
  bool Print(const Begin& begin);
  bool Print(std::string_view lines);
  // The last line, which no line follows. `head`: hex hash of the last row.
  bool PrintEnd(std::uint64_t rows, const std::string& head);

 private:
  std::ostream& out_;
  const DigestContextPtr context_;  // of all that is printed
};

// Behind the chains of a shared ledger: which ones there are, so that none is missed.
struct ExportedStream {
  std::uint64_t stream = 0;
  std::uint64_t rows = 0;
  std::string head;
};
// False: it cannot be written.
bool PrintStreams(const std::string& ledger, const std::vector<ExportedStream>& streams,
                  std::ostream& out);

}  // namespace recourse
