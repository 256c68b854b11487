#include "proxy/report/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace recourse {
namespace {

constexpr std::size_t kShownMax = 20;  // lines per list; --json has them all

std::uint64_t Number(const Json& object, std::string_view name) {
  const std::string text = ScalarText(object, name);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Seconds with up to three decimals, as milliseconds.
std::int64_t Milliseconds(const Json& object, std::string_view name) {
  std::string digits = ScalarText(object, name);
  const auto point = std::min(digits.find('.'), digits.size());
  std::string fraction = point < digits.size() ? digits.substr(point + 1) : std::string();
  fraction.resize(3, '0');
  digits = digits.substr(0, point) + fraction;
  std::int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// "1 repeat", "2 repeats"
std::string Counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// Columns as wide as they must be; the last one is never padded.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string Text() const {
    std::vector<std::size_t> widths(rows_.front().size());
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string out;
    for (const auto& row : rows_) {
      out += "  ";
      for (std::size_t i = 0; i < row.size(); ++i) {
        const bool is_last = i + 1 == row.size();
        out += is_last ? row[i] : fmt::format("{:<{}}  ", row[i], widths[i]);
      }
      out += "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "would_replay 2, would_join 1"
std::string CountsText(const Json& object, std::string_view name) {
  std::string out;
  const Json* counts = object.Find(name);
  if (counts == nullptr) return out;
  for (const auto& [word, count] : counts->members) {
    out += (out.empty() ? "" : ", ") + word + " " + ScalarText(count);
  }
  return out;
}

template <class Row>
void AddSection(std::string& out, const Json& report, std::string_view name, std::string_view title,
                std::vector<std::string> header, Row row) {
  const Json* lines = report.Find(name);
  if (lines == nullptr || lines->items.empty()) return;
  Table table(std::move(header));
  for (std::size_t i = 0; i < std::min(lines->items.size(), kShownMax); ++i) {
    table.Add(row(lines->items[i]));
  }
  out += fmt::format("\n{}\n{}", title, table.Text());
  if (lines->items.size() > kShownMax) {
    out += fmt::format("  and {} more; --json has them\n", lines->items.size() - kShownMax);
  }
}

std::string Summary(const Json& report) {
  const bool is_observing = ScalarText(report, "mode") == "observe";
  const std::string since = ScalarText(report, "since");
  std::string out = fmt::format("Recourse report, mode {}, {} to {}\n", ScalarText(report, "mode"),
                                since.starts_with("1970-01-01T00:00:00") ? "the beginning" : since,
                                ScalarText(report, "until"));
  if (Number(report, "calls") == 0) {
    return out + "The ledger has no writes in this time.\n";
  }
  out += fmt::format("{} {} sent; outcomes: {}\n", Counted(Number(report, "calls"), "write"),
                     Number(report, "calls") == 1 ? "was" : "were", CountsText(report, "outcomes"));
  if (is_observing) {
    out += fmt::format("Enforce would have said: {}\n", CountsText(report, "verdicts"));
  }
  if (!is_observing) {
    out += fmt::format("Not among them: {} that {} answered from the ledger since {}\n",
                       Counted(Number(report, "replays"), "repeat"),
                       Number(report, "replays") == 1 ? "was" : "were",
                       ScalarText(report, "unlisted_reads_since"));
  }
  out += fmt::format("{}, {} of them took effect twice, {} perhaps\n",
                     Counted(Number(report, "repeats"), "repeat"), Number(report, "double_effects"),
                     Number(report, "possible_double_effects"));
  return out;
}

std::vector<std::string> DuplicateRow(const Json& line) {
  const Json* seconds = line.Find("seconds");
  const Json* examples = line.Find("examples");
  std::string between;
  std::string example;
  if (seconds != nullptr) {
    between = SpanText(Milliseconds(*seconds, "min")) + " / " +
              SpanText(Milliseconds(*seconds, "median")) + " / " +
              SpanText(Milliseconds(*seconds, "max"));
  }
  if (examples != nullptr && !examples->items.empty()) {
    const Json& first = examples->items.front();
    const std::string trace = ScalarText(first, "first_trace");
    example =
        fmt::format("{} after {}, {}", ScalarText(first, "repeat"), ScalarText(first, "first"),
                    trace.empty() ? "no trace" : "trace " + trace);
  }
  return {ScalarText(line, "tool"),
          ScalarText(line, "repeats"),
          ScalarText(line, "double_effects"),
          ScalarText(line, "possible_double_effects"),
          between,
          CountsText(line, "verdicts"),
          example};
}

}  // namespace

std::string SpanText(std::int64_t milliseconds) {
  const std::int64_t ms = std::max<std::int64_t>(milliseconds, 0);
  const std::int64_t seconds = ms / 1000;
  if (ms < 1'000) return fmt::format("{} ms", ms);
  if (seconds < 60) return fmt::format("{}.{} s", seconds, ms % 1000 / 100);
  if (seconds < 3'600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  if (seconds < 86'400) return fmt::format("{} h {} min", seconds / 3'600, seconds % 3'600 / 60);
  return fmt::format("{} d {} h", seconds / 86'400, seconds % 86'400 / 3'600);
}

std::string ReportText(const Json& report) {
  std::string out = Summary(report);
  AddSection(out, report, "duplicates", "Duplicates: the same call again",
             {"TOOL", "REPEATS", "TWICE", "PERHAPS", "BETWEEN (MIN / MEDIAN / MAX)", "VERDICTS",
              "EXAMPLE (OPERATIONS)"},
             DuplicateRow);
  AddSection(out, report, "unknown", "Unknown outcomes: sent, and nobody knows whether it acted",
             {"TOOL", "CAUSE", "CALLS", "OPEN", "EXAMPLE"}, [](const Json& line) {
               return std::vector{ScalarText(line, "tool"), ScalarText(line, "cause"),
                                  ScalarText(line, "calls"), ScalarText(line, "open"),
                                  ScalarText(line, "example")};
             });
  AddSection(out, report, "held", "Calls that would have waited for a human",
             {"TOOL", "CALLS", "VERDICT", "EXAMPLE"}, [](const Json& line) {
               return std::vector{ScalarText(line, "tool"), ScalarText(line, "calls"),
                                  ScalarText(line, "verdict"), ScalarText(line, "example")};
             });
  AddSection(out, report, "without_undo", "Writes without undo", {"TOOL", "CALLS", "WHY"},
             [](const Json& line) {
               return std::vector{ScalarText(line, "tool"), ScalarText(line, "calls"),
                                  ScalarText(line, "why")};
             });
  AddSection(out, report, "unlisted", "Calls to tools never listed",
             {"BACKEND", "EFFECT", "METHOD", "PATH", "CALLS"}, [](const Json& line) {
               return std::vector{ScalarText(line, "backend"), ScalarText(line, "effect"),
                                  ScalarText(line, "method"), ScalarText(line, "path"),
                                  ScalarText(line, "calls")};
             });
  AddSection(out, report, "refused", "Calls that would have been refused",
             {"BACKEND", "EFFECT", "METHOD", "PATH", "CALLS", "REASON"}, [](const Json& line) {
               return std::vector{ScalarText(line, "backend"), ScalarText(line, "effect"),
                                  ScalarText(line, "method"),  ScalarText(line, "path"),
                                  ScalarText(line, "calls"),   ScalarText(line, "reason")};
             });
  AddSection(out, report, "keys", "Trouble with keys",
             {"TOOL", "TROUBLE", "CALLS", "EXAMPLE", "MEANS"}, [](const Json& line) {
               return std::vector{ScalarText(line, "tool"), ScalarText(line, "trouble"),
                                  ScalarText(line, "calls"), ScalarText(line, "example"),
                                  ScalarText(line, "means")};
             });
  AddSection(out, report, "differences",
             "Fields that differ between calls which count as one (since the start of the process)",
             {"TOOL", "FIELD", "CALLS"}, [](const Json& line) {
               return std::vector{ScalarText(line, "tool"), ScalarText(line, "field"),
                                  ScalarText(line, "calls")};
             });
  if (const std::string text = FlowCountsText(report); !text.empty()) {
    out += fmt::format("\n{} (since the start of the process)\n", text);
  }
  if (Number(report, "not_recorded") > 0) {
    out += fmt::format(
        "\n{} writes since the start of the process are missing from the ledger; the metric "
        "recourse_observed_dropped_total says why\n",
        Number(report, "not_recorded"));
  }
  if (ScalarText(report, "cut") == "true") {
    out +=
        "\nA bound was reached: counts are right, details are not complete; ask for less time "
        "with --since\n";
  }
  return out;
}

}  // namespace recourse
