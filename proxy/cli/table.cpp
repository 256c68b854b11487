#include "proxy/cli/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <numeric>
#include <utility>

#include "proxy/cli/api_call.h"
#include "proxy/config/terminal.h"

namespace recourse {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kTextLeast = 4;
constexpr std::string_view kCut = "…";

struct StateColour {
  std::string_view state, colour;
};
constexpr std::string_view kGreen = "32", kRed = "31", kYellow = "33", kMagenta = "35";
constexpr std::array kStateColours = std::to_array<StateColour>({
    {"SUCCESS", kGreen},
    {"SUCCEEDED", kGreen},
    {"COMMITTED", kGreen},
    {"finished", kGreen},
    {"approved", kGreen},
    {"FAILED", kRed},
    {"REJECTED", kRed},
    {"NEEDS_HUMAN", kRed},
    {"rejected", kRed},
    {"expired", kRed},
    {"UNCERTAIN", kYellow},
    {"PENDING", kYellow},
    {"BREAKING", kYellow},
    {"UNDOING", kYellow},
    {"waiting", kYellow},
    {"unknown", kYellow},
    {"COMPENSATED", kMagenta},
    {"UNDONE", kMagenta},
});

bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

std::size_t CharactersOf(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, BeginsCharacter));
}

std::string CutTo(const std::string& text, std::size_t width) {
  if (CharactersOf(text) <= width) return text;
  std::size_t characters = 0, at = 0;
  while (at < text.size() && (!BeginsCharacter(text[at]) || characters++ < width - 1)) ++at;
  return text.substr(0, at) + std::string(kCut);
}

std::vector<std::size_t> WidthsFor(std::span<const Column> columns, std::size_t room) {
  std::vector<std::size_t> widths;
  for (const Column& column : columns) widths.push_back(column.width);
  if (room == 0) return widths;
  const std::size_t gaps = kGap * (columns.size() - 1);
  std::size_t taken = std::accumulate(widths.begin(), widths.end(), gaps);
  // Those that have most to give give first.
  while (taken > room) {
    std::size_t widest = 0;
    for (std::size_t i = 1; i < columns.size(); ++i) {
      if (widths[i] - columns[i].least > widths[widest] - columns[widest].least) widest = i;
    }
    if (widths[widest] == columns[widest].least) break;
    --widths[widest];
    --taken;
  }
  // Then all texts, the longest first: a line that goes on below is worse to read than one cut.
  while (taken > room) {
    std::size_t widest = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const bool is_text = columns[i].side == Column::Side::kLeft && widths[i] > kTextLeast;
      if (is_text && (widest == columns.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == columns.size()) return widths;
    --widths[widest];
    --taken;
  }
  widths.back() += room - taken;
  return widths;
}

std::string_view ColourOf(std::string_view cell) {
  const auto at = std::ranges::find(kStateColours, cell, &StateColour::state);
  return at == kStateColours.end() ? std::string_view() : at->colour;
}

constexpr Column kPodColumn{"POD", 20, 8};
constexpr std::size_t kIdOfStream = 12;  // a cut one names nothing

}  // namespace

TableLook LookOf(const std::ostream& out) {
  TableLook look;
  if (&out != &std::cout || !IsTerminal(STDOUT_FILENO)) return look;
  look.has_colours = HasColours();
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) look.columns = size.ws_col;
  return look;
}

std::string TableLine(std::span<const Column> columns, std::span<const std::string> cells,
                      const TableLook& look) {
  std::size_t whole = kGap * (columns.size() - 1) + CharactersOf(cells.back());
  for (std::size_t i = 0; i + 1 < columns.size(); ++i) {
    whole += std::max(columns[i].width, CharactersOf(cells[i]));
  }
  const std::size_t room = whole <= look.columns ? 0 : look.columns;
  const auto widths = WidthsFor(columns, room);
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const bool is_last = i + 1 == columns.size();
    const std::string cell = room == 0 ? cells[i] : CutTo(cells[i], widths[i]);
    const std::size_t size = CharactersOf(cell);
    const std::string pad(size < widths[i] ? widths[i] - size : 0, ' ');
    const std::string_view colour = look.has_colours ? ColourOf(cells[i]) : std::string_view();
    if (columns[i].side == Column::Side::kRight) line += pad;
    if (!colour.empty()) line.append("\033[").append(colour).append("m");
    line += cell;
    if (!colour.empty()) line += "\033[0m";
    if (is_last) break;
    if (columns[i].side == Column::Side::kLeft) line += pad;
    line.append(kGap, ' ');
  }
  return line + "\n";
}

void PrintTitles(std::ostream& out, std::span<const Column> columns) {
  std::vector<std::string> titles;
  for (const Column& column : columns) titles.emplace_back(column.title);
  PrintRow(out, columns, titles);
}

void PrintRow(std::ostream& out, std::span<const Column> columns,
              const std::vector<std::string>& cells) {
  out << TableLine(columns, cells, LookOf(out));
}

void PodTable::Begin(const ApiClient& client) {
  const auto text = Call(client, "GET", "/status");
  const auto status = text ? ParseJson(*text) : ParseJson("");
  PrintTitlesOnce(status && status->Find("streams") != nullptr);
}

void PodTable::PrintTitlesOnce(bool has_pods) {
  if (std::exchange(is_begun_, true)) return;
  if (has_pods) {
    with_pods_.assign(columns_.begin(), columns_.end());
    with_pods_.front().width = with_pods_.front().least = kIdOfStream;
    with_pods_.insert(with_pods_.begin() + 1, kPodColumn);
  }
  PrintTitles(out_, has_pods ? std::span<const Column>(with_pods_) : columns_);
}

void PodTable::Row(const Json& item, std::vector<std::string> cells) {
  PrintTitlesOnce(item.Find("pod") != nullptr);
  if (with_pods_.empty()) return PrintRow(out_, columns_, cells);
  cells.insert(cells.begin() + 1, Printable(item, "pod"));
  PrintRow(out_, with_pods_, cells);
}

}  // namespace recourse
