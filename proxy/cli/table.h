// Rows of columns for people. At a terminal they fit its width and states have colours; elsewhere
// nothing is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/json/json.h"
#include "proxy/cli/api_client.h"

namespace recourse {

struct Column {
  enum class Kind : std::uint8_t {
    kText,   // may be cut, but to its least only where nothing else helps
    kExtra,  // a text that is left out before others get narrower than their least
    kWhole,  // never cut: a part of it would tell something else
    kTime,   // whole too, but without its fraction of a second where room is short
  };
  enum class Side : std::uint8_t { kLeft, kRight };
  std::string_view title;
  std::size_t usual = 0;  // its width while nobody knows what will come
  Kind kind = Kind::kText;
  std::size_t least = 0;  // of a text
  Side side = Side::kLeft;
};

struct TableLook {
  std::size_t columns = 0;  // of the terminal; 0: as many as it takes
  bool has_colours = false;
};
// std::cout at a terminal has one.
TableLook LookOf(const std::ostream& out);

// Columns are as wide as what stands in them, and only ever get wider.
class Table {
 public:
  // The columns outlive it.
  explicit Table(std::span<const Column> columns) : columns_(columns) {}

  // Rows will come one by one: the first text has the titles, and columns are as wide as usual.
  void Expect();
  // `below` are lines that follow it.
  void Row(std::vector<std::string> cells, std::string below = {});
  // The lines of the rows since the last time, with the titles before the first one.
  std::string Take(const TableLook& look);

 private:
  struct Line {
    std::vector<std::string> cells;
    std::string below;
  };
  const std::span<const Column> columns_;
  std::vector<std::size_t> widths_{};
  std::vector<Line> lines_{};
  bool has_titles_due_ = false;
};

// A list of the admin API, which names the pod of each row where the ledger is of several.
class PodTable {
 public:
  // The first column is an id. Both outlive it.
  PodTable(std::ostream& out, std::span<const Column> columns) : out_(out), columns_(columns) {}

  // Rows will come one by one; the process is asked what they name.
  void Expect(const ApiClient& client);
  void Row(const Json& item, std::vector<std::string> cells);
  // Prints the rows since the last time.
  void Flush();
  // Whether it has titles, or will have.
  bool is_begun() const { return table_.has_value(); }

 private:
  void Begin(bool has_pods);

  std::ostream& out_;
  const std::span<const Column> columns_;
  std::vector<Column> with_pods_{};
  std::optional<Table> table_{};
};

}  // namespace recourse
