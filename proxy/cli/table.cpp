#include "proxy/cli/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <numeric>
#include <utility>

#include "proxy/admin/access/admin_paths.h"
#include "proxy/cli/api_call.h"
#include "proxy/config/terminal.h"

namespace recourse {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kTextLeast = 4;
constexpr std::string_view kCut = "…";
constexpr std::size_t kTimeSize = 24;    // 2026-11-26T10:03:48.282Z
constexpr std::size_t kSecondSize = 20;  // 2026-11-26T10:03:48Z

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

// How the columns stand in one text.
struct Layout {
  std::vector<std::size_t> shown;   // which ones
  std::vector<std::size_t> widths;  // of them
  bool has_short_times = false;

  std::size_t Taken() const {
    return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
  }
  void LeaveOut(std::size_t place) {
    shown.erase(shown.begin() + static_cast<std::ptrdiff_t>(place));
    widths.erase(widths.begin() + static_cast<std::ptrdiff_t>(place));
  }
};

bool IsText(const Column& column) {
  return column.kind == Column::Kind::kText || column.kind == Column::Kind::kExtra;
}

std::string ToTheSecond(const std::string& cell) {
  const bool has_fraction = cell.size() == kTimeSize && cell[kSecondSize - 1] == '.';
  return has_fraction ? cell.substr(0, kSecondSize - 1) + "Z" : cell;
}

// Texts give in until it fits, those first that are widest beyond what is left to them.
template <class Leaves>
void Narrow(Layout& layout, std::span<const Column> columns, std::size_t room,
            const Leaves& leaves) {
  for (std::size_t taken = layout.Taken(); taken > room; --taken) {
    std::size_t most = 0, widest = 0;
    for (std::size_t i = 0; i < layout.widths.size(); ++i) {
      const Column& column = columns[layout.shown[i]];
      const std::size_t least = IsText(column) ? leaves(column) : layout.widths[i];
      const std::size_t spare = layout.widths[i] - std::min(least, layout.widths[i]);
      if (spare <= most) continue;
      most = spare;
      widest = i;
    }
    if (most == 0) return;
    --layout.widths[widest];
  }
}

// What it would take at least.
std::size_t LeastOf(const Layout& layout, std::span<const Column> columns) {
  std::size_t least = kGap * (layout.widths.size() - 1);
  for (std::size_t i = 0; i < layout.widths.size(); ++i) {
    const Column& column = columns[layout.shown[i]];
    least += IsText(column) ? std::min(column.least, layout.widths[i]) : layout.widths[i];
  }
  return least;
}

Layout LayoutFor(std::span<const Column> columns, const std::vector<std::size_t>& widths,
                 std::size_t room) {
  Layout layout;
  layout.widths = widths;
  layout.shown.resize(columns.size());
  std::iota(layout.shown.begin(), layout.shown.end(), std::size_t{0});
  if (room == 0) return layout;
  if (LeastOf(layout, columns) > room) {
    layout.has_short_times = true;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].kind == Column::Kind::kTime && layout.widths[i] == kTimeSize) {
        layout.widths[i] = kSecondSize;
      }
    }
  }
  for (std::size_t i = columns.size(); i-- > 0 && LeastOf(layout, columns) > room;) {
    if (columns[i].kind == Column::Kind::kExtra) layout.LeaveOut(i);
  }
  Narrow(layout, columns, room, [](const Column& column) { return column.least; });
  Narrow(layout, columns, room, [](const Column&) { return kTextLeast; });
  return layout;
}

std::string_view ColourOf(std::string_view cell) {
  const auto at = std::ranges::find(kStateColours, cell, &StateColour::state);
  return at == kStateColours.end() ? std::string_view() : at->colour;
}

std::string LineOf(std::span<const Column> columns, const Layout& layout,
                   const std::vector<std::string>& cells, bool has_colours) {
  std::string line;
  for (std::size_t i = 0; i < layout.shown.size(); ++i) {
    const Column& column = columns[layout.shown[i]];
    const std::string& whole = cells[layout.shown[i]];
    const bool is_shortened = layout.has_short_times && column.kind == Column::Kind::kTime;
    const std::string cell = CutTo(is_shortened ? ToTheSecond(whole) : whole, layout.widths[i]);
    const std::string pad(layout.widths[i] - CharactersOf(cell), ' ');
    const std::string_view colour = has_colours ? ColourOf(whole) : std::string_view();
    if (i > 0) line.append(kGap, ' ');
    if (column.side == Column::Side::kRight) line += pad;
    if (!colour.empty()) line.append("\033[").append(colour).append("m");
    line += cell;
    if (!colour.empty()) line += "\033[0m";
    if (column.side == Column::Side::kLeft && i + 1 < layout.shown.size()) line += pad;
  }
  return line + "\n";
}

constexpr Column kPodColumn{"POD", 20, Column::Kind::kText, 8};

}  // namespace

TableLook LookOf(const std::ostream& out) {
  TableLook look;
  if (&out != &std::cout || !IsTerminal(STDOUT_FILENO)) return look;
  look.has_colours = HasColours();
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) look.columns = size.ws_col;
  return look;
}

void Table::Expect() {
  has_titles_due_ = true;
  for (const Column& column : columns_) widths_.push_back(column.usual);
}

void Table::Row(std::vector<std::string> cells, std::string below) {
  lines_.push_back({std::move(cells), std::move(below)});
}

std::string Table::Take(const TableLook& look) {
  if (lines_.empty() && !has_titles_due_) return {};
  const bool has_titles = std::exchange(has_titles_due_, false) || widths_.empty();
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title);
  widths_.resize(columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths_[i] = std::max(widths_[i], titles[i].size());
    for (const Line& line : lines_) widths_[i] = std::max(widths_[i], CharactersOf(line.cells[i]));
  }
  const Layout layout = LayoutFor(columns_, widths_, look.columns);
  std::string text;
  if (has_titles) text = LineOf(columns_, layout, titles, false);
  for (const Line& line : std::exchange(lines_, {})) {
    text += LineOf(columns_, layout, line.cells, look.has_colours) + line.below;
  }
  return text;
}

void PodTable::Expect(const ApiClient& client) {
  const auto text = Call(client, "GET", admin_paths::kStatus);
  const auto status = text ? ParseJson(*text) : ParseJson("");
  Begin(status && status->Find("streams") != nullptr);
  table_->Expect();
}

void PodTable::Begin(bool has_pods) {
  if (table_) return;
  if (has_pods) {
    with_pods_.assign(columns_.begin(), columns_.end());
    with_pods_.insert(with_pods_.begin() + 1, kPodColumn);
  }
  table_.emplace(has_pods ? std::span<const Column>(with_pods_) : columns_);
}

void PodTable::Row(const Json& item, std::vector<std::string> cells) {
  Begin(item.Find("pod") != nullptr);
  if (!with_pods_.empty()) cells.insert(cells.begin() + 1, Printable(item, "pod"));
  table_->Row(std::move(cells));
}

void PodTable::Flush() {
  if (table_) out_ << table_->Take(LookOf(out_));
}

}  // namespace recourse
