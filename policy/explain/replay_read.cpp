// The past calls of an export.
#include <algorithm>
#include <map>
#include <utility>

#include "policy/explain/replay.h"
#include "policy/model/tool_names.h"
#include "proxy/base/json/json.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// "17" or "42.17"; empty: there is none.
std::string IdOf(const Json& event, std::string_view name) {
  std::string text = ScalarText(event, name);
  const bool is_id = text != "0" && text.find_first_not_of("0123456789.") == std::string::npos;
  return is_id ? text : std::string();
}
// In the order of one stream's numbers.
struct ById {
  bool operator()(const std::string& a, const std::string& b) const {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  }
};

std::optional<std::string> OptionalText(const Json& event, std::string_view name) {
  const Json* value = event.Find(name);
  if (value == nullptr || value->kind == Json::Kind::kNull) return std::nullopt;
  return value->is_scalar() ? ScalarText(*value) : CanonicalJson(*value);
}

std::optional<PastCall> ReadCall(const Json& event) {
  PastCall call;
  call.event = IdOf(event, "event_id");
  call.operation = IdOf(event, "operation");
  call.related = IdOf(event, "related");
  call.tool = ScalarText(event, "tool");
  call.backend = ScalarText(event, "backend");
  call.caller = ScalarText(event, "caller");
  call.trace_id = ScalarText(event, "trace_id");
  call.method = ScalarText(event, "method");
  call.path = ScalarText(event, "path");
  call.policy_version = ScalarText(event, "policy_version");
  call.verdict = ScalarText(event, "verdict");
  call.query = OptionalText(event, "query");
  call.body = OptionalText(event, "body");
  if (call.operation.empty() || call.method.empty() ||
      !(call.path.starts_with('/') || call.method == kToolsCall || call.method == kMutation)) {
    return std::nullopt;
  }
  return call;
}

class ExportReader {
 public:
  // Empty: taken. Else what is wrong.
  std::string Take(std::string_view line) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    is_empty_ = false;
    const auto json = ParseJson(line.substr(first, line.find_last_not_of(" \t\r") + 1 - first));
    if (!json) return "not one JSON value: " + std::string(json.error().detail());
    if (json->kind != Json::Kind::kArray) return TakeEvent(*json);
    for (const Json& event : json->items) {
      if (std::string problem = TakeEvent(event); !problem.empty()) return problem;
    }
    return {};
  }
  // As Take, of the whole file.
  std::string Finish() const {
    if (is_empty_) return "it is empty; give what `recourse ledger export` prints";
    if (!is_open_) return {};
    return "its last line ({\"kind\":\"end\",...}) is missing, so it was cut off; export again, "
           "or " +
           std::string("export the rest with --after ") + last_event_ + " and append it";
  }
  std::vector<PastCall> calls() && {
    std::vector<PastCall> all;
    for (auto& [operation, call] : calls_) all.push_back(std::move(call));
    return all;
  }

 private:
  std::string TakeEvent(const Json& event) {
    if (event.kind != Json::Kind::kObject) return "an event is a JSON object";
    // A row of the hash chain (--format ndjson) tells its event.
    const Json* const told = event.Find("event");
    if (told != nullptr && told->kind == Json::Kind::kObject) return TakeEvent(*told);
    // Other rows of the ledger have no operation.
    if (event.Find("operation") == nullptr && event.Find("kind") != nullptr) {
      const std::string kind = ScalarText(event, "kind");
      if (kind == "export" || kind == "end") is_open_ = kind == "export";
      return {};
    }
    auto call = ReadCall(event);
    if (!call) return "an event has operation, method and path (see `recourse events list --json`)";
    last_event_ = call->event;
    if (!IdOf(event, "undoes").empty()) return {};  // sent by Recourse: nobody's call
    const std::string operation = call->operation;
    const auto [at, is_new] = calls_.try_emplace(operation, std::move(*call));
    if (is_new && calls_.size() > limits::kReplayCallsMax) {
      return "more than " + std::to_string(limits::kReplayCallsMax) +
             " operations; replay the export in parts";
    }
    // Later rows of an operation may hold what the first one does not.
    if (!is_new && !at->second.body && call->body) at->second.body = std::move(call->body);
    return {};
  }

  std::map<std::string, PastCall, ById> calls_;
  bool is_empty_ = true;
  bool is_open_ = false;  // the first line of an export was seen, and not yet its last
  std::string last_event_ = "0";
};

}  // namespace

std::expected<std::vector<PastCall>, std::string> ReadExport(std::istream& in) {
  ExportReader reader;
  std::string line;
  for (std::uint64_t number = 1; std::getline(in, line); ++number) {
    if (std::string problem = reader.Take(line); !problem.empty()) {
      return std::unexpected("line " + std::to_string(number) + ": " + problem);
    }
  }
  if (in.bad()) return std::unexpected("it cannot be read to its end");
  if (std::string problem = reader.Finish(); !problem.empty()) return std::unexpected(problem);
  return std::move(reader).calls();
}

}  // namespace recourse
