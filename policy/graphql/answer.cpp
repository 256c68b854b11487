#include "policy/graphql/answer.h"

#include <algorithm>

#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

constexpr std::size_t kErrorTextBytesMax = 512;

const Json* FirstError(const Json* body) {
  const Json* const errors = IsObject(body) ? body->Find("errors") : nullptr;
  if (!IsArray(errors) || errors->items.empty()) return nullptr;
  return &errors->items.front();
}

}  // namespace

GraphqlSays ReadGraphqlAnswer(const Json* body) {
  if (!IsObject(body)) return GraphqlSays::kNothing;
  const Json* const data = body->Find("data");
  const bool has_value =
      IsObject(data) && std::ranges::any_of(data->members, [](const Json::Member& member) {
        return member.first != "__typename" && member.second.kind != Json::Kind::kNull;
      });
  if (FirstError(body) != nullptr) return has_value ? GraphqlSays::kBoth : GraphqlSays::kErrors;
  return has_value ? GraphqlSays::kData : GraphqlSays::kNothing;
}

std::string GraphqlErrorText(const Json* body) {
  const Json* const error = FirstError(body);
  std::string text(error == nullptr ? std::string_view() : TextOf(*error, "message"));
  if (text.size() > kErrorTextBytesMax) text.resize(kErrorTextBytesMax);
  return text;
}

std::string GraphqlOfLostAnswer(std::string_view external_ref, std::string_view settled_by) {
  std::string message = "This mutation was executed, and its answer was lost: do not send it again";
  if (!external_ref.empty()) message.append(". What it made is ").append(external_ref);
  return ObjectText([&](JsonObject& json) {
    json.Raw("data", "null");
    std::string& errors = json.Value("errors");
    errors += '[';
    {
      JsonObject error(errors);
      error.Text("message", message);
      JsonObject extensions(error.Value("extensions"));
      extensions.Text("outcome", "executed");
      extensions.TextIfAny("external_ref", external_ref);
      extensions.Text("settled_by", settled_by);
    }
    errors += ']';
  });
}

}  // namespace recourse
