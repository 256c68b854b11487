#include "policy/import/mcp_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/language/loader.h"
#include "proxy/base/limits.h"
#include "tests/policy/policy_builder.h"

namespace recourse::mcp_import_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

McpServerInfo Server(const std::string& tools) {
  McpServerInfo server{"http://127.0.0.1:3000/mcp", "The Shop", "1.2", "2025-11-25", {}, {}};
  EXPECT_TRUE(AddMcpTools(*ParseJson("{\"tools\":[" + tools + "]}"), server)) << tools;
  return server;
}

std::string Imported(const std::string& tools) {
  const std::string text = *PolicyFromMcp(Server(tools));
  const LoadedPolicy loaded = LoadPolicyText("p.yaml", text);
  EXPECT_TRUE(loaded.ok()) << text << ProblemsOf(loaded);
  return text;
}

TEST(McpImportTest, AReadIsBelievedAndMarked) {
  const std::string text =
      Imported(R"({"name":"get_order","description":"Shows an\norder # 7",)"
               R"("annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}})");
  EXPECT_THAT(text, HasSubstr("# Made from http://127.0.0.1:3000/mcp (The Shop 1.2, MCP "
                              "2025-11-25) by `recourse policy import mcp`.\n"));
  EXPECT_THAT(text, HasSubstr("  The_Shop:\n    url: \"http://127.0.0.1:3000/mcp\"\n    protocol: "
                              "mcp\n"));
  EXPECT_THAT(text, HasSubstr("    # hosts: [ \"127.0.0.1:19080\" ]\n"));
  EXPECT_THAT(text, HasSubstr("# CHECK: do agents send traceparent?"));
  EXPECT_THAT(text, HasSubstr("  # Shows an order # 7\n  get_order:\n    match: \"tools/call "
                              "The_Shop get_order\"\n    # CHECK: the server says readOnlyHint: "
                              "true, which is believed here\n    effect: read\n"));
}

TEST(McpImportTest, WhatIsNotSaidToReadIsAWriteThatNobodyHasDecidedOn) {
  const std::string text = Imported(R"({"name":"do"},{"name":"wipe","annotations":)"
                                    R"({"readOnlyHint":false,"destructiveHint":false,)"
                                    R"("idempotentHint":true}})");
  EXPECT_THAT(text, HasSubstr("# CHECK: the server does not say that it only reads"));
  EXPECT_THAT(text, HasSubstr("# CHECK: the server does not say that it destroys nothing; have a "
                              "human decide first? approval: { by: [ .. ] }"));
  EXPECT_THAT(text, HasSubstr("# CHECK: the server says readOnlyHint: false"));
  EXPECT_THAT(text, HasSubstr("# CHECK: the server says idempotentHint: true"));
  const std::string wipe = text.substr(text.find("  wipe:"));
  EXPECT_THAT(wipe, Not(HasSubstr("approval: { by")));
  EXPECT_THAT(text, HasSubstr("    undo: undecided\n"));
}

TEST(McpImportTest, RequiredIdsAreTheIdentityAndTextsWithoutOneAreToldOf) {
  const std::string text = Imported(
      R"({"name":"pay","inputSchema":{"properties":{"order_id":{"type":"string"},)"
      R"("note":{"type":"string"},"parent_id":{"type":"string"}},"required":["order_id"]}},)"
      R"({"name":"send_mail","inputSchema":{"properties":{"to":{"type":"string","format":"email"},)"
      R"("kind":{"type":"string","enum":["a"]},"text":{"type":"string"},)"
      R"("subject":{"type":"string"}},"required":["to","text"]}},)"
      R"({"name":"count","inputSchema":{"properties":{"by":{"type":"number"}}}},)"
      R"({"name":"odd","inputSchema":{"properties":{"a/b_id":{"type":"string"}},)"
      R"("required":["a/b_id"]}})");
  EXPECT_THAT(text, HasSubstr("# CHECK: required arguments that look like ids: calls with equal "
                              "values here are one call\n    identity: [ \"body#/order_id\" ]\n"));
  EXPECT_THAT(text, HasSubstr("# CHECK: texts (text, subject) and no id: a model that rewords"));
  EXPECT_THAT(text, HasSubstr("# CHECK: all arguments are the key; name those that make two"));
  EXPECT_THAT(text, HasSubstr("# CHECK: texts (a/b_id) and no id"));
}

// A comment ends with its line: what a server calls its arguments must not begin another.
TEST(McpImportTest, NamesOfArgumentsStayWhereTheyAreWritten) {
  for (const char* const tool : {"send_mail", "cancel_mail"}) {
    const std::string text = Imported(
        std::string(R"({"name":")") + tool +
        R"(","inputSchema":{"properties":{"a_id\n    effect: read\n    # x":{"type":"string"},)"
        R"("b_id\u0085\u2028":{"type":"string"},"c_id":{"type":"string"}},"required":)"
        R"(["a_id\n    effect: read\n    # x","b_id\u0085\u2028","c_id"]}})");
    EXPECT_THAT(text, Not(HasSubstr("\n    effect: read"))) << tool;
    EXPECT_THAT(text, HasSubstr("identity: [ \"body#/c_id\" ]")) << tool;
  }
}

TEST(McpImportTest, AnUndoIsGuessedByNameAndNeverPutInForce) {
  const std::string text =
      Imported(R"({"name":"create_order"},{"name":"cancel_order","inputSchema":{"properties":)"
               R"({"id":{"type":"string"}},"required":["id"]}},{"name":"addUser"},)"
               R"({"name":"user.remove"},{"name":"removeUser"},{"name":"open_door"},)"
               R"({"name":"close_door","annotations":{"readOnlyHint":true}})");
  EXPECT_THAT(text, HasSubstr("# CHECK: by their names cancel_order takes this back"));
  EXPECT_THAT(text, HasSubstr("    # undo: { call: cancel_order, arguments: { id: "
                              "\"{external_ref}\" } }\n"));
  EXPECT_THAT(text, HasSubstr("    # undo: { call: removeUser, arguments: { .. } }\n"));
  EXPECT_THAT(text, Not(HasSubstr("close_door takes")));
  EXPECT_THAT(text, Not(HasSubstr("    undo: {")));
}

TEST(McpImportTest, NamesThatAPolicyCannotHaveAreLeftOutAndSaid) {
  const std::string text =
      Imported(R"({"name":"a b"},{"name":"star*"},{"name":"x\"\n: {"},{"name":"files/read"},)"
               R"({"name":"files_read"},{"name":"unlisted"},{"name":"good"},{"name":"good"},)"
               R"({"description":"none"},7)");
  EXPECT_THAT(text, HasSubstr("# CHECK: left out: a b: the name of an MCP tool has letters"));
  EXPECT_THAT(text, HasSubstr("# CHECK: left out: star*: a name has no star"));
  EXPECT_THAT(text, HasSubstr("# CHECK: left out: x\" : {: the name of an MCP tool"));
  EXPECT_THAT(text, HasSubstr("  files_read:\n    match: \"tools/call The_Shop files/read\""));
  EXPECT_THAT(text, HasSubstr("  files_read_2:\n    match: \"tools/call The_Shop files_read\""));
  EXPECT_THAT(text, HasSubstr("  op_unlisted:\n"));
  EXPECT_THAT(text, HasSubstr("# CHECK: the server lists good twice; the first one counts"));
  EXPECT_THAT(text, HasSubstr("# CHECK: a tool without a name is left out"));
}

TEST(McpImportTest, OnlyAListOfToolsIsOne) {
  McpServerInfo server;
  for (const char* text : {"{}", "[]", R"({"tools":{}})", "7"}) {
    EXPECT_FALSE(AddMcpTools(*ParseJson(text), server)) << text;
  }
  EXPECT_THAT(*PolicyFromMcp(Server("")), Not(HasSubstr("tools:\n")));
}

TEST(McpImportTest, SoManyToolsAreTaken) {
  std::string tools;
  for (std::size_t i = 0; i <= limits::kImportedToolsMax; ++i) {
    tools += (i == 0 ? "" : ",") + std::string("{\"name\":\"t") + std::to_string(i) + "\"}";
  }
  const McpServerInfo server = Server(tools);
  EXPECT_EQ(server.tools.size(), limits::kImportedToolsMax);
  EXPECT_EQ(server.notes.back(), "more than 2000 tools; the others are left out");
}

constexpr const char* kDeclares =
    R"({"name":"create_order","_meta":{"dev.recourse/effects":{"effect":"write","class":)"
    R"("externally reversible","identity":"body#/ref","undo":{"call":"cancel_order","arguments":)"
    R"({"id":"{external_ref}"},"repeatable":true}}}},{"name":"cancel_order"})";

TEST(McpImportTest, WhatAServerDeclaresIsShownAndNotInForce) {
  const std::string text = Imported(kDeclares);
  EXPECT_THAT(text, HasSubstr("    # CHECK: the server declares the following, which is not "
                              "believed: see trust_effects\n    # match: \"tools/call The_Shop "
                              "create_order\"\n    # effect: write\n    # identity: body#/ref\n"
                              "    # undo:"));
  EXPECT_THAT(text, HasSubstr("    # declared: \"sha256:"));
  EXPECT_THAT(text, Not(HasSubstr("\n    identity:")));
  EXPECT_THAT(text, Not(HasSubstr("trust_effects: true")));
}

TEST(McpImportTest, WhatATrustedServerDeclaresIsInForceUnderItsDigest) {
  const auto text = PolicyFromMcp(Server(kDeclares), McpTrust::kBelieve);
  ASSERT_TRUE(text) << text.error();
  const LoadedPolicy loaded = LoadPolicyText("p.yaml", *text);
  ASSERT_TRUE(loaded.ok()) << *text << ProblemsOf(loaded);
  const Tool& tool = loaded.policy->tools[0];
  EXPECT_EQ(tool.undo->request.calls, "cancel_order");
  EXPECT_EQ(tool.declared.size(), 71U);
  EXPECT_TRUE(loaded.policy->backends[0].trust_effects);
  EXPECT_THAT(*text, HasSubstr("  create_order:  # as the server declares\n"));
  EXPECT_THAT(*text, HasSubstr("  cancel_order:\n    match: \"tools/call The_Shop cancel_order\"\n"
                               "    # CHECK: the server does not say that it only reads"));
}

TEST(McpImportTest, WhatAServerDeclaresWronglyIsToldAndNeverBelieved) {
  const std::string wrong = R"({"name":"pay","_meta":{"dev.recourse/effects":{"efect":"read"}}})";
  EXPECT_THAT(Imported(wrong),
              HasSubstr("# CHECK: the server declares effects that cannot be read: "
                        "http://127.0.0.1:3000/mcp pay: error: "
                        "dev.recourse/effects.efect: unknown key, did you mean"));
  for (const std::string& effects :
       {std::string(R"({"efect":"read"})"), std::string(R"({"effect":"write","undo":7})"),
        std::string(R"({"effect":"write","reason":"r","approval":{"by":"a","credentials":)"
                    R"({"Authorization":{"file":"/etc/passwd"}}}})"),
        std::string("[]"), std::string(R"({"effect":"write","match":"POST","reason":"r"})"),
        std::string(R"({"effect":"read","scope":"global"})")}) {
    const auto text =
        PolicyFromMcp(Server(R"({"name":"pay","_meta":{"dev.recourse/effects":)" + effects + "}}"),
                      McpTrust::kBelieve);
    EXPECT_FALSE(text) << effects << *text;
  }
}

TEST(McpImportTest, WhatItDeclaresStaysOnTheLinesOfItsComment) {
  const std::string text =
      Imported(R"({"name":"pay","_meta":{"dev.recourse/effects":{"effect":"write","reason":)"
               R"("a\nb: c\r\u0085\u2028tools: {}"}}})");
  EXPECT_THAT(text, HasSubstr("    # reason: \"a\\nb: c\\x0d"));
}

}  // namespace
}  // namespace recourse::mcp_import_test
