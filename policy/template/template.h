// Selectors, conditions and request templates of the policy language. Everything is parsed and
// checked when the policy is loaded; rendering is a pure function over one call and its answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "policy/template/snapshot.h"
#include "proxy/base/error.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"

namespace recourse {

// One place in a call or its answer: body#/a/b, path.id, query.q, header.X-Name, key, external_ref,
// answer.body#/id, answer.header.Location, answer.status; or in what was kept of the state before
// it: before.body#/a, before.header.ETag. `request.` may be written before the first four.
struct Selector {
  enum class Source : std::uint8_t {
    kBody,
    kPath,
    kQuery,
    kHeader,
    kKey,
    kExternalRef,
    kAnswerBody,
    kAnswerHeader,
    kAnswerStatus,
    kBeforeBody,
    kBeforeHeader
  };
  Source source = Source::kBody;
  std::string name;  // JSON pointer, capture, query or field name
  std::string text;  // as written in the policy
};
// Fails with a static reason that says what is accepted.
Result<Selector> ParseSelector(std::string_view text);
// Whether it is a place of the call itself: in its body, header, query or path.
bool IsOfCall(const Selector& place);

// "answer.body#/ok == true", "body#/amount > 1000", "answer.body#/id" (exists). Operators:
// == != < <= > >=. Numbers compare exactly as decimals; so does the text of a path, a query, a
// field or a form that is a plain one: with an exponent it has two readings.
struct Condition {
  enum class Op : std::uint8_t {
    kExists,
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual
  };
  Selector left;
  Op op = Op::kExists;
  Json right;
  std::string text;
};
Result<Condition> ParseCondition(std::string_view text);
// Why no call and no answer can ever have a value to which it can be compared; empty: some can.
std::string_view WhyNeverEvaluated(const Condition& condition);

// Statuses such as [2xx, 404].
class StatusSet {
 public:
  bool Contains(int status) const;
  bool empty() const { return ranges_.empty(); }
  void Add(int first, int last) { ranges_.emplace_back(first, last); }
  std::string ToString() const;  // "200-299, 404"

 private:
  std::vector<std::pair<int, int>> ranges_;
};
Result<StatusSet> ParseStatuses(const std::vector<std::string>& items);

// What selectors read from. Pointers may be null when that part does not exist (yet).
struct CallValues {
  const std::vector<std::pair<std::string, std::string>>* path = nullptr;   // decoded captures
  const std::vector<std::pair<std::string, std::string>>* query = nullptr;  // decoded pairs
  const Headers* headers = nullptr;
  const Json* body = nullptr;    // JSON bodies, and forms as an object of strings
  bool body_is_form = false;     // whose strings stand for numbers too
  bool body_is_partial = false;  // it has more than `body` shows
  std::string key;               // hex
  std::string external_ref;
  int answer_status = 0;
  const Headers* answer_headers = nullptr;
  const Json* answer_body = nullptr;
  const Snapshot* before = nullptr;
};
// The value at the selector, nullopt when absent. Headers, query and path give strings. A name that
// occurs twice in the query or the header gives nothing: it has two readings.
std::optional<Json> Select(const Selector& selector, const CallValues& values);
// nullopt: the condition cannot be evaluated (the left side is absent or of another type).
std::optional<bool> Evaluate(const Condition& condition, const CallValues& values);

// "GET /orders?client_ref={key}" with optional headers and JSON body: a placeholder stands
// for one whole path segment or part of one, one query value, one header value or one JSON node.
// Scheme, host, port, method and names are fixed text.
class RequestTemplate {
 public:
  // What "{answer.body#/amount as number}" insists on; kAny: whatever fits its place.
  enum class Type : std::uint8_t { kAny, kNumber, kText, kBool };
  struct Piece {  // literal text or a placeholder
    std::string literal;
    std::optional<Selector> selector;
    Type type = Type::kAny;
  };
  using Text = std::vector<Piece>;
  struct Node {  // JSON body as a tree; a string that is one placeholder takes the value's type
    Json::Kind kind = Json::Kind::kNull;
    Json scalar;
    Text text;
    std::vector<Node> items;
    std::vector<std::pair<std::string, Node>> members;
  };

  std::string method;
  std::vector<Text> path;  // one entry per segment
  // For a server that takes %2F for a part of its segment: a value with '/' goes in so.
  bool keeps_escaped_slash = false;
  std::vector<std::pair<std::string, Text>> query;
  std::vector<std::pair<std::string, Text>> headers;
  std::optional<Node> json;
  // Fields of an application/x-www-form-urlencoded body; never together with `json`.
  std::vector<std::pair<std::string, Text>> form;
  std::string source;  // as written
  // The tool of an MCP server, or the field of a GraphQL server, that it calls; empty: neither.
  std::string calls;
};
// `line` is "METHOD /path?query". Fails with a static reason.
Result<RequestTemplate> ParseRequestLine(std::string_view line);
Result<RequestTemplate::Text> ParseTemplateText(std::string_view text);

// A request ready to be sent, kept in the ledger so that later policy edits cannot change it.
struct RenderedRequest {
  std::string method;
  std::string target;
  Headers headers;
  std::string body;
};
// Fails with a static reason when a value is missing, empty, not of the type that its placeholder
// names, not scalar where text is needed, carries control characters, is "." or "..", or the result
// exceeds limits.h. Only what was kept of a state may be null, where it is a JSON node. Path
// segments and query values are percent-encoded, so a value can never change the path it stands in.
Result<RenderedRequest> Render(const RequestTemplate& request, const CallValues& values);

// Appends `value` as JSON without spaces, members in their order. False: it became larger than a
// rendered request may be.
bool AppendJson(std::string& out, const Json& value);

// Which selectors a template or a condition reads (for static checks).
std::vector<Selector> SelectorsOf(const RequestTemplate& request);

}  // namespace recourse
