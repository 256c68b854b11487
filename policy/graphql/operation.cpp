#include "policy/graphql/operation.h"

#include <algorithm>
#include <optional>

#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

using Literal = GraphqlValue::Kind;

constexpr std::string_view kTypename = "__typename";

bool MayBeLeftOut(const std::vector<GraphqlDirective>& directives) {
  return std::ranges::any_of(directives, [](const GraphqlDirective& directive) {
    return directive.name == "skip" || directive.name == "include";
  });
}

bool IsDeferred(const std::vector<GraphqlDirective>& directives) {
  return std::ranges::any_of(directives, [](const GraphqlDirective& directive) {
    return directive.name == "defer" || directive.name == "stream";
  });
}

Json EmptyJson(Json::Kind kind) {
  Json json;
  json.kind = kind;
  return json;
}

class OperationResolver {
 public:
  OperationResolver(const GraphqlDocument& document, const GraphqlOperation& operation,
                    const Json& variables)
      : document_(document), operation_(operation), variables_(variables) {}

  std::expected<GraphqlCall, std::string> Resolve() {
    GraphqlCall call{operation_.type, operation_.name, {}};
    if (operation_.type != GraphqlOperation::Type::kMutation) return call;
    if (!AddRootFields(operation_.selections, call.fields)) return std::unexpected(why_);
    return call;
  }

 private:
  bool Refuse(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }

  // One more selection, of however many fragments make.
  bool Count() {
    if (++expanded_ <= limits::kGraphqlExpandedMax) return true;
    return Refuse("its fragments make more than " + std::to_string(limits::kGraphqlExpandedMax) +
                  " fields");
  }

  const GraphqlFragment* Enter(const std::string& name) {
    const GraphqlFragment* const fragment = document_.Fragment(name);
    if (fragment == nullptr) {
      Refuse("no fragment is called " + name);
    } else if (std::ranges::find(inside_, fragment) != inside_.end()) {
      Refuse("the fragment " + name + " uses itself");
      return nullptr;
    } else {
      inside_.push_back(fragment);
    }
    return fragment;
  }

  bool AddRootFields(const std::vector<GraphqlSelection>& selections,
                     std::vector<GraphqlRootField>& fields) {
    for (const GraphqlSelection& selection : selections) {
      if (!Count()) return false;
      if (MayBeLeftOut(selection.directives) || IsDeferred(selection.directives)) {
        return Refuse(
            "a directive may leave out or defer a field of the mutation: write it without "
            "@skip, @include, @defer and @stream");
      }
      if (selection.kind == GraphqlSelection::Kind::kField) {
        if (!AddRootField(selection, fields)) return false;
        continue;
      }
      const bool is_spread = selection.kind == GraphqlSelection::Kind::kSpread;
      const GraphqlFragment* const fragment = is_spread ? Enter(selection.name) : nullptr;
      if (is_spread && fragment == nullptr) return false;
      if (is_spread && (MayBeLeftOut(fragment->directives) || IsDeferred(fragment->directives))) {
        return Refuse("the fragment " + selection.name + " may be left out");
      }
      const auto& inner = is_spread ? fragment->selections : selection.selections;
      if (!AddRootFields(inner, fields)) return false;
      if (is_spread) inside_.pop_back();
    }
    return true;
  }

  bool AddRootField(const GraphqlSelection& written, std::vector<GraphqlRootField>& fields) {
    if (written.name == kTypename && written.alias.empty()) return true;
    GraphqlRootField field;
    field.name = written.name;
    field.shape.key = written.ResponseKey();
    field.head = written.head;
    field.name_span = written.name_span;
    field.as_written = &written;
    for (const GraphqlRootField& other : fields) {
      if (other.shape.key == field.shape.key) {
        return Refuse("two fields of the mutation are called " + field.shape.key +
                      " in the answer: send each alone");
      }
    }
    if (!Arguments(written.arguments, field.arguments)) return false;
    if (!AddDirectives(written.directives, field.selection)) return false;
    if (!AddSelections(written.selections, field.shape.members, field.selection, true)) {
      return false;
    }
    fields.push_back(std::move(field));
    return true;
  }

  bool AddSelections(const std::vector<GraphqlSelection>& selections,
                     std::vector<GraphqlShape>& shape, std::string& text, bool is_sure) {
    if (selections.empty()) return true;
    text += '{';
    for (const GraphqlSelection& selection : selections) {
      if (!Count()) return false;
      if (IsDeferred(selection.directives)) {
        return Refuse("the answer to a mutation comes whole: leave out @defer and @stream");
      }
      const bool is_there = is_sure && !MayBeLeftOut(selection.directives);
      const bool is_good = selection.kind == GraphqlSelection::Kind::kField
                               ? AddField(selection, shape, text, is_there)
                               : AddFragment(selection, shape, text, is_there);
      if (!is_good) return false;
    }
    text += '}';
    return true;
  }

  bool AddField(const GraphqlSelection& field, std::vector<GraphqlShape>& shape, std::string& text,
                bool is_there) {
    if (!field.alias.empty()) text.append(field.alias).append(":");
    text += field.name;
    if (!AddArguments(field.arguments, text) || !AddDirectives(field.directives, text)) {
      return false;
    }
    GraphqlShape inner{field.ResponseKey(), {}};
    if (!AddSelections(field.selections, inner.members, text, is_there)) return false;
    text += ' ';
    if (is_there) shape.push_back(std::move(inner));
    return true;
  }

  bool AddFragment(const GraphqlSelection& spread, std::vector<GraphqlShape>& shape,
                   std::string& text, bool is_there) {
    const bool is_named = spread.kind == GraphqlSelection::Kind::kSpread;
    const GraphqlFragment* const fragment = is_named ? Enter(spread.name) : nullptr;
    if (is_named && fragment == nullptr) return false;
    const std::string& type = is_named ? fragment->type : spread.type;
    text += "...";
    if (!type.empty()) text.append("on ").append(type);
    if (!AddDirectives(spread.directives, text)) return false;
    if (is_named && !AddDirectives(fragment->directives, text)) return false;
    const bool is_sure = is_there && !(is_named && MayBeLeftOut(fragment->directives));
    const auto& inner = is_named ? fragment->selections : spread.selections;
    if (!AddSelections(inner, shape, text, is_sure)) return false;
    if (is_named) inside_.pop_back();
    return true;
  }

  bool AddArguments(const GraphqlArguments& arguments, std::string& text) {
    if (arguments.empty()) return true;
    Json values;
    if (!Arguments(arguments, values)) return false;
    text.append("(").append(CanonicalJson(values)).append(")");
    return true;
  }

  bool AddDirectives(const std::vector<GraphqlDirective>& directives, std::string& text) {
    return std::ranges::all_of(directives, [&](const GraphqlDirective& directive) {
      text.append("@").append(directive.name);
      return AddArguments(directive.arguments, text);
    });
  }

  bool Arguments(const GraphqlArguments& arguments, Json& out) {
    out = EmptyJson(Json::Kind::kObject);
    return Members(arguments, out);
  }

  bool Members(const GraphqlArguments& fields, Json& out) {
    for (const auto& [name, value] : fields) {
      std::optional<Json> json;
      if (!ToJson(value, json)) return false;
      if (json) out.members.emplace_back(name, std::move(*json));
    }
    return true;
  }

  // An absent `out` is a variable without a value. What the text of a variable is, the schema says:
  // members of an enumeration are texts in variables.
  bool ToJson(const GraphqlValue& value, std::optional<Json>& out) {
    switch (value.kind) {
      case Literal::kVariable:
        return Variable(value.text, out);
      case Literal::kInt:
      case Literal::kFloat: {
        auto number = ParseJson(value.text);
        if (!number) return Refuse("the number " + value.text.substr(0, 80) + " is out of range");
        out = std::move(*number);
        return true;
      }
      case Literal::kString:
      case Literal::kEnum:
        out = EmptyJson(Json::Kind::kString);
        out->text = value.text;
        return true;
      case Literal::kBoolean:
        out = EmptyJson(value.text == "true" ? Json::Kind::kTrue : Json::Kind::kFalse);
        return true;
      case Literal::kNull:
        out = EmptyJson(Json::Kind::kNull);
        return true;
      case Literal::kList:
        out = EmptyJson(Json::Kind::kArray);
        return std::ranges::all_of(value.items, [&](const GraphqlValue& item) {
          std::optional<Json> json;
          if (!ToJson(item, json)) return false;
          out->items.push_back(json ? std::move(*json) : Json());
          return true;
        });
      case Literal::kObject:
        out = EmptyJson(Json::Kind::kObject);
        return Members(value.fields, *out);
    }
    return false;
  }

  bool Variable(const std::string& name, std::optional<Json>& out) {
    const auto declared = std::ranges::find(operation_.variables, name, &GraphqlVariable::name);
    if (declared == operation_.variables.end()) {
      return Refuse("the variable $" + name + " is not declared");
    }
    if (const Json* const given = variables_.Find(name)) {
      copied_ += SizeOf(*given);
      if (copied_ > limits::kGraphqlExpandedMax) {
        return Refuse("its variables are used too often, or have too many values");
      }
      out = *given;
      return true;
    }
    return !declared->standard || ToJson(*declared->standard, out);
  }

  static int SizeOf(const Json& json) {
    int size = 1;
    for (const Json& item : json.items) size += SizeOf(item);
    for (const Json::Member& member : json.members) size += SizeOf(member.second);
    return size;
  }

  const GraphqlDocument& document_;
  const GraphqlOperation& operation_;
  const Json& variables_;
  std::vector<const GraphqlFragment*> inside_;
  int expanded_ = 0;
  int copied_ = 0;
  std::string why_;
};

bool IsListIndex(std::string_view step) {
  return !step.empty() && step.find_first_not_of("0123456789") == std::string_view::npos;
}

// Where keys are merged, one of them has it.
bool SelectsBelow(const std::vector<GraphqlShape>& members, std::string_view pointer) {
  if (pointer.empty() || members.empty()) return true;  // what a leaf holds, nobody can tell
  const auto end = std::min(pointer.find('/', 1), pointer.size());
  const std::string step = MemberName(pointer.substr(1, end - 1));
  pointer.remove_prefix(end);
  if (IsListIndex(step)) return SelectsBelow(members, pointer);
  return std::ranges::any_of(members, [&](const GraphqlShape& member) {
    return member.key == step && SelectsBelow(member.members, pointer);
  });
}

}  // namespace

std::expected<const GraphqlOperation*, std::string> ChooseOperation(const GraphqlDocument& document,
                                                                    std::string_view name) {
  if (name.empty()) {
    if (document.operations.size() == 1) return &document.operations.front();
    return std::unexpected("the document has several operations, and operationName names none");
  }
  const auto found = std::ranges::find(document.operations, name, &GraphqlOperation::name);
  if (found == document.operations.end()) {
    return std::unexpected("operationName names none of the document's operations");
  }
  return &*found;
}

std::expected<GraphqlCall, std::string> ResolveOperation(const GraphqlDocument& document,
                                                         const GraphqlOperation& operation,
                                                         const Json& variables) {
  return OperationResolver(document, operation, variables).Resolve();
}

bool Selects(const GraphqlShape& shape, std::string_view pointer) {
  return SelectsBelow(shape.members, pointer);
}

}  // namespace recourse
