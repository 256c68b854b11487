#include "policy/graphql/document.h"

#include <algorithm>

#include "proxy/base/json/json.h"

namespace recourse {
namespace {

using Token = GraphqlToken::Kind;

template <typename Node>
using ParsedGraphql = std::expected<Node, GraphqlFault>;

// Characters that no document may have (2.1.1), also not in texts and comments.
bool IsGraphqlControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 && c != '\t' && c != '\n' && c != '\r';
}

bool HasNamed(const auto& named, std::string_view name) {
  return std::ranges::any_of(named, [name](const auto& one) { return one.first == name; });
}

class GraphqlParser {
 public:
  explicit GraphqlParser(std::string_view text) : lexer_(text) {}

  ParsedGraphql<GraphqlDocument> Document() {
    if (!Advance()) return Fault();
    GraphqlDocument document;
    do {
      const bool is_good = token_.IsName("fragment") ? Fragment(document) : Operation(document);
      if (!is_good) return Fault();
    } while (token_.kind != Token::kEnd);
    if (document.operations.empty()) {
      Refuse("a document has at least one operation");
      return Fault();
    }
    return document;
  }

 private:
  std::unexpected<GraphqlFault> Fault() { return std::unexpected(std::move(fault_)); }
  bool Refuse(std::string what) { return RefuseAt(token_.at, std::move(what)); }
  bool RefuseAt(std::size_t at, std::string what) {
    fault_ = lexer_.FaultAt(at, std::move(what));
    return false;
  }

  bool Advance() {
    end_ = token_.at + token_.size;
    auto next = lexer_.Next();
    if (!next) {
      fault_ = std::move(next.error());
      return false;
    }
    token_ = std::move(*next);
    if (++tokens_ <= limits::kGraphqlTokensMax) return true;
    return Refuse("a document may have at most " + std::to_string(limits::kGraphqlTokensMax) +
                  " tokens");
  }

  // Of things that must have names of their own.
  bool HasRoomFor(std::size_t size) {
    if (size < limits::kGraphqlNamesMax) return true;
    return Refuse("there may be at most " + std::to_string(limits::kGraphqlNamesMax) + " of these");
  }

  bool Expect(std::string_view punctuator) {
    if (token_.Is(punctuator)) return Advance();
    return Refuse("expected " + std::string(punctuator));
  }

  bool Name(std::string& out) {
    if (token_.kind != Token::kName) return Refuse("expected a name");
    out = std::move(token_.text);
    return Advance();
  }

  // One level deeper while it lives.
  class Level {
   public:
    explicit Level(int& depth) : depth_(++depth) {}
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& depth_;
  };
  bool IsTooDeep() {
    if (depth_ <= limits::kGraphqlDepthMax) return false;
    Refuse("a document may be at most " + std::to_string(limits::kGraphqlDepthMax) +
           " levels deep");
    return true;
  }

  bool Operation(GraphqlDocument& document) {
    using OperationType = GraphqlOperation::Type;
    GraphqlOperation operation;
    const std::size_t at = token_.at;
    if (!token_.Is("{")) {
      if (token_.IsName("mutation")) {
        operation.type = OperationType::kMutation;
      } else if (token_.IsName("subscription")) {
        operation.type = OperationType::kSubscription;
      } else if (!token_.IsName("query")) {
        return Refuse("expected query, mutation, subscription, fragment or {");
      }
      if (!Advance()) return false;
      if (token_.kind == Token::kName && !Name(operation.name)) return false;
      if (token_.Is("(") && !Variables(operation.variables)) return false;
      if (!Directives(operation.directives, /*is_constant=*/false)) return false;
    }
    if (!SelectionSet(operation.selections)) return false;
    auto& others = document.operations;
    if (!HasRoomFor(others.size())) return false;
    const bool is_lone = operation.name.empty() || (!others.empty() && others.front().name.empty());
    if (is_lone && !others.empty()) {
      return RefuseAt(at, "an operation without a name stands alone in its document");
    }
    if (std::ranges::find(others, operation.name, &GraphqlOperation::name) != others.end()) {
      return RefuseAt(at, "two operations are called " + operation.name);
    }
    others.push_back(std::move(operation));
    return true;
  }

  bool Fragment(GraphqlDocument& document) {
    GraphqlFragment fragment;
    if (!Advance()) return false;
    const std::size_t at = token_.at;
    if (token_.IsName("on")) return Refuse("a fragment is not called on");
    if (!Name(fragment.name)) return false;
    if (!token_.IsName("on")) return Refuse("expected on, and a type");
    if (!Advance() || !Name(fragment.type)) return false;
    if (!Directives(fragment.directives, /*is_constant=*/false)) return false;
    if (!SelectionSet(fragment.selections)) return false;
    if (!HasRoomFor(document.fragments.size())) return false;
    if (document.Fragment(fragment.name) != nullptr) {
      return RefuseAt(at, "two fragments are called " + fragment.name);
    }
    document.fragments.push_back(std::move(fragment));
    return true;
  }

  bool Variables(std::vector<GraphqlVariable>& variables) {
    if (!Advance()) return false;
    do {
      GraphqlVariable variable;
      const std::size_t at = token_.at;
      if (!Expect("$") || !Name(variable.name) || !Expect(":") || !Type(variable.type)) {
        return false;
      }
      if (token_.Is("=")) {
        if (!Advance()) return false;
        auto value = Value(/*is_constant=*/true);
        if (!value) return false;
        variable.standard = std::move(*value);
      }
      std::vector<GraphqlDirective> directives;
      if (!Directives(directives, /*is_constant=*/true)) return false;
      if (!HasRoomFor(variables.size())) return false;
      if (std::ranges::find(variables, variable.name, &GraphqlVariable::name) != variables.end()) {
        return RefuseAt(at, "the variable $" + variable.name + " is there twice");
      }
      variables.push_back(std::move(variable));
    } while (!token_.Is(")"));
    return Advance();
  }

  bool Type(std::string& out) {
    const Level level(depth_);
    if (IsTooDeep()) return false;
    if (token_.Is("[")) {
      out += '[';
      if (!Advance() || !Type(out) || !Expect("]")) return false;
      out += ']';
    } else {
      std::string name;
      if (!Name(name)) return false;
      out += name;
    }
    if (!token_.Is("!")) return true;
    out += '!';
    return Advance();
  }

  bool Directives(std::vector<GraphqlDirective>& directives, bool is_constant) {
    while (token_.Is("@")) {
      GraphqlDirective directive;
      directive.span.at = token_.at;
      if (!Advance() || !Name(directive.name)) return false;
      if (token_.Is("(") && !Arguments(directive.arguments, is_constant)) return false;
      directive.span.size = end_ - directive.span.at;
      directives.push_back(std::move(directive));
    }
    return true;
  }

  bool Arguments(GraphqlArguments& arguments, bool is_constant) {
    if (!Advance()) return false;
    do {
      std::string name;
      const std::size_t at = token_.at;
      if (!Name(name) || !Expect(":")) return false;
      auto value = Value(is_constant);
      if (!value) return false;
      if (!HasRoomFor(arguments.size())) return false;
      if (HasNamed(arguments, name))
        return RefuseAt(at, "the argument " + name + " is there twice");
      arguments.emplace_back(std::move(name), std::move(*value));
    } while (!token_.Is(")"));
    return Advance();
  }

  bool SelectionSet(std::vector<GraphqlSelection>& selections) {
    const Level level(depth_);
    if (IsTooDeep() || !Expect("{")) return false;
    do {
      GraphqlSelection selection;
      if (!(token_.Is("...") ? Spread(selection) : Field(selection))) return false;
      selections.push_back(std::move(selection));
    } while (!token_.Is("}"));
    return Advance();
  }

  bool Field(GraphqlSelection& field) {
    field.head.at = field.name_span.at = token_.at;
    field.name_span.size = token_.size;
    if (!Name(field.name)) return false;
    if (token_.Is(":")) {
      if (!Advance()) return false;
      field.alias = std::move(field.name);
      field.name_span = {token_.at, token_.size};
      if (!Name(field.name)) return false;
    }
    if (token_.Is("(") && !Arguments(field.arguments, /*is_constant=*/false)) return false;
    field.head.size = end_ - field.head.at;
    if (!Directives(field.directives, /*is_constant=*/false)) return false;
    return !token_.Is("{") || SelectionSet(field.selections);
  }

  bool Spread(GraphqlSelection& spread) {
    if (!Advance()) return false;
    spread.kind = GraphqlSelection::Kind::kInline;
    if (token_.kind == Token::kName && !token_.IsName("on")) {
      spread.kind = GraphqlSelection::Kind::kSpread;
      return Name(spread.name) && Directives(spread.directives, /*is_constant=*/false);
    }
    if (token_.IsName("on") && (!Advance() || !Name(spread.type))) return false;
    return Directives(spread.directives, /*is_constant=*/false) && SelectionSet(spread.selections);
  }

  // nullopt: it was refused.
  std::optional<GraphqlValue> Value(bool is_constant) {
    const Level level(depth_);
    if (IsTooDeep()) return std::nullopt;
    GraphqlValue value;
    value.span.at = token_.at;
    if (!ReadValue(value, is_constant)) return std::nullopt;
    value.span.size = end_ - value.span.at;
    return value;
  }

  bool ReadValue(GraphqlValue& value, bool is_constant) {
    using V = GraphqlValue::Kind;
    if (token_.Is("[")) return ListItems(value, is_constant);
    if (token_.Is("{")) return ObjectFields(value, is_constant);
    if (token_.Is("$")) {
      if (is_constant) return Refuse("no variable may stand here");
      value.kind = V::kVariable;
      return Advance() && Name(value.text);
    }
    switch (token_.kind) {
      case Token::kInt:
        value.kind = V::kInt;
        break;
      case Token::kFloat:
        value.kind = V::kFloat;
        break;
      case Token::kString:
        value.kind = V::kString;
        break;
      case Token::kName: {
        const bool is_boolean = token_.text == "true" || token_.text == "false";
        value.kind = is_boolean ? V::kBoolean : token_.text == "null" ? V::kNull : V::kEnum;
        break;
      }
      default:
        return Refuse("expected a value");
    }
    value.text = std::move(token_.text);
    return Advance();
  }

  bool ListItems(GraphqlValue& value, bool is_constant) {
    value.kind = GraphqlValue::Kind::kList;
    if (!Advance()) return false;
    while (!token_.Is("]")) {
      auto item = Value(is_constant);
      if (!item) return false;
      value.items.push_back(std::move(*item));
    }
    return Advance();
  }

  bool ObjectFields(GraphqlValue& value, bool is_constant) {
    value.kind = GraphqlValue::Kind::kObject;
    if (!Advance()) return false;
    while (!token_.Is("}")) {
      std::string name;
      const std::size_t at = token_.at;
      if (!Name(name) || !Expect(":")) return false;
      auto field = Value(is_constant);
      if (!field) return false;
      if (!HasRoomFor(value.fields.size())) return false;
      if (HasNamed(value.fields, name))
        return RefuseAt(at, "the field " + name + " is there twice");
      value.fields.emplace_back(std::move(name), std::move(*field));
    }
    return Advance();
  }

  GraphqlLexer lexer_;
  GraphqlToken token_;
  std::size_t end_ = 0;  // of the token before it
  std::size_t tokens_ = 0;
  int depth_ = 0;
  GraphqlFault fault_;
};

}  // namespace

const GraphqlFragment* GraphqlDocument::Fragment(std::string_view name) const {
  const auto found = std::ranges::find(fragments, name, &GraphqlFragment::name);
  return found == fragments.end() ? nullptr : &*found;
}

std::string_view NameOf(GraphqlOperation::Type type) {
  switch (type) {
    case GraphqlOperation::Type::kQuery:
      return "query";
    case GraphqlOperation::Type::kMutation:
      return "mutation";
    case GraphqlOperation::Type::kSubscription:
      return "subscription";
  }
  return "query";
}

bool IsGraphqlName(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && is_letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::expected<GraphqlDocument, GraphqlFault> ParseGraphql(std::string_view document) {
  if (!IsUtf8(document)) return std::unexpected(GraphqlFault{"a document is UTF-8"});
  const auto bad = std::ranges::find_if(document, IsGraphqlControl);
  if (bad != document.end()) {
    return std::unexpected(GraphqlLexer(document).FaultAt(
        static_cast<std::size_t>(bad - document.begin()), "a control character stands here"));
  }
  return GraphqlParser(document).Document();
}

}  // namespace recourse
