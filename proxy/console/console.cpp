#include "proxy/console/console.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/access/problem.h"
#include "proxy/admin/api/openapi.h"
#include "proxy/admin/ui/ui_files.h"
#include "proxy/base/http/own_port.h"
#include "proxy/console/console_openapi.h"
#include "proxy/console/list_query.h"
#include "proxy/console/page_cut.h"

namespace recourse {
namespace {

// What is so long that a ledger's own process has to be asked for it.
constexpr std::array<std::string_view, 4> kNotServed = {
    admin_paths::kStream, admin_paths::kLedgerRows, admin_paths::kLedgerBackup,
    admin_paths::kLedgerVerify};
constexpr std::string_view kLedgerParameter = "ledger";

std::string QueryText(const Pairs& pairs) {
  std::string query;
  for (const auto& [name, value] : pairs) {
    query.append(query.empty() ? "?" : "&").append(name).append("=").append(PercentEncode(value));
  }
  return query;
}

std::string_view PathWithoutQuery(std::string_view target) {
  return target.substr(0, target.find('?'));
}

// Without the parameter that names a ledger.
struct NamedTarget {
  std::string path_and_query, ledger;
};
NamedTarget WithoutLedger(const std::string& target) {
  const auto question = target.find('?');
  if (question == target.npos) return {target, {}};
  NamedTarget without{.path_and_query = target.substr(0, question), .ledger = {}};
  Pairs rest;
  for (auto& [name, value] : ParsePairs(std::string_view(target).substr(question + 1))) {
    if (name == kLedgerParameter) {
      without.ledger = value;
    } else {
      rest.emplace_back(std::move(name), std::move(value));
    }
  }
  without.path_and_query += QueryText(rest);
  return without;
}

std::string Decoded(std::string_view segment) {
  std::string text;
  return PercentDecode(segment, text) ? text : std::string(segment);
}

bool IsJson(const HttpResponse& response) {
  const std::string* const type = FindHeader(response.headers, "Content-Type");
  return type != nullptr && type->find("json") != type->npos;
}

// nullopt: something else stands there.
std::optional<std::vector<Json>> NdjsonIn(std::string_view text) {
  std::vector<Json> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    auto json = ParseJson(line);
    if (!json || json->kind != Json::Kind::kObject) return std::nullopt;
    lines.push_back(std::move(*json));
  }
  return lines;
}

// What a ledger answered, as the console's: with its name before ids.
HttpResponse AsOurs(const HttpResponse& answer, std::string_view ledger) {
  HttpResponse ours{answer.status, answer.reason, {}, {}};
  for (const char* const name : {"Content-Type", "Retry-After"}) {
    if (const std::string* const value = FindHeader(answer.headers, name)) {
      ours.headers.emplace_back(name, *value);
    }
  }
  if (answer.body.empty() && !IsJson(answer)) return ours;
  const std::string* const type = FindHeader(answer.headers, "Content-Type");
  const bool is_lines = type != nullptr && type->find("ndjson") != type->npos;
  std::optional<Json> whole;
  if (auto json = ParseJson(answer.body); json && !is_lines && IsJson(answer)) {
    whole = std::move(*json);
  }
  const auto values = is_lines ? NdjsonIn(answer.body) : std::nullopt;
  if (!whole && !values) {
    return Problem(502, "No answer of a ledger",
                   "ledger " + std::string(ledger) + " answered " + std::to_string(answer.status) +
                       " with what is not JSON: is its address that of a pod's or a steward's "
                       "admin port?");
  }
  if (whole) AppendOfLedger(ours.body, *whole, ledger);
  for (const Json& value : values.value_or(std::vector<Json>())) {
    AppendOfLedger(ours.body, value, ledger);
    ours.body += "\n";
  }
  return ours;
}

}  // namespace

Console::Console(RemoteLedgers ledgers, std::vector<std::string> hosts, const Clock& clock,
                 Random& random)
    : ledgers_(std::move(ledgers)),
      desk_(ledgers_, clock),
      api_(ConsoleOpenApi(OpenApiDocument(), kNotServed)),
      nobody_({}, clock),
      door_({.desk = nobody_,
             .clock = clock,
             .random = random,
             .admin_token = {},
             .hosts = std::move(hosts),
             .judge = [this](std::string_view token) { return desk_.Judge(token); },
             .is_known = [this](std::string_view token) { return desk_.Knows(token); }}) {}

ServedAnswer Console::Handle(const HttpRequest& given, const HttpPeer& peer) {
  NamedTarget target = WithoutLedger(given.target);
  HttpRequest request = given;
  request.target = std::move(target.path_and_query);
  auto visit = door_.Admit(request, peer);
  ServedAnswer answer =
      visit ? Do(*visit, request, peer, target.ledger) : ServedAnswer(std::move(visit.error()));
  if (visit) AccessControl::Record(*visit, peer, answer.head.status);
  AddBrowserRules(answer.head);
  return answer;
}

ServedAnswer Console::Do(const Visit& visit, const HttpRequest& request, const HttpPeer& peer,
                         std::string_view ledger) {
  const std::string_view at = visit.endpoint->path;
  Order order{.visit = visit,
              .request = request,
              .ledger = std::string(ledger),
              .query = ParsePairs(visit.query)};
  for (const auto& [name, value] : order.query) {
    std::string why = visit.endpoint->UnknownParameter(name);
    if (!why.empty()) return Problem(400, "Unknown parameter", std::move(why));
  }
  if (at == kPortPath) return PortAnswer(kAdminPort);
  if (at == admin_paths::kOpenApi) return ServeFile(request, {at, api_});
  if (visit.endpoint->need == Endpoint::Need::kNobody) return ServeUiFile(request, visit.path);
  if (at == admin_paths::kSession) return Session(visit, request, peer);
  if (std::ranges::find(kNotServed, at) != kNotServed.end()) {
    return Problem(404, "Not at a console", "ask the ledger's own pod or steward for this");
  }
  if (auto named = NameLedger(order); !named) return std::move(named.error());
  if (!order.ledger.empty()) return Forward(order);
  const auto all = [&](std::string_view) { return std::optional(order.query); };
  if (const ListForm* const form = ListFormOf(at)) return List(order, *form);
  if (at == admin_paths::kStatus) {
    const Asked asked = AskAll(order, all);
    return JsonAnswer(MergedStatus(asked.answers, asked.states));
  }
  if (at == admin_paths::kPolicyTools) {
    const Asked asked = AskAll(order, all);
    return JsonAnswer(MergedLists(asked.answers, asked.states));
  }
  if (at == admin_paths::kFlow || at == admin_paths::kFlowPreview) return FindFlow(order);
  return NameOne();
}

HttpResponse Console::NameOne() const {
  std::string names;
  for (const auto& ledger : ledgers_) names += (names.empty() ? "" : ", ") + ledger->name();
  return Problem(
      400, "Which ledger",
      "this is about one ledger: name it, ?ledger=NAME or --at NAME, or choose it on the "
      "page; there are " +
          names);
}

RemoteLedger* Console::Find(std::string_view name) const {
  const auto found = std::ranges::find(ledgers_, name, &RemoteLedger::name);
  return found == ledgers_.end() ? nullptr : found->get();
}

RemoteState Console::StateOf(const RemoteLedger& ledger, std::string_view token) const {
  const RemoteDesk::At* const at = desk_.Find(token, ledger.name());
  RemoteState state{.name = ledger.name(), .state = "up", .why = ledger.away()};
  if (!state.why.empty()) {
    state.state = "away";
  } else if (at != nullptr && !(at->is_known && at->roles.Has(Role::kRead))) {
    state.state = "refused";
    state.why = at->is_known ? "you do not have the role read there" : "you are not known there";
  }
  if (at == nullptr || !at->is_known) return state;
  state.who = at->name;
  for (const auto& [name, role] : kRoleNames) {
    if (at->roles.Has(role)) state.roles.emplace_back(name);
  }
  return state;
}

HttpResponse Console::Session(const Visit& visit, const HttpRequest& request,
                              const HttpPeer& peer) {
  HttpResponse answer = door_.Session(visit, request, peer);
  if (answer.status != 200) return answer;
  std::vector<RemoteState> states;
  for (const auto& ledger : ledgers_) states.push_back(StateOf(*ledger, visit.credential));
  AppendMembers(answer.body, [&](JsonObject& json) { WriteLedgers(json, states); });
  return answer;
}

// By the ids of its path, query and body, which must be of one; they go on without its name.
std::expected<void, HttpResponse> Console::NameLedger(Order& order) const {
  bool is_of_two = false, is_bare = false;
  const auto name = [&](std::string_view ledger) {
    if (ledger.empty()) return;
    is_of_two = is_of_two || (!order.ledger.empty() && order.ledger != ledger);
    order.ledger = ledger;
  };
  const std::string_view at = order.visit.endpoint->path;
  if (at.find('{') != at.npos) {
    const std::string place = Decoded(admin_paths::PlaceIn(at, order.visit.path));
    if (const auto split = SplitLedgerId(place)) name(split->ledger);
  }
  for (auto& [parameter, value] : order.query) {
    const bool is_id = IsIdParameter(parameter);
    if (!is_id && parameter != kFollow) continue;
    const std::string text = value;
    if (const auto split = SplitLedgerId(text)) {
      name(split->ledger);
      value = split->id;
    } else {
      is_bare = is_bare || (is_id && value != "0" && !ParseLedgerCursors(value));
    }
  }
  const auto body = LedgerOfBody(order.request.body);
  if (!body) return std::unexpected(Problem(400, "Bad body", body.error()));
  name(*body);
  if (is_of_two) {
    return std::unexpected(Problem(400, "Two ledgers", "the request names two ledgers"));
  }
  if (order.ledger.empty())
    return is_bare ? std::unexpected(NameOne()) : std::expected<void, HttpResponse>();
  if (Find(order.ledger) != nullptr) return {};
  return std::unexpected(
      Problem(404, "No such ledger", "this console has no ledger of the name " + order.ledger));
}

HttpResponse Console::Forward(const Order& order) {
  RemoteLedger& ledger = *Find(order.ledger);
  const std::string_view at = order.visit.endpoint->path;
  std::string path(PathWithoutQuery(order.request.target));
  if (at.find('{') != at.npos) {
    const std::string_view segment = admin_paths::PlaceIn(at, order.visit.path);
    const std::string place = Decoded(segment);
    const auto split = SplitLedgerId(place);
    if (split) path.replace(at.find('{'), segment.size(), PercentEncode(split->id));
  }
  HttpRequest request{
      order.request.method, path + QueryText(order.query), {}, BodyForLedger(order.request.body)};
  if (const std::string* const type = FindHeader(order.request.headers, "Content-Type")) {
    request.headers.emplace_back("Content-Type", *type);
  }
  auto asked = ledger.Ask(WithToken(std::move(request), order.visit.credential));
  const auto said = ledger.Await(asked, RemoteLedger::kOrderPatience);
  if (!said.away.empty()) {
    const bool is_order = order.visit.endpoint->changes();
    return Problem(503, "Ledger away",
                   "ledger " + ledger.name() + " is away: " + said.away +
                       (is_order ? "; look whether it was done before you repeat it" : ""));
  }
  HttpResponse answer = AsOurs(said.response, ledger.name());
  if (answer.status != 401) return answer;
  // The session is known to others.
  return Problem(403, "Not allowed", "you are not known to ledger " + ledger.name());
}

Console::Asked Console::AskAll(
    const Order& order, const std::function<std::optional<Pairs>(std::string_view ledger)>& query) {
  const std::string path(PathWithoutQuery(order.request.target));
  std::vector<std::pair<RemoteLedger*, std::future<RemoteLedger::Said>>> all;
  Asked asked;
  for (const auto& ledger : ledgers_) {
    const RemoteDesk::At* const at = desk_.Find(order.visit.credential, ledger->name());
    const bool is_refused = at != nullptr && !at->is_known;
    const auto wanted = is_refused ? std::nullopt : query(ledger->name());
    if (!wanted) continue;
    all.emplace_back(ledger.get(), ledger->Ask(WithToken({"GET", path + QueryText(*wanted), {}, {}},
                                                         order.visit.credential)));
    asked.ledgers.push_back(ledger->name());
  }
  std::map<std::string_view, int> lacking;  // those whose rows are not there, and their status
  for (auto& [ledger, answer] : all) {
    const auto said = ledger->Await(answer);
    if (!said.away.empty()) continue;
    const int status = said.response.status;
    auto rows = status == 200 ? NdjsonIn(said.response.body) : std::nullopt;
    if (rows && !rows->empty()) {
      LedgerAnswer one{.ledger = ledger->name(), .json = std::move(rows->back())};
      rows->pop_back();
      one.rows = std::move(*rows);
      asked.answers.push_back(std::move(one));
      continue;
    }
    lacking[ledger->name()] = status;
    if (status == 400 || status == 409 || status == 422) {
      asked.refusal = AsOurs(said.response, ledger->name());
    }
  }
  for (const auto& ledger : ledgers_) {
    RemoteState& state = asked.states.emplace_back(StateOf(*ledger, order.visit.credential));
    const auto found = lacking.find(ledger->name());
    if (found == lacking.end() || state.state != "up") continue;
    state.state = "away";
    state.why = "it answered " + std::to_string(found->second) +
                " with no such list: look at what serves its address, and at its version";
  }
  return asked;
}

HttpResponse Console::List(const Order& order, const ListForm& form) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(order.query, name, &Pairs::value_type::first) != order.query.end();
  };
  Asked asked =
      AskAll(order, [&](std::string_view ledger) { return QueryForLedger(order.query, ledger); });
  if (asked.answers.empty() && asked.refusal) return std::move(*asked.refusal);
  if (!has(kFollow)) CutPage(form, order.query, asked.answers);
  FollowState state{.kept = PlacesOfAway(form, order.query, asked.ledgers, asked.answers)};
  if (has(kFollow)) {
    state = FollowedOf(order.query, asked.answers);
  } else if (!has("lines")) {
    return JsonAnswer(MergedPage(form, asked.answers, asked.states, state.kept));
  }
  return {200,
          "OK",
          {{"Content-Type", "application/x-ndjson"}},
          MergedLines(form, asked.answers, asked.states, state)};
}

// By its flow id, which agents choose: more than one ledger may know it.
HttpResponse Console::FindFlow(const Order& order) {
  Asked asked = AskAll(order, [&](std::string_view) { return std::optional(order.query); });
  if (asked.answers.size() == 1) {
    std::string body;
    AppendOfLedger(body, asked.answers.front().json, asked.answers.front().ledger);
    return JsonAnswer(std::move(body));
  }
  if (asked.answers.empty()) {
    if (asked.refusal) return std::move(*asked.refusal);
    return Problem(404, "No such flow", "no ledger that answers knows this flow");
  }
  return Problem(409, "Several flows",
                 "more than one ledger has a flow of this id: name the ledger");
}

}  // namespace recourse
