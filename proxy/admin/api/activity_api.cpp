#include "proxy/admin/api/activity_api.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/access/problem.h"
#include "proxy/admin/api/query_params.h"
#include "proxy/admin/views/member_kinds.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/watch_limits.h"

namespace recourse {
namespace {

HttpResponse BadParameter(std::string_view name, std::string_view value,
                          std::string_view accepted) {
  return Problem(400, "Bad parameter",
                 fmt::format("'{}' is no value for {}; accepted: {}", value, name, accepted));
}

// Takes one parameter; what is accepted, when the value is not.
std::optional<std::string> Take(OperationFilter& filter, const std::string& name,
                                const std::string& value) {
  std::uint64_t number = 0;
  if (name == "status") {
    filter.status = StatusFromName(value);
    if (!filter.status) return "PENDING, SUCCESS, FAILED or COMPENSATED";
  } else if (name == "phase") {
    filter.phase = PhaseFromName(value);
    if (!filter.phase) return PhaseNames();
  } else if (name == "observed") {
    if (value != "true" && value != "false") return "true or false";
    filter.observed = value == "true";
  } else if (name == "limit") {
    if (!ParseNumber(value, number) || number == 0 || number > limits::kOperationsPageMax) {
      return fmt::format("1 to {}", limits::kOperationsPageMax);
    }
    filter.limit = static_cast<std::size_t>(number);
  } else if (name == "before" || name == "after") {
    if (!ParsePlace(value, number)) return std::string(kIdForm);
    (name == "before" ? filter.before : filter.after) = number;
  }
  return std::nullopt;
}

namespace operation_page_members {

std::string Cursor(bool is_there, std::uint64_t at) { return is_there ? RowIdJson(at) : "null"; }

struct Shown {
  const OperationPage& page;
  PodNames& pods;
};
constexpr JsonMember<Shown> kPage[] = {
    member::Own({"operations", "Event", "", false, /*is_list=*/true},
                [](JsonObject& json, std::string_view name, const Shown& of) {
                  json.Each(name, of.page.events, [&](std::string& out, const Event& event) {
                    AppendEvent(out, event, &of.pods);
                  });
                }),
    member::Raw<[](const Shown& of) { return Cursor(of.page.older, of.page.first); }>(
        "older", kCursorSchema, kNextText),
    member::Raw<[](const Shown& of) { return Cursor(of.page.newer, of.page.last); }>(
        "newer", kCursorSchema,
        "What to ask for as `after` for what began later; null: that was all"),
    member::Id<[](const Shown& of) { return of.page.last; }>("last", "The newest row of the log"),
};

}  // namespace operation_page_members

}  // namespace

HttpResponse ActivityApi::Operations(std::string_view query) {
  OperationFilter filter;
  for (const auto& [name, value] : ParsePairs(query)) {
    std::optional<std::string>* const text = name == "trace"    ? &filter.trace_id
                                             : name == "tool"   ? &filter.tool
                                             : name == "flow"   ? &filter.flow
                                             : name == "caller" ? &filter.caller
                                             : name == "value"  ? &filter.value
                                                                : nullptr;
    if (text != nullptr) {
      *text = value;
      continue;
    }
    if (name == "pod") {
      if (!pods_.is_shared()) return NoPods();
      filter.is_of = pods_.AreOf(value);
      continue;
    }
    if (const auto accepted = Take(filter, name, value)) {
      return BadParameter(name, value, *accepted);
    }
  }
  if (filter.before && filter.after) {
    return Problem(400, "Bad parameter", "before and after exclude each other");
  }
  if (lister_ == nullptr) {
    return NoLedger("the ledger could not be opened; see the log");
  }
  const auto page = lister_->Operations(filter);
  if (!page) return NoLedger(page.error().detail());
  return JsonAnswer(ObjectText([&](JsonObject& json) {
    WriteMembers(json, operation_page_members::kPage, {*page, pods_});
  }));
}

ServedAnswer ActivityApi::Stream(const HttpRequest& request, std::string_view query) {
  std::optional<NewsPlace> after;
  for (const auto& [name, value] : ParsePairs(query)) {
    if (!(after = ParseNewsPlace(value))) return BadParameter(name, value, kPlaceForm);
  }
  // What a client that reconnects says is newer than what its address says.
  if (const std::string* last = FindHeader(request.headers, "Last-Event-ID")) {
    if (!(after = ParseNewsPlace(*last))) return BadParameter("Last-Event-ID", *last, kPlaceForm);
  }
  auto source = stream_.Watch(after);
  if (!source) {
    HttpResponse busy = Problem(503, "Not to be watched now", source.error());
    busy.headers.emplace_back("Retry-After", "5");
    return busy;
  }
  return {HttpResponse{200, "OK", {{"Content-Type", "text/event-stream"}}, {}}, std::move(*source)};
}

JsonShape OperationPageShape() {
  return {"OperationPage", "", DocsOf(operation_page_members::kPage)};
}

}  // namespace recourse
