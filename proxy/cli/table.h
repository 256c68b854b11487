// Rows of columns for people. At a terminal they fit its width and states have colours; elsewhere a
// column has its own width, and a longer value makes a longer line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/json/json.h"
#include "proxy/cli/api_client.h"

namespace recourse {

struct Column {
  enum class Side : std::uint8_t { kLeft, kRight };
  std::string_view title;
  std::size_t width = 0;  // of the last one: what it asks for, as all that is left is its own
  std::size_t least = 0;  // how narrow it may get while others can still give
  Side side = Side::kLeft;
};

struct TableLook {
  std::size_t columns = 0;  // of the terminal; 0: as many as it takes
  bool has_colours = false;
};
// std::cout at a terminal has one.
TableLook LookOf(const std::ostream& out);

// A line with its end. Pure.
std::string TableLine(std::span<const Column> columns, std::span<const std::string> cells,
                      const TableLook& look);
void PrintTitles(std::ostream& out, std::span<const Column> columns);
void PrintRow(std::ostream& out, std::span<const Column> columns,
              const std::vector<std::string>& cells);

// A list of the admin API, which names the pod of each row where the ledger is of several.
class PodTable {
 public:
  // The first column is an id. Both outlive it.
  PodTable(std::ostream& out, std::span<const Column> columns) : out_(out), columns_(columns) {}

  // Prints the titles before there is a row, of which the process is asked what they name.
  void Begin(const ApiClient& client);
  // The first one prints the titles before it, unless that was done.
  void Row(const Json& item, std::vector<std::string> cells);
  bool is_begun() const { return is_begun_; }

 private:
  void PrintTitlesOnce(bool has_pods);

  std::ostream& out_;
  const std::span<const Column> columns_;
  std::vector<Column> with_pods_{};
  bool is_begun_ = false;
};

}  // namespace recourse
