#include "proxy/base/json/error_member.h"

#include <string>

namespace recourse {
namespace {

struct SdkError {
  std::string_view type;
  std::string_view code;
  std::string_view message;
};

namespace error_members {

constexpr std::string_view kTypeSchema =
    R"({"type": "string", "enum": ["api_error", "authentication_error", "invalid_request_error", )"
    R"("permission_error", "rate_limit_error"]})";
constexpr JsonMember<SdkError> kError[] = {
    member::Word<&SdkError::type>("type", kTypeSchema),
    member::Word<&SdkError::code>("code", R"({"type": "string", "pattern": "^http-[0-9]{3}$"})"),
    member::Text<&SdkError::message>("message"),
};

constexpr std::size_t kStatus = 2;  // of kProblem
constexpr JsonMember<BlankProblem> kProblem[] = {
    member::Text<[](const BlankProblem&) -> std::string_view { return "about:blank"; }>("type"),
    member::Text<&BlankProblem::title>("title"),
    member::Number<&BlankProblem::status>("status"),
    member::Text<&BlankProblem::detail>("detail", "What happened, and what to do next"),
    member::Own({"error", "SdkError"},
                [](JsonObject& json, std::string_view /*as*/, const BlankProblem& of) {
                  AddError(json, ErrorTypeOf(of.status), "http-" + std::to_string(of.status),
                           std::string(of.title).append(": ").append(of.detail));
                }),
};

}  // namespace error_members
}  // namespace

std::string_view ErrorTypeOf(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    // The request may be as it should be: another call, or the state of things, is in its way.
    case 409:
      return "api_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

void AddError(JsonObject& problem, std::string_view type, std::string_view code,
              std::string_view message) {
  JsonObject error(problem.Value("error"));
  WriteMembers(error, error_members::kError, SdkError{type, code, message});
}

void AddBlankProblem(JsonObject& json, const BlankProblem& problem) {
  WriteMembers(json, error_members::kProblem, problem);
}

std::vector<MemberDoc> BlankProblemDocs(std::string_view status_schema) {
  std::vector<MemberDoc> docs = DocsOf(error_members::kProblem);
  docs[error_members::kStatus].schema = status_schema;
  return docs;
}

std::vector<JsonShape> ProblemShapes() {
  return {
      {"Problem", "RFC 9457.",
       BlankProblemDocs(R"({"type": "integer", "minimum": 400, "maximum": 599})")},
      {"SdkError", "The same again, where SDKs look.", DocsOf(error_members::kError)},
  };
}

}  // namespace recourse
