// A request to a GraphQL server as HTTP carries it ("GraphQL over HTTP", and what servers take
// beside it). Pure.
#pragma once

#include <expected>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/graphql/operation.h"
#include "proxy/base/error.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

namespace limits {
inline constexpr std::size_t kGraphqlBatchMax = 64;
}  // namespace limits

// Documents by the hash or the id that clients send in their place.
using PersistedDocuments = std::map<std::string, std::string, std::less<>>;

struct GraphqlRefusal {
  ErrorCode code = ErrorCode::kMalformedRequest;  // or kUnsupportedMediaType, kMethodNotAllowed
  std::string detail;
};

// What a POST asks for: one operation, or a batch of queries. `query` is that of the target, with
// its '?' or empty. Refused: another type than application/json and application/graphql, an
// encoding, another charset than UTF-8; members or parameters that some reader takes for `query`,
// `operationName` and the like; the same in the target; a document that cannot be read or has
// several operations and names none of them; one that is named by a hash or an id that `persisted`
// lacks, or that is not its hash; a batch with anything but queries.
std::expected<std::vector<GraphqlCall>, GraphqlRefusal> ReadGraphqlPost(
    const Headers& headers, std::string_view query, std::string_view body,
    const PersistedDocuments& persisted);

// What a GET asks for; nothing: it has no document, as the page of a console. Refused beside that:
// a mutation, and a subscription whose document has one.
std::expected<std::vector<GraphqlCall>, GraphqlRefusal> ReadGraphqlGet(
    std::string_view query, const PersistedDocuments& persisted);

// Why `text` is no document that a request of ours can have: it is to be one operation, of `type`,
// with one field, which has no alias. Empty: it is one; `field` is the name of its field.
std::string WhyNoOwnDocument(std::string_view text, GraphqlOperation::Type type,
                             std::string& field);

// What such a document has answered; nullopt: a directive decides.
std::optional<GraphqlShape> ShapeOfOwnDocument(std::string_view text);

}  // namespace recourse
