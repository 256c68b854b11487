#include "policy/graphql/request.h"

#include <algorithm>
#include <array>
#include <optional>

#include "policy/uri/twins.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

using Asked = GraphqlOperation::Type;
using GraphqlCalls = std::expected<std::vector<GraphqlCall>, GraphqlRefusal>;

// Names of stored documents differ from client to client.
constexpr std::array<std::string_view, 4> kStoredNames{"id", "documentId", "doc_id", "queryId"};
constexpr std::array<std::string_view, 8> kGraphqlNames{
    "query", "operationName", "variables", "extensions", "id", "documentId", "doc_id", "queryId"};

std::unexpected<GraphqlRefusal> RefusedGraphql(std::string detail) {
  return std::unexpected(GraphqlRefusal{ErrorCode::kMalformedRequest, std::move(detail)});
}
std::unexpected<GraphqlRefusal> RefusedType(std::string detail) {
  return std::unexpected(GraphqlRefusal{ErrorCode::kUnsupportedMediaType, std::move(detail)});
}

// What one request says, wherever it says it.
struct GraphqlParts {
  std::string document, operation_name;
  Json variables, extensions;
  std::string id;  // of a stored document
  bool has_document = false;
};

// The one of kGraphqlNames that `name` may be taken for although it is another one.
std::string_view NameMeant(NameIn where, std::string_view name) {
  if (std::ranges::find(kGraphqlNames, name) != kGraphqlNames.end()) return {};
  const auto* const twin = std::ranges::find_if(
      kGraphqlNames, [&](std::string_view known) { return AreTwins(where, name, known); });
  return twin == kGraphqlNames.end() ? std::string_view() : *twin;
}

std::string TwoReadings(std::string_view name, std::string_view meant) {
  return "some servers take '" + ShownName(name) + "' for '" + std::string(meant) +
         "': send each once, spelled so";
}

bool IsNullOrAbsent(const Json* value) {
  return value == nullptr || value->kind == Json::Kind::kNull;
}

std::string TypeProblem(const Json* value, Json::Kind kind) {
  return IsNullOrAbsent(value) || value->kind == kind ? ""
                                                      : "has another type than GraphQL gives it";
}

std::expected<GraphqlParts, GraphqlRefusal> GraphqlPartsOf(const Json& message) {
  if (message.kind != Json::Kind::kObject)
    return RefusedGraphql("a GraphQL request is a JSON object");
  for (const Json::Member& member : message.members) {
    const std::string_view meant = NameMeant(NameIn::kJson, member.first);
    if (!meant.empty()) return RefusedGraphql(TwoReadings(member.first, meant));
    const bool is_object = member.first == "variables" || member.first == "extensions";
    const bool is_known = std::ranges::find(kGraphqlNames, member.first) != kGraphqlNames.end();
    const auto kind = is_object ? Json::Kind::kObject : Json::Kind::kString;
    if (const std::string why = is_known ? TypeProblem(&member.second, kind) : ""; !why.empty()) {
      return RefusedGraphql("the member " + member.first + " " + why);
    }
  }
  GraphqlParts parts;
  const Json* const document = message.Find("query");
  parts.has_document = !IsNullOrAbsent(document);
  if (parts.has_document) parts.document = document->text;
  parts.operation_name = TextOf(message, "operationName");
  if (const Json* given = message.Find("variables")) parts.variables = *given;
  if (const Json* given = message.Find("extensions")) parts.extensions = *given;
  for (const std::string_view name : kStoredNames) {
    const Json* const id = message.Find(name);
    if (IsNullOrAbsent(id)) continue;
    if (!parts.id.empty()) return RefusedGraphql("two members name a stored document");
    parts.id = id->text;
    if (parts.id.empty()) return RefusedGraphql("the member " + std::string(name) + " is empty");
  }
  return parts;
}

// The document, by itself or from the policy's list.
std::expected<std::string, GraphqlRefusal> GraphqlDocumentOf(GraphqlParts& parts,
                                                             const PersistedDocuments& persisted) {
  const Json* const extension = parts.extensions.Find("persistedQuery");
  std::string hash;
  if (extension != nullptr) {
    for (const Json::Member& member : extension->members) {
      if (member.first != "sha256Hash" && AreTwins(NameIn::kJson, member.first, "sha256Hash")) {
        return RefusedGraphql(TwoReadings(member.first, "sha256Hash"));
      }
    }
    hash = TextOf(*extension, "sha256Hash");
    if (hash.empty()) return RefusedGraphql("extensions.persistedQuery has no sha256Hash");
  }
  for (const Json::Member& member : parts.extensions.members) {
    if (member.first != "persistedQuery" &&
        AreTwins(NameIn::kJson, member.first, "persistedQuery")) {
      return RefusedGraphql(TwoReadings(member.first, "persistedQuery"));
    }
  }
  if (!hash.empty() && !parts.id.empty()) return RefusedGraphql("a hash and an id name a document");
  if (parts.has_document) {
    if (!parts.id.empty()) {
      return RefusedGraphql("the request has a document and the id of one: send one of them");
    }
    if (!hash.empty() && ToLower(hash) != ToHex(Sha256(parts.document))) {
      return RefusedGraphql("sha256Hash is not the hash of the document beside it");
    }
    return std::move(parts.document);
  }
  const std::string& name = hash.empty() ? parts.id : hash;
  if (name.empty()) return RefusedGraphql("the request has no document: send it as `query`");
  const auto found = persisted.find(name);
  if (found == persisted.end()) {
    return RefusedGraphql("the policy does not know the stored document " +
                          ShownName(name.substr(0, 80)) +
                          ": send it as `query`, or list it in the backend's `persisted`");
  }
  return found->second;
}

struct ChosenCall {
  GraphqlCall call;
  bool has_mutation = false;  // some operation of its document is one
};

std::expected<ChosenCall, GraphqlRefusal> GraphqlCallOf(GraphqlParts parts,
                                                        const PersistedDocuments& persisted) {
  auto text = GraphqlDocumentOf(parts, persisted);
  if (!text) return std::unexpected(std::move(text.error()));
  const auto document = ParseGraphql(*text);
  if (!document) {
    return RefusedGraphql("the GraphQL document cannot be read: " + document.error().Text());
  }
  const auto operation = ChooseOperation(*document, parts.operation_name);
  if (!operation) return RefusedGraphql(operation.error());
  auto call = ResolveOperation(*document, **operation, parts.variables);
  if (!call) return RefusedGraphql("the GraphQL document cannot be judged: " + call.error());
  for (GraphqlRootField& field : call->fields) field.as_written = nullptr;
  const bool has_mutation = std::ranges::any_of(
      document->operations, [](const auto& one) { return one.type == Asked::kMutation; });
  return ChosenCall{std::move(*call), has_mutation};
}

GraphqlCalls GraphqlBatchOf(const Json& batch, const PersistedDocuments& persisted) {
  if (batch.items.empty() || batch.items.size() > limits::kGraphqlBatchMax) {
    return RefusedGraphql("a batch has 1 to " + std::to_string(limits::kGraphqlBatchMax) +
                          " requests");
  }
  std::vector<GraphqlCall> calls;
  for (const Json& item : batch.items) {
    auto parts = GraphqlPartsOf(item);
    if (!parts) return std::unexpected(std::move(parts.error()));
    auto read = GraphqlCallOf(std::move(*parts), persisted);
    if (!read) return std::unexpected(std::move(read.error()));
    if (read->call.type != Asked::kQuery) {
      return RefusedGraphql("a batch must not hold a " + std::string(NameOf(read->call.type)) +
                            ": send it alone");
    }
    calls.push_back(std::move(read->call));
  }
  return calls;
}

using GraphqlParameters = std::vector<std::pair<std::string_view, std::string>>;

std::expected<GraphqlParameters, GraphqlRefusal> GraphqlParametersIn(std::string_view query) {
  GraphqlParameters known;
  for (auto& [name, value] : ParsePairs(query)) {
    if (const auto meant = NameMeant(NameIn::kForm, name); !meant.empty()) {
      return RefusedGraphql(TwoReadings(name, meant));
    }
    const auto* const found = std::ranges::find(kGraphqlNames, name);
    if (found == kGraphqlNames.end()) continue;
    if (std::ranges::find(known, *found, &GraphqlParameters::value_type::first) != known.end()) {
      return RefusedGraphql("the parameter " + name + " is there twice");
    }
    known.emplace_back(*found, std::move(value));
  }
  return known;
}

// The parameters of a target that a server may read a request from.
std::expected<GraphqlParameters, GraphqlRefusal> GraphqlParametersOf(std::string_view query) {
  if (query.starts_with('?')) query.remove_prefix(1);
  auto known = GraphqlParametersIn(query);
  if (!known || query.find(';') == std::string_view::npos) return known;
  std::string split(query);
  std::ranges::replace(split, ';', '&');
  if (auto other = GraphqlParametersIn(split); !other || *other != *known) {
    return RefusedGraphql("some servers split the target at ';' too: write it as %3B");
  }
  return known;
}

// Whether whatever reads as a charset in a content type in lower case is UTF-8. Some decode UTF-7,
// in which plain letters are quotes and braces.
bool IsInUtf8(std::string_view type) {
  constexpr std::string_view kCharset = "charset";
  static constexpr std::array<std::string_view, 4> kUtf8{"=utf-8", "=utf8", "=\"utf-8\"",
                                                         "=\"utf8\""};
  for (auto at = type.find(kCharset); at != type.npos; at = type.find(kCharset, at + 1)) {
    std::string_view said = type.substr(at + kCharset.size());
    said = TrimBlanks(said.substr(0, said.find(';')));
    if (std::ranges::find(kUtf8, said) == kUtf8.end()) return false;
  }
  return true;
}

// nullopt: JSON; else the reason, or empty for application/graphql.
std::expected<bool, GraphqlRefusal> IsBareDocument(const Headers& headers) {
  const std::string* type = nullptr;
  for (const auto& [name, value] : headers) {
    if (EqualsIgnoreCase(name, "Content-Encoding") && !EqualsIgnoreCase(value, "identity")) {
      return RefusedType("a GraphQL request is sent without Content-Encoding");
    }
    if (!EqualsIgnoreCase(name, "Content-Type")) continue;
    if (type != nullptr) return RefusedType("two Content-Type fields have two readings");
    type = &value;
  }
  const std::string text = type == nullptr ? std::string() : ToLower(*type);
  const auto semicolon = std::min(text.find(';'), text.size());
  const std::string_view media = TrimBlanks(std::string_view(text).substr(0, semicolon));
  if (media != "application/json" && media != "application/graphql") {
    return RefusedType("a GraphQL request is application/json or application/graphql");
  }
  if (!IsInUtf8(text)) return RefusedType("a GraphQL request is in UTF-8");
  return media == "application/graphql";
}

}  // namespace

GraphqlCalls ReadGraphqlPost(const Headers& headers, std::string_view query, std::string_view body,
                             const PersistedDocuments& persisted) {
  const auto parameters = GraphqlParametersOf(query);
  if (!parameters) return std::unexpected(parameters.error());
  if (!parameters->empty()) {
    return RefusedGraphql("the parameter " + std::string(parameters->front().first) +
                          " of the target may stand in for the body's: leave it out");
  }
  const auto is_bare = IsBareDocument(headers);
  if (!is_bare) return std::unexpected(is_bare.error());
  std::expected<GraphqlParts, GraphqlRefusal> parts;
  if (*is_bare) {
    parts->document = body;
    parts->has_document = true;
  } else {
    const auto json = ParseJson(body);
    if (!json)
      return RefusedGraphql("the body cannot be read: " + std::string(json.error().detail()));
    if (json->kind == Json::Kind::kArray) return GraphqlBatchOf(*json, persisted);
    parts = GraphqlPartsOf(*json);
    if (!parts) return std::unexpected(std::move(parts.error()));
  }
  auto read = GraphqlCallOf(std::move(*parts), persisted);
  if (!read) return std::unexpected(std::move(read.error()));
  std::vector<GraphqlCall> calls;
  calls.push_back(std::move(read->call));
  return calls;
}

GraphqlCalls ReadGraphqlGet(std::string_view query, const PersistedDocuments& persisted) {
  const auto parameters = GraphqlParametersOf(query);
  if (!parameters) return std::unexpected(parameters.error());
  Json message;
  message.kind = Json::Kind::kObject;
  bool names_document = false;
  for (const auto& [name, text] : *parameters) {
    Json value;
    value.kind = Json::Kind::kString;
    value.text = text;
    if (name == "variables" || name == "extensions") {
      auto json = ParseJson(text.empty() ? "null" : std::string_view(text));
      if (!json) return RefusedGraphql("the parameter " + std::string(name) + " is no JSON");
      value = std::move(*json);
    }
    names_document = names_document || (name != "variables" && name != "operationName");
    message.members.emplace_back(std::string(name), std::move(value));
  }
  if (!names_document) return std::vector<GraphqlCall>();
  auto parts = GraphqlPartsOf(message);
  if (!parts) return std::unexpected(std::move(parts.error()));
  auto read = GraphqlCallOf(std::move(*parts), persisted);
  if (!read) return std::unexpected(std::move(read.error()));
  const bool is_refused = read->call.type == Asked::kMutation ||
                          (read->call.type == Asked::kSubscription && read->has_mutation);
  if (is_refused) {
    return std::unexpected(GraphqlRefusal{ErrorCode::kMethodNotAllowed,
                                          "a GET asks for queries only: send a document with a "
                                          "mutation as POST"});
  }
  std::vector<GraphqlCall> calls;
  calls.push_back(std::move(read->call));
  return calls;
}

std::string WhyNoOwnDocument(std::string_view text, GraphqlOperation::Type type,
                             std::string& field) {
  const auto document = ParseGraphql(text);
  if (!document) return "the GraphQL document cannot be read: " + document.error().Text();
  if (document->operations.size() != 1) return "one operation is accepted here";
  const GraphqlOperation& operation = document->operations.front();
  const std::string wanted(NameOf(type));
  if (operation.type != type) {
    return "the document is a " + std::string(NameOf(operation.type)) + "; a " + wanted +
           " is accepted here";
  }
  const GraphqlSelection& first = operation.selections.front();
  if (operation.selections.size() != 1 || first.kind != GraphqlSelection::Kind::kField) {
    return "a " + wanted + " of one field is accepted here";
  }
  if (!first.alias.empty()) return "write its field without an alias";
  field = first.name;
  return {};
}

std::optional<GraphqlShape> ShapeOfOwnDocument(std::string_view text) {
  const auto document = ParseGraphql(text);
  if (!document || document->operations.size() != 1) return std::nullopt;
  GraphqlOperation operation = document->operations.front();
  operation.type = Asked::kMutation;  // of which the fields are looked at
  Json none;
  none.kind = Json::Kind::kObject;
  auto call = ResolveOperation(*document, operation, none);
  if (!call || call->fields.size() != 1) return std::nullopt;
  return std::move(call->fields.front().shape);
}

}  // namespace recourse
