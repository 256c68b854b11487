// The description of the admin API and the code that it describes.
#include "proxy/admin/api/openapi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/flow.h"
#include "proxy/admin/access/endpoints.h"
#include "proxy/base/json/json.h"

namespace recourse::openapi_test {
namespace {

Json Document() {
  const auto json = ParseJson(OpenApiDocument());
  return json ? *json : Json();
}

const Json& At(const Json& root, const std::string& pointer) {
  static const Json kNone;
  const Json* const found = AtPointer(root, pointer);
  EXPECT_NE(found, nullptr) << pointer;
  return found == nullptr ? kNone : *found;
}

std::vector<std::string> Enum(const Json& document, const std::string& schema) {
  std::vector<std::string> names;
  for (const Json& name : At(document, "/components/schemas/" + schema + "/enum").items) {
    names.push_back(name.text);
  }
  return names;
}

// The names of the values from `first` to `last`.
template <class Value>
std::vector<std::string> Names(Value first, Value last) {
  std::vector<std::string> names;
  for (int value = static_cast<int>(first); value <= static_cast<int>(last); ++value) {
    names.emplace_back(NameOf(static_cast<Value>(value)));
  }
  return names;
}

void CollectReferences(const Json& value, std::set<std::string>& found) {
  for (const Json& item : value.items) CollectReferences(item, found);
  for (const auto& [name, member] : value.members) {
    if (name == "$ref") found.insert(member.text);
    CollectReferences(member, found);
  }
}

TEST(OpenApiTest, DescribesEveryEndpointByItsRow) {
  const Json document = Document();
  std::size_t described = 0;
  for (const auto& [path, methods] : At(document, "/paths").members) {
    described += methods.members.size() - (methods.Find("parameters") == nullptr ? 0 : 1);
  }
  EXPECT_EQ(described, AdminEndpoints().size());
  const Json& undo = At(document, "/paths/~1flows~1{id}~1undo");
  EXPECT_EQ(CanonicalJson(At(undo, "/post/security")),
            R"([{"bearer":["repair"]},{"session":["repair"]},{"certificate":["repair"]}])");
  EXPECT_EQ(At(undo, "/parameters/0/name").text, "id");
  EXPECT_EQ(At(undo, "/post/parameters/0/name").text, "preview");
  EXPECT_EQ(At(undo, "/post/responses/409/$ref").text, "#/components/responses/Conflict");
}

TEST(OpenApiTest, WhatTheTableNamesIsThere) {
  const Json document = Document();
  std::set<std::string> names;
  CollectReferences(document, names);
  for (const std::string& name : names) At(document, name.substr(1));
  // And nothing else is: each part is used.
  for (const char* const kind : {"responses", "schemas"}) {
    for (const auto& [name, part] : At(document, std::string("/components/") + kind).members) {
      EXPECT_TRUE(names.contains(std::string("#/components/") + kind + "/" + name)) << name;
    }
  }
}

TEST(OpenApiTest, SaysTheVersionThatTheBinarySays) {
  EXPECT_EQ(At(Document(), "/info/version").text, RECOURSE_VERSION);
}

TEST(OpenApiTest, ListsTheWordsThatTheCodeUses) {
  const Json document = Document();
  EXPECT_EQ(Enum(document, "Phase"), Names(Phase::kClaimed, Phase::kTombstone));
  EXPECT_EQ(Enum(document, "Status"), Names(Status::kPending, Status::kCompensated));
  EXPECT_EQ(Enum(document, "Cause"), Names(Cause::kNone, kLastCause));
  EXPECT_EQ(Enum(document, "Verdict"),
            Names(ObserveVerdict::kNone, static_cast<ObserveVerdict>(kObserveVerdictCount - 1)));
  EXPECT_EQ(Enum(document, "FlowPhase"), Names(FlowPhase::kOpen, FlowPhase::kNeedsHuman));
  EXPECT_EQ(Enum(document, "FlowCause"),
            Names(FlowCause::kNone, static_cast<FlowCause>(kFlowCauseCount - 1)));
  EXPECT_EQ(Enum(document, "Role"), Names(Role::kRead, Role::kSettle));
}

}  // namespace
}  // namespace recourse::openapi_test
