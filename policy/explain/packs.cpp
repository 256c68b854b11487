#include "policy/explain/packs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <vector>

#include "policy/language/config_reader.h"
#include "policy/language/loader.h"
#include "policy/model/tool_names.h"
#include "policy/undo/undo_class.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

using PackRow = std::array<std::string, 5>;
constexpr std::array<std::string_view, 5> kPackColumns{"write", "repeat-safe by", "settled by",
                                                       "undone by", "class"};
constexpr std::array<std::string_view, 5> kPackMembers{"write", "repeat_safe_by", "settled_by",
                                                       "undone_by", "class"};
constexpr std::string_view kByLog = "ledger";
constexpr std::string_view kTableHead =
    "# What the packs know of each write\n\nMade by `recourse pack list --markdown`. The ledger "
    "answers every repeat; a key makes it safe to send one again\nwhose outcome is unknown. A "
    "class tells what becomes of the effect: who was told of it stays told.\n";

std::string CallText(const Tool& tool) {
  std::string methods;
  for (const std::string& method : tool.methods) methods += (methods.empty() ? "" : "|") + method;
  std::string text;
  for (const std::string& pattern : tool.patterns) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", methods, pattern);
  }
  for (const std::string& name : tool.mcp_names) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kToolsCall, name);
  }
  for (const std::string& field : tool.mutations) {
    text += fmt::format("{}mutation {}", text.empty() ? "" : ", ", field);
  }
  return text;
}

// "GET /v1/things?x={key}" without what is asked for, "mutation thingDelete {..}" without its
// variables: the table has no room for it.
std::string ShortText(const RequestTemplate& request) {
  const std::string_view end = request.calls.empty() ? "?" : " {";
  return request.source.substr(0, request.source.find(end));
}

std::string UndoneText(const Tool& tool) {
  std::vector<std::string> texts;
  bool always = false;
  for (const UndoRule* const undo : UndosOf(tool)) {
    std::string text = ShortText(undo->request);
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
    always = always || undo->when.empty();
  }
  if (texts.empty()) return "-";
  std::string out = fmt::format("{}", fmt::join(texts, " or "));
  return always ? out : out + ", else human";
}

PackRow RowOf(const Policy& policy, const Tool& tool) {
  const KeyRule& key = KeyRuleOf(tool, policy.backends[tool.backend]);
  std::string repeats(kByLog);
  std::string settles = "human";
  if (key.at.exists()) {
    repeats = key.at.is_field() ? key.at.name : key.at.AsSelector().text;
    settles = "its key";
  }
  if (tool.settle) settles = ShortText(tool.settle->request);
  if (tool.settled_by) settles = ShortText(tool.settled_by->request);
  return {CallText(tool), std::move(repeats), std::move(settles), UndoneText(tool),
          std::string(UndoClassName(UndoClassOf(tool)))};
}

std::string NameOf(const PackFile& pack) {
  return std::string(pack.name.substr(0, pack.name.rfind('.')));
}

std::vector<PackRow> RowsOf(const PackFile& pack) {
  const LoadedPolicy loaded = LoadPolicyText(std::string(pack.name), std::string(pack.bytes));
  std::vector<PackRow> rows;
  if (!loaded.ok()) return rows;
  for (const Tool& tool : loaded.policy->tools) {
    if (tool.effect == Effect::kWrite) rows.push_back(RowOf(*loaded.policy, tool));
  }
  return rows;
}

void WritePackJson(const PackFile& pack, JsonObject& json) {
  json.Text("name", NameOf(pack));
  json.Each("writes", RowsOf(pack), [](std::string& out, const PackRow& row) {
    JsonObject write(out);
    for (std::size_t i = 0; i < row.size(); ++i) write.Text(kPackMembers[i], row[i]);
  });
}

}  // namespace

const PackFile* FindPack(const std::string& name, std::ostream& err) {
  std::vector<std::string> names;
  for (const PackFile& pack : EmbeddedPacks()) {
    if (NameOf(pack) == name) return &pack;
    names.push_back(NameOf(pack));
  }
  err << "recourse: no pack is named '" << name << "'" << DidYouMean(ToLower(name), names)
      << "; there are: " << JoinWords(names) << "\n";
  return nullptr;
}

void ListPacks(PackForm form, std::ostream& out) {
  if (form == PackForm::kJson) {
    std::string text;
    {
      JsonObject json(text);
      json.Each("packs", EmbeddedPacks(), [](std::string& to, const PackFile& pack) {
        JsonObject one(to);
        WritePackJson(pack, one);
      });
    }
    out << text << "\n";
    return;
  }
  if (form == PackForm::kMarkdown) out << kTableHead;
  for (const PackFile& pack : EmbeddedPacks()) {
    const std::vector<PackRow> rows = RowsOf(pack);
    if (form == PackForm::kText) {
      const auto undone = std::ranges::count_if(rows, [](const PackRow& row) {
        return row.back() != UndoClassName(UndoClass::kIrreversible);
      });
      out << fmt::format("{:16} {:3} writes, {:3} undone\n", NameOf(pack), rows.size(), undone);
      continue;
    }
    out << fmt::format("\n## {}\n\n| {} |\n|{}\n", NameOf(pack), fmt::join(kPackColumns, " | "),
                       "---|---|---|---|---|");
    for (PackRow row : rows) {
      for (std::string& cell : row) {
        for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) {
          cell.insert(at, 1, '\\');
        }
      }
      out << fmt::format("| {} |\n", fmt::join(row, " | "));
    }
  }
}

PackResult ShowPack(const std::string& name, PackForm form, std::ostream& out, std::ostream& err) {
  const PackFile* const pack = FindPack(name, err);
  if (pack == nullptr) return PackResult::kUnknownName;
  if (form != PackForm::kJson) {
    out << pack->bytes;
    return PackResult::kDone;
  }
  std::string text;
  {
    JsonObject json(text);
    WritePackJson(*pack, json);
    json.Text("policy", pack->bytes);
  }
  out << text << "\n";
  return PackResult::kDone;
}

PackResult AddPack(const std::string& name, const std::string& directory, std::ostream& out,
                   std::ostream& err) {
  const PackFile* const pack = FindPack(name, err);
  if (pack == nullptr) return PackResult::kUnknownName;
  const std::filesystem::path path = std::filesystem::path(directory) / pack->name;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    err << "recourse: " << path.string() << " is there already; it is left as it is\n";
    return PackResult::kNotWritten;
  }
  std::filesystem::create_directories(directory, error);
  std::ofstream file(path, std::ios::binary);
  file << pack->bytes << std::flush;
  if (!file) {
    err << "recourse: " << path.string() << " cannot be written\n";
    return PackResult::kNotWritten;
  }
  out << path.string() << ": written; look at it, then run: recourse policy check " << directory
      << "\n";
  return PackResult::kDone;
}

}  // namespace recourse
