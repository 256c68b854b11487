#include "proxy/admin/api/openapi.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/flow.h"
#include "policy/explain/explain.h"
#include "proxy/admin/access/access_control.h"
#include "proxy/admin/access/endpoints.h"
#include "proxy/admin/api/activity_api.h"
#include "proxy/admin/api/approval_api.h"
#include "proxy/admin/api/events_api.h"
#include "proxy/admin/api/flow_api.h"
#include "proxy/admin/api/policy_api.h"
#include "proxy/admin/api/policy_view.h"
#include "proxy/admin/api/process_json.h"
#include "proxy/admin/ui/ui_files.h"
#include "proxy/admin/views/approval_view.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/admin/views/flow_json.h"
#include "proxy/admin/views/message_view.h"
#include "proxy/admin/views/row_view.h"
#include "proxy/base/http/own_port.h"
#include "proxy/base/json/error_member.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/json/json_span.h"
#include "proxy/report/report_text.h"

namespace recourse {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kProblems = {{
    {"400", "BadRequest"},
    {"401", "Unauthorized"},
    {"403", "Forbidden"},
    {"404", "NotFound"},
    {"409", "Conflict"},
    {"410", "Gone"},
    {"421", "UnknownHost"},
    {"422", "Unprocessable"},
    {"429", "TooManyFailures"},
    {"503", "Unavailable"},
}};
constexpr std::string_view kForAnybody = "400 421";
constexpr std::string_view kForOperators = "400 401 403 421 429 503";

void WriteReference(JsonObject& json, std::string_view kind, std::string_view name) {
  json.Text("$ref", std::string("#/components/").append(kind).append("/").append(name));
}

void WriteSchema(JsonObject& json, std::string_view schema) {
  if (schema.starts_with('{')) return json.Raw("schema", schema);
  JsonObject reference = json.Object("schema");
  WriteReference(reference, "schemas", schema);
}

void WriteParam(JsonObject& json, const Endpoint::Param& param) {
  json.Text("name", param.name);
  json.Text("in", param.in == Endpoint::Param::In::kQuery  ? "query"
                  : param.in == Endpoint::Param::In::kPath ? "path"
                                                           : "header");
  json.TextIfAny("description", param.text);
  WriteSchema(json, param.schema);
  if (param.in == Endpoint::Param::In::kPath) json.Bool("required", true);
}

// Those that the path has, or the others.
void WriteParams(JsonObject& json, std::span<const Endpoint::Param> params, bool of_path) {
  const auto is_meant = [=](const Endpoint::Param& param) {
    return (param.in == Endpoint::Param::In::kPath) == of_path;
  };
  if (std::ranges::none_of(params, is_meant)) return;
  json.Each("parameters", params, [&](std::string& out, const Endpoint::Param& param) {
    if (!is_meant(param)) return;
    JsonObject one(out);
    WriteParam(one, param);
  });
}

// Who may: the same role, whichever way operators prove who they are.
void WriteSecurity(JsonObject& json, Endpoint::Need need) {
  JsonList ways = json.List("security");
  if (need == Endpoint::Need::kNobody) return;
  for (const std::string_view way : {"bearer", "session", "certificate"}) {
    JsonObject one = ways.Object();
    JsonList roles = one.List(way);
    if (need != Endpoint::Need::kAnyOperator) roles.Text(NameOf(need));
  }
}

void WriteContent(JsonObject& json, std::string_view type, std::string_view schema) {
  JsonObject content = json.Object("content");
  JsonObject of_type = content.Object(type);
  WriteSchema(of_type, schema);
}

void WriteContents(JsonObject& json, const Endpoint::Docs& docs) {
  if (docs.schema.empty() && docs.contents.empty()) return;
  JsonObject content = json.Object("content");
  if (!docs.schema.empty()) {
    JsonObject of_type = content.Object("application/json");
    WriteSchema(of_type, docs.schema);
  }
  for (const Endpoint::Content& one : docs.contents) {
    JsonObject of_type = content.Object(one.type);
    if (one.item.empty()) continue;
    WriteSchema(of_type, Endpoint::Param().schema);
    JsonObject item = of_type.Object("x-item-schema");
    WriteReference(item, "schemas", one.item);
  }
}

void WriteAnswers(JsonObject& json, const Endpoint& endpoint) {
  const Endpoint::Docs& docs = endpoint.docs;
  JsonObject answers = json.Object("responses");
  {
    const bool has_body = !docs.schema.empty() || !docs.contents.empty();
    JsonObject answer = answers.Object(has_body ? "200" : "204");
    answer.Text("description", docs.answer);
    if (!docs.header.empty()) {
      JsonObject headers = answer.Object("headers");
      JsonObject header = headers.Object(docs.header);
      WriteSchema(header, Endpoint::Param().schema);
    }
    WriteContents(answer, docs);
  }
  if (docs.header == "ETag") {
    answers.Object("304").Text("description",
                               "The file that If-None-Match names is the current one");
  }
  if (!docs.refusal.empty()) {
    JsonObject refusal = answers.Object("422");
    refusal.Text("description", "The files have errors; the policy before stays in force");
    WriteContent(refusal, "application/problem+json", docs.refusal);
  }
  const auto common = endpoint.need == Endpoint::Need::kNobody ? kForAnybody : kForOperators;
  for (const auto& [status, name] : kProblems) {
    if (common.find(status) == common.npos && docs.problems.find(status) == common.npos) continue;
    JsonObject problem = answers.Object(status);
    WriteReference(problem, "responses", name);
  }
}

void WriteEndpoint(JsonObject& json, const Endpoint& endpoint) {
  const Endpoint::Docs& docs = endpoint.docs;
  json.Text("operationId", endpoint.id);
  json.Text("summary", endpoint.summary);
  if (endpoint.need == Endpoint::Need::kSettle) {
    json.Text("description", "Who may repair may settle too.");
  }
  WriteSecurity(json, endpoint.need);
  WriteParams(json, docs.params, /*of_path=*/false);
  if (!docs.body.empty()) {
    JsonObject body = json.Object("requestBody");
    body.Bool("required", !docs.may_lack_body);
    WriteContent(body, "application/json", docs.body);
  }
  WriteAnswers(json, endpoint);
}

void WritePaths(JsonObject& json) {
  std::vector<std::pair<std::string_view, std::vector<const Endpoint*>>> by_path;
  for (const Endpoint& endpoint : AdminEndpoints()) {
    auto found =
        std::ranges::find(by_path, endpoint.path, [](const auto& one) { return one.first; });
    if (found == by_path.end()) found = by_path.insert(found, {endpoint.path, {}});
    found->second.push_back(&endpoint);
  }
  JsonObject paths = json.Object("paths");
  for (const auto& [path, endpoints] : by_path) {
    JsonObject item = paths.Object(path);
    WriteParams(item, endpoints.front()->docs.params, /*of_path=*/true);
    for (const Endpoint* endpoint : endpoints) {
      JsonObject of_method = item.Object(ToLower(endpoint->method));
      WriteEndpoint(of_method, *endpoint);
    }
  }
}

// `name`: the words that NameOf() has for the values from `first` up to `end`.
template <class Word>
void WriteWords(JsonObject& json, std::string_view name, Word first, int end) {
  JsonObject schema = json.Object(name);
  schema.Text("type", "string");
  JsonList words = schema.List("enum");
  for (int i = static_cast<int>(first); i < end; ++i) {
    words.Text(NameOf(static_cast<Word>(i)));
  }
}

// What is taken and other words, then what is written.
void WriteSchemas(JsonObject& components, std::string_view taken) {
  std::string schemas(taken);
  AppendMembers(schemas, [](JsonObject& json) {
    WriteWords(json, "Status", Status::kPending, static_cast<int>(Status::kCompensated) + 1);
    WriteWords(json, "Phase", Phase::kClaimed, kPhaseCount);
    WriteWords(json, "Cause", Cause::kNone, static_cast<int>(kLastCause) + 1);
    WriteWords(json, "Verdict", ObserveVerdict::kNone, kObserveVerdictCount);
    WriteWords(json, "FlowPhase", FlowPhase::kOpen, kFlowPhaseCount);
    WriteWords(json, "FlowCause", FlowCause::kNone, kFlowCauseCount);
    for (const auto& shapes :
         {EventShapes(), MessageShapes(), RowShapes(), FlowShapes(), ApprovalShapes(),
          EventPageShapes(), FlowPageShapes(), PolicyStateShapes(), ProcessShapes(),
          ProblemShapes(),
          std::vector{FlowCountsShape(), OperationPageShape(), ApprovalPageShape(),
                      StreamMessageShape(), PolicyToolsShape(), ExplanationShape(), ReportShape(),
                      SessionShape(), PortShape()}}) {
      for (const JsonShape& shape : shapes) json.Raw(shape.name, SchemaOf(shape));
    }
  });
  components.Raw("schemas", schemas);
}

std::string Document() {
  const auto files = EmbeddedUiFiles();
  const auto parts = std::ranges::find(files, kOpenApiParts, &UiFile::name);
  const auto part = [&](std::string_view pointer) {
    const auto span = FindJsonSpan(parts->bytes, pointer);
    return span ? parts->bytes.substr(span->at, span->size) : std::string_view("{}");
  };
  std::string info(part("/info"));
  AppendMembers(info, [](JsonObject& json) { json.Text("version", RECOURSE_VERSION); });
  return ObjectText([&](JsonObject& json) {
    json.Text("openapi", "3.1.0");
    json.Raw("info", info);
    json.Raw("servers", part("/servers"));
    WritePaths(json);
    JsonObject components = json.Object("components");
    components.Raw("securitySchemes", part("/components/securitySchemes"));
    components.Raw("responses", part("/components/responses"));
    WriteSchemas(components, part("/components/schemas"));
  });
}

}  // namespace

const std::string& OpenApiDocument() {
  static const std::string document = Document();
  return document;
}

}  // namespace recourse
