#include "proxy/admin/api/events_api.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "proxy/admin/access/problem.h"
#include "proxy/admin/api/query_params.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::string_view kFollowFromNow = "now";

struct EventsAsked {
  EventFilter filter{};
  std::function<bool(std::uint64_t row)> is_of{};  // of a pod; empty: of all
  bool as_lines = false;
  std::optional<std::string> follow{};
};

std::string OlderOf(const EventPage& page) {
  return page.older > 0 ? RowIdJson(page.older) : "null";
}

namespace event_page_members {

struct Tail {
  const EventPage& page;
  const EventFilter& filter;
};
constexpr JsonMember<Tail> kTail[] = {
    member::Raw<[](const Tail& of) { return NextOf(of.page); }>("next", kCursorSchema, kNextText),
    member::Raw<[](const Tail& of) {
      return of.filter.back > 0 ? std::optional(OlderOf(of.page)) : std::nullopt;
    }>("older", kCursorSchema,
       "With `back`: what to ask for as `up_to` for the rows before; null: there are none")
        .MayLack(),
};
struct Rows {
  const EventPage& page;
  PodNames& pods;
};
constexpr JsonMember<Rows> kRows[] = {
    member::Own({"events", "Row", "", false, /*is_list=*/true},
                [](JsonObject& json, std::string_view name, const Rows& of) {
                  JsonList events = json.List(name);
                  EachRow(
                      of.page,
                      [&](const FlowMoved& moved) {
                        AppendFlowMoved(events.Value(), moved, &of.pods);
                      },
                      [&](const Event& event) { AppendEvent(events.Value(), event, &of.pods); });
                }),
};
// Of what came since, at whatever pod.
struct NewsTail {
  const NewsPlace& to;
  bool more, has_gap;
};
constexpr JsonMember<NewsTail> kNewsTail[] = {
    member::Raw<[](const NewsTail& of) { return NewsPlaceJson(of.to); }>(
        "next", R"({"type": ["integer", "string"]})", "With `follow`: what to follow from next"),
    member::Bool<&NewsTail::more>("more", "There is more already"),
    member::Bool<&NewsTail::has_gap>("gap", "Rows were left out: read them without `follow`"),
};

}  // namespace event_page_members

// One event per line; the last line says where the next page begins.
HttpResponse EventLines(const EventPage& page, const EventFilter& filter, PodNames& pods) {
  std::string body;
  EachRow(
      page,
      [&](const FlowMoved& moved) {
        AppendFlowMoved(body, moved, &pods);
        body.push_back('\n');
      },
      [&](const Event& event) {
        (filter.with_answers ? AppendEventWithAnswer : AppendEvent)(body, event, &pods);
        body.push_back('\n');
      });
  {
    JsonObject tail(body);
    WriteMembers(tail, event_page_members::kTail, {page, filter});
  }
  body.push_back('\n');
  return {200, "OK", {{"Content-Type", "application/x-ndjson"}}, std::move(body)};
}

std::string PageJson(const EventPage& page, const EventFilter& filter, PodNames& pods) {
  return ObjectText([&](JsonObject& json) {
    WriteMembers(json, event_page_members::kRows, {page, pods});
    WriteMembers(json, event_page_members::kTail, {page, filter});
  });
}

bool IsTraceId(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Takes one parameter that says what is asked for; what is accepted, when the value is not.
std::optional<std::string> TakeWhat(EventFilter& filter, const std::string& name,
                                    const std::string& value) {
  std::uint64_t number = 0;
  if (name == "trace") {
    filter.trace_id = value;
    if (!IsTraceId(value)) return "32 lowercase hexadecimal digits, as they stand in a traceparent";
  } else if (name == "tool") {
    filter.tool = value;
  } else if (name == "flow") {
    filter.flow = value;
  } else if (name == "status") {
    filter.status = StatusFromName(value);
    if (!filter.status) {
      return "PENDING, SUCCESS, FAILED or COMPENSATED (for UNCERTAIN ask by phase)";
    }
  } else if (name == "phase") {
    filter.phase = PhaseFromName(value);
    if (!filter.phase) return PhaseNames();
  } else if (name == "operation") {
    if (!ParseId(value, number)) return std::string(kIdForm);
    filter.operation = number;
  }
  return std::nullopt;
}

// The others: how much, and how it is told.
std::optional<std::string> TakeHow(EventsAsked& asked, const std::string& name,
                                   const std::string& value) {
  EventFilter& filter = asked.filter;
  std::uint64_t number = 0;
  if (name == "after" || name == "up_to") {
    if (!ParsePlace(value, name == "after" ? filter.after : filter.up_to)) {
      return std::string(kIdForm);
    }
  } else if (name == "limit" || name == "back") {
    if (!ParseNumber(value, number) || number == 0 || number > limits::kAdminPageMax) {
      return "a number";
    }
    (name == "limit" ? filter.limit : filter.back) = static_cast<std::size_t>(number);
  } else if (name == "follow") {
    asked.follow = value;
  } else if (name == "lines" || name == "answers" || name == "flows") {
    if (value != "true") return "true";
    (name == "lines"     ? asked.as_lines
     : name == "answers" ? filter.with_answers
                         : filter.with_flows) = true;
  }
  return std::nullopt;
}

}  // namespace

HttpResponse EventsApi::List(std::string_view query) {
  EventsAsked asked;
  for (const auto& [name, value] : ParsePairs(query)) {
    if (name == "pod") {
      if (!pods_.is_shared()) return NoPods();
      asked.is_of = pods_.AreOf(value);
      continue;
    }
    auto accepted = TakeWhat(asked.filter, name, value);
    if (!accepted) accepted = TakeHow(asked, name, value);
    if (accepted) {
      return Problem(400, "Bad parameter",
                     fmt::format("'{}' is no value for {}; accepted: {}", value, name, *accepted));
    }
  }
  if (asked.follow) return Follow(*asked.follow, asked.filter, asked.is_of);
  auto page = ledger_.List(asked.filter);
  if (!page) return NoLedger(page.error().detail());
  if (asked.is_of) LeaveRowsOf(asked.is_of, *page);
  if (asked.as_lines) return EventLines(*page, asked.filter, pods_);
  return JsonAnswer(PageJson(*page, asked.filter, pods_));
}

// As lines, of which the last one says where to go on.
HttpResponse EventsApi::Follow(const std::string& from, const EventFilter& filter,
                               const IsOf& is_of) {
  const auto place = ParseNewsPlace(from);
  if (!place && from != kFollowFromNow) {
    return Problem(400, "Bad parameter",
                   fmt::format("'{}' is no value for follow; accepted: {}, or {}", from,
                               kFollowFromNow, kPlaceForm));
  }
  EventFeed::News news;
  if (place) {
    auto after = feed_.After(*place, filter);
    if (!after) return NoLedger(after.error().detail());
    news = std::move(*after);
  } else {
    auto end = feed_.End();
    if (!end) return NoLedger(end.error().detail());
    news.to = std::move(*end);
  }
  if (is_of) LeaveRowsOf(is_of, news.page);
  std::string body;
  EachNews(place.value_or(news.to), news, pods_,
           [&](const NewsPlace& /*told*/, const std::string& json) { body += json + "\n"; });
  body += ObjectText([&](JsonObject& json) {
            WriteMembers(json, event_page_members::kNewsTail, {news.to, news.more, news.is_behind});
          }) +
          "\n";
  return {200, "OK", {{"Content-Type", "application/x-ndjson"}}, std::move(body)};
}

std::vector<JsonShape> EventPageShapes() {
  using event_page_members::kNewsTail, event_page_members::kRows, event_page_members::kTail;
  const auto one_of = [](std::string_view name, std::string_view text,
                         std::vector<std::string> schemas) {
    JsonShape shape{.name = name, .text = text, .members = {}};
    shape.any_of = std::move(schemas);
    return shape;
  };
  return {
      {"EventPage", "", DocsOf(kRows, kTail)},
      one_of("Row", "", {SchemaReference("Event"), SchemaReference("FlowMove")}),
      one_of("EventLine",
             "A line of lines=true; the last one says where the next page begins. The last four "
             "members of an event come with answers=true.",
             {SchemaOf({"", "", DocsOf(kTail)}), SchemaReference("FlowMove"),
              SchemaOf(EventWithMessages()), SchemaOf({"", "", DocsOf(kNewsTail)})}),
  };
}

}  // namespace recourse
