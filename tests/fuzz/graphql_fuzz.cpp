// A GraphQL document is read one way or refused with a place, and blanks between its tokens change
// nothing. Input: variables as JSON on a line, then the document.
#include <algorithm>
#include <string>

#include "policy/graphql/request.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {
namespace {

std::string SaidOf(const std::expected<GraphqlCall, std::string>& call) {
  if (!call) return "refused: " + call.error();
  std::string said(NameOf(call->type));
  for (const GraphqlRootField& field : call->fields) {
    said += '\n' + field.shape.key + '=' + field.name + CanonicalJson(field.arguments) +
            field.selection;
    RC_CHECK(Selects(field.shape, ""));
  }
  return said;
}

// The same tokens, as far apart as they may be.
std::string Spaced(std::string_view text) {
  GraphqlLexer lexer(text);
  std::string spaced;
  for (;;) {
    const auto token = lexer.Next();
    RC_CHECK(token.has_value());
    if (token->kind == GraphqlToken::Kind::kEnd) return spaced;
    RC_CHECK(token->at + token->size <= text.size());
    spaced.append(text.substr(token->at, token->size)).append(" ,#{\n");
  }
}

}  // namespace

void FuzzOne(std::string_view bytes) {
  const auto end = std::min(bytes.find('\n'), bytes.size());
  const auto variables = ParseJson(bytes.substr(0, end));
  const std::string_view text = bytes.substr(std::min(end + 1, bytes.size()));
  Headers headers{{"Content-Type", "application/json"}};
  (void)ReadGraphqlPost(headers, "", bytes, {});
  (void)ReadGraphqlGet(bytes.substr(0, end), {});
  const auto document = ParseGraphql(text);
  if (!document) {
    RC_CHECK(!document.error().what.empty() && document.error().line > 0);
    return;
  }
  const auto again = ParseGraphql(Spaced(text));
  RC_CHECK(again && again->operations.size() == document->operations.size());
  const Json given = variables ? *variables : Json();
  for (std::size_t i = 0; i < document->operations.size(); ++i) {
    RC_CHECK(SaidOf(ResolveOperation(*document, document->operations[i], given)) ==
             SaidOf(ResolveOperation(*again, again->operations[i], given)));
  }
}

}  // namespace recourse
