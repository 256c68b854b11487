#include "proxy/base/json/json_shape.h"

#include <gtest/gtest.h>

namespace recourse::json_shape_test {
namespace {

struct Wheel {
  std::string_view kind;
};
constexpr JsonMember<Wheel> kWheel[] = {member::Text<&Wheel::kind>("kind")};

struct Bike {
  std::string name;
  int gears = 0;
  std::optional<std::string> owner;
  std::vector<Wheel> wheels;
};
constexpr JsonMember<Bike> kBike[] = {
    member::Text<&Bike::name>("name", "What people call it"),
    member::Number<&Bike::gears>("gears"),
    member::Bool<[](const Bike& of) { return of.gears > 1; }>("shifts"),
    member::Text<&Bike::owner>("owner").MayLack(),
    member::Objects<&Bike::wheels, kWheel>("wheels", "Wheel"),
};

std::string Written(const Bike& bike) {
  return ObjectText([&](JsonObject& json) { WriteMembers(json, kBike, bike); });
}

TEST(JsonShapeTest, WritesItsMembersInOrderAndLeavesOutWhatIsNotThere) {
  EXPECT_EQ(Written({"a \"b\"", 3, {}, {}}),
            R"({"name":"a \"b\"","gears":3,"shifts":true,"wheels":[]})");
  EXPECT_EQ(Written({"c", 1, "ada", {{"front"}, {"back"}}}),
            R"({"name":"c","gears":1,"shifts":false,"owner":"ada",)"
            R"("wheels":[{"kind":"front"},{"kind":"back"}]})");
}

TEST(JsonShapeTest, TheSchemaNamesThemAndWhichAreAlwaysThere) {
  const auto schema = ParseJson(SchemaOf({"Bike", "Of two wheels", DocsOf(kBike)}));
  ASSERT_TRUE(schema.has_value());
  EXPECT_EQ(CanonicalJson(*AtPointer(*schema, "/required")),
            R"(["name","gears","shifts","wheels"])");
  EXPECT_EQ(CanonicalJson(*AtPointer(*schema, "/properties/name")),
            R"({"description":"What people call it","type":"string"})");
  EXPECT_EQ(CanonicalJson(*AtPointer(*schema, "/properties/wheels")),
            R"({"items":{"$ref":"#/components/schemas/Wheel"},"type":"array"})");
  EXPECT_EQ(AtPointer(*schema, "/description")->text, "Of two wheels");
  EXPECT_EQ(AtPointer(*schema, "/additionalProperties")->kind, Json::Kind::kFalse);
}

TEST(JsonShapeTest, AShapeThatAddsToAnotherClosesBoth) {
  const std::string more = SchemaOf({"Tandem", "", DocsOf(kWheel), "Bike"});
  const auto schema = ParseJson(more);
  ASSERT_TRUE(schema.has_value());
  EXPECT_EQ(AtPointer(*schema, "/allOf/0/$ref")->text, "#/components/schemas/Bike");
  EXPECT_NE(AtPointer(*schema, "/unevaluatedProperties"), nullptr);
  const auto base = ParseJson(SchemaOf({"Bike", "", DocsOf(kBike), "", /*is_base=*/true}));
  EXPECT_EQ(AtPointer(*base, "/additionalProperties"), nullptr);
}

}  // namespace
}  // namespace recourse::json_shape_test
