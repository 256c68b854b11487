// What `import openapi` proposes from the neighbours of a call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/import/openapi.h"
#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::openapi_proposals_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The lines of that tool in the policy made of `paths`.
std::string ToolOf(const std::string& name, const std::string& paths) {
  auto api = ReadOpenApi({"api.yaml",
                          "openapi: 3.1.0\ninfo: { title: api, version: v }\n"
                          "servers: [ { url: \"https://api.example\" } ]\npaths:\n" +
                              paths});
  EXPECT_TRUE(api) << api.error();
  const auto policy = PolicyFromOpenApi("api.yaml", std::move(*api));
  EXPECT_TRUE(policy) << policy.error();
  const LoadedPolicy loaded = LoadPolicyText("p.yaml", *policy);
  EXPECT_TRUE(loaded.ok()) << *policy << ProblemsOf(loaded);
  const auto start = policy->find("  " + name + ":\n");
  EXPECT_NE(start, std::string::npos) << *policy;
  std::size_t end = start;
  do {
    end = policy->find("\n  ", end + 1);
  } while (end != std::string::npos && (*policy)[end + 3] == ' ');
  return policy->substr(start, end - start + 1);
}

std::string Body(const std::string& members, const std::string& media = "application/json") {
  return "requestBody: { content: { " + media + ": { schema: { properties: { " + members +
         " } } } } }";
}
std::string Answers(const std::string& members) {
  return "responses: { \"200\": { content: { application/json: { schema: { properties: { " +
         members + " } } } } } }";
}

TEST(OpenApiProposalsTest, AnUpdateIsPutBackWhereTheReadShowsAllOfIt) {
  const std::string tool =
      ToolOf("change", "  /notes/{note-id}:\n    patch: { operationId: change, " +
                           Body("title: {}, text: {}, id: { readOnly: true }") +
                           " }\n    get: { operationId: get, " +
                           Answers("id: {}, title: {}, text: {}") + " }\n");
  EXPECT_THAT(tool,
              HasSubstr("    # CHECK: that GET /notes/{note_id} shows all that this changes, as "
                        "this call takes it, and tells nobody\n    before:\n      request: \"GET "
                        "/notes/{path.note_id}\"\n      keep: [ \"body#/text\", "
                        "\"body#/title\" ]\n    undo:\n      request: \"PATCH "
                        "/notes/{path.note_id}\"\n      json: { \"text\": "
                        "\"{before.body#/text}\", \"title\": \"{before.body#/title}\" }\n"
                        "      only_if: unchanged\n      repeatable: true\n"));
  EXPECT_THAT(tool, Not(HasSubstr("undecided")));
  EXPECT_THAT(tool, Not(HasSubstr("rest:")));
  EXPECT_THAT(
      ToolOf("change", "  /notes/{id}:\n    put: { operationId: change, " + Body("title: {}") +
                           " }\n    get: { operationId: get, " + Answers("title: {}") + " }\n"),
      HasSubstr("      repeatable: true\n      rest: stays\n"));
}

TEST(OpenApiProposalsTest, WhatTheReadDoesNotShowIsForAPersonToDecide) {
  const std::string tool = ToolOf(
      "change", "  /notes/{id}:\n    put: { operationId: change, " + Body("title: {}, secret: {}") +
                    " }\n    get: { operationId: get, " + Answers("title: {}") + " }\n");
  EXPECT_THAT(
      tool, HasSubstr("# CHECK: GET /notes/{id} does not show secret, which this can change too"));
  EXPECT_THAT(tool, HasSubstr("    # before:\n    #   request: \"GET /notes/{path.id}\"\n"));
  EXPECT_THAT(tool, HasSubstr("    undo: undecided\n"));
  const std::string form =
      ToolOf("change", "  /notes/{id}:\n    post: { operationId: change, " +
                           Body("title: {}", "application/x-www-form-urlencoded") +
                           " }\n    get: { operationId: get, " + Answers("title: {}") + " }\n");
  EXPECT_THAT(form, HasSubstr("a form cannot put back what was empty"));
  EXPECT_THAT(form, HasSubstr("    undo: undecided\n"));
}

TEST(OpenApiProposalsTest, ASecretIsNotPutBackFromARead) {
  for (const std::string member :
       {"secret: {}", "webhook_token: {}", "code: { format: password }",
        "code: { writeOnly: true }", "config: { properties: { url: {}, secret: {} } }"}) {
    const std::string names = "title: {}, " + member;
    const std::string tool =
        ToolOf("change", "  /hooks/{id}:\n    patch: { operationId: change, " + Body(names) +
                             " }\n    get: { operationId: get, " + Answers(names) + " }\n");
    EXPECT_THAT(tool, HasSubstr("may show asterisks for " + member.substr(0, member.find(':'))))
        << tool;
    EXPECT_THAT(tool, HasSubstr("    undo: undecided\n"));
  }
}

TEST(OpenApiProposalsTest, WhatIsMadeIsDeletedByTheNameThatThePathWants) {
  const auto make = [](const std::string& capture, const std::string& answers) {
    return ToolOf("make", "  /marks:\n    post: { operationId: make, " + Answers(answers) +
                              " }\n  /marks/{" + capture + "}:\n    delete: { operationId: no }\n");
  };
  const std::string number = make("mark_number", "id: {}, number: {}");
  EXPECT_THAT(number, HasSubstr("external_ref: \"answer.body#/number\"\n"));
  EXPECT_THAT(number, HasSubstr("    undo: { request: \"DELETE /marks/{external_ref}\""));
  EXPECT_THAT(make("slug", "id: {}, slug: {}"), HasSubstr("answer.body#/slug"));
  EXPECT_THAT(make("number", "id: {}, number: {}"), HasSubstr("answer.body#/number"));
  EXPECT_THAT(make("mark_id", "id: {}, number: {}"), Not(HasSubstr("external_ref:")));
  const std::string unknown = make("username", "id: {}");
  EXPECT_THAT(unknown, HasSubstr("where does the answer tell username?"));
  EXPECT_THAT(unknown, HasSubstr("    undo: undecided\n"));
}

TEST(OpenApiProposalsTest, AKeyIsOnlyWhereItIsDescribed) {
  const std::string key = "parameters: [ { in: header, name: Idempotency-Key } ]";
  const std::string paths = "  /notes:\n    post: { operationId: make, " + key +
                            " }\n  /mails:\n    post: { operationId: send }\n";
  EXPECT_THAT(ToolOf("make", paths), HasSubstr("    # CHECK: that the backend de-duplicates on it\n"
                                               "    key_at: \"header:Idempotency-Key\"\n"));
  EXPECT_THAT(ToolOf("send", paths), Not(HasSubstr("key_")));
  EXPECT_THAT(ToolOf("make", "  /notes:\n    post: { operationId: make, " + key + " }\n"),
              Not(HasSubstr("key_")))
      << "every write takes it: the backend says so";
}

TEST(OpenApiProposalsTest, NeighboursTakeEachOtherBack) {
  const std::string paths =
      "  /notes:\n    post: { operationId: make }\n"
      "  /notes/{id}:\n    delete: { operationId: remove }\n    get: { operationId: get }\n"
      "  /notes/{id}/restore:\n    post: { operationId: restore }\n"
      "  /notes/{id}/lock:\n    put: { operationId: lock }\n    delete: { operationId: unlock }\n"
      "  /notes/{id}/close:\n    post: { operationId: close }\n"
      "  /notes/{id}/reopen:\n    post: { operationId: reopen }\n"
      "  /orders:\n    post: { operationId: order }\n"
      "  /orders/{id}/cancel:\n    post: { operationId: cancel }\n";
  EXPECT_THAT(ToolOf("remove", paths),
              HasSubstr("undo: { request: \"POST /notes/{path.id}/restore\" }"));
  EXPECT_THAT(ToolOf("lock", paths),
              HasSubstr("undo: { request: \"DELETE /notes/{path.id}/lock\""));
  EXPECT_THAT(ToolOf("close", paths),
              HasSubstr("undo: { request: \"POST /notes/{path.id}/reopen\" }"));
  EXPECT_THAT(ToolOf("reopen", paths),
              HasSubstr("undo: { request: \"POST /notes/{path.id}/close\" }"));
  EXPECT_THAT(ToolOf("order", paths),
              HasSubstr("undo: { request: \"POST /orders/{external_ref}/cancel\" }"));
  EXPECT_THAT(ToolOf("cancel", paths), HasSubstr("undo: undecided"));
}

TEST(OpenApiProposalsTest, NothingIsApprovedOrChargedToTakeSomethingBack) {
  const std::string paths =
      "  /expenses/{id}/approve:\n    post: { operationId: approve }\n"
      "  /expenses/{id}/reject:\n    post: { operationId: reject }\n"
      "  /orders/{id}/charge:\n    post: { operationId: charge }\n"
      "  /orders/{id}/refund:\n    post: { operationId: refund }\n";
  for (const char* const name : {"approve", "reject", "refund"}) {
    EXPECT_THAT(ToolOf(name, paths), HasSubstr("undo: undecided")) << name;
  }
  EXPECT_THAT(ToolOf("charge", paths),
              HasSubstr("undo: { request: \"POST /orders/{path.id}/refund\" }"));
}

TEST(OpenApiProposalsTest, AProbeIsShownAndNeverInForce) {
  const std::string list =
      ToolOf("make",
             "  /notes:\n    post: { operationId: make, requestBody: { content: { "
             "application/json: { schema: "
             "{ required: [ ref ], properties: { ref: { type: string } } } } } } }\n"
             "    get: { operationId: get, parameters: [ { in: query, name: ref } ], " +
                 Answers("items: { type: array }, total: {}") + " }\n");
  EXPECT_THAT(list, HasSubstr("    # settle: { request: \"GET /notes?ref={body#/ref}\",\n    #   "
                              "happened: \"answer.body#/items/0/id\" }\n"));
  const std::string one =
      ToolOf("make",
             "  /notes:\n    post: { operationId: make, requestBody: { content: { "
             "application/json: { schema: "
             "{ required: [ id ], properties: { id: { type: string } } } } } } }\n"
             "  /notes/{id}:\n    get: { operationId: get }\n");
  EXPECT_THAT(one,
              HasSubstr("    # settle: { request: \"GET /notes/{body#/id}\",\n    #   happened: "
                        "\"answer.body#/id\" }\n"));
}

}  // namespace
}  // namespace recourse::openapi_proposals_test
