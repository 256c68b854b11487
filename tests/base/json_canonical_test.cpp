// The writing half of JSON: canonical text, pointers, plain text.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "proxy/base/json/json.h"

namespace recourse::json_canonical_test {
namespace {

using namespace std::string_literals;

Json Parsed(std::string_view text) {
  Result<Json> json = ParseJson(text);
  EXPECT_TRUE(json.has_value()) << text << ": " << json.error().detail();
  return json ? std::move(*json) : Json();
}

std::string Canonical(std::string_view text, const std::vector<std::string>& ignore = {}) {
  return CanonicalJson(Parsed(text), ignore);
}

TEST(JsonCanonicalTest, J26_EveryOrderOfMembersGivesOneText) {
  std::vector<std::string> members = {R"("a":1)",     R"("b":[1,2])",  R"("c":{"y":1,"x":2})",
                                      R"("":null)",   R"("aa":true)",  R"("B":"b")",
                                      R"("10":1.50)", R"("9":"nine")", "\"\xc3\xa9\":0"};
  std::mt19937 random(26);
  const auto join = [&] {
    std::string text = "{";
    for (const std::string& member : members) text += (text.size() > 1 ? " ,\n" : "") + member;
    return text + "}";
  };
  const std::string first = Canonical(join());
  for (int i = 0; i < 100; ++i) {
    std::shuffle(members.begin(), members.end(), random);
    EXPECT_EQ(Canonical(join()), first);
  }
}

// The vectors of cyberphone/json-canonicalization, with numbers in our own exact form.
TEST(JsonCanonicalTest, J28_TheVectorsOfRfc8785HoldButForNumbers) {
  EXPECT_EQ(Canonical(R"([ 56, { "d": true, "10": null, "1": [ ] } ])"),
            R"([56e0,{"1":[],"10":null,"d":true}])");
  EXPECT_EQ(Canonical("{\"peach\": \"This sorting order\", \"p\xc3\xa9"
                      "ch\xc3\xa9\": \"is wrong according to French\", \"p\xc3\xaa"
                      "che\": \"but canonicalization MUST\", \"sin\": \"ignore locale\"}"),
            "{\"peach\":\"This sorting order\",\"p\xc3\xa9"
            "ch\xc3\xa9\":\"is wrong according to French\",\"p\xc3\xaa"
            "che\":\"but canonicalization MUST\",\"sin\":\"ignore locale\"}");
  EXPECT_EQ(Canonical(R"({"1": {"f": {"f": "hi","F": 5} ,"\n": 56.0}, "10": { }, "": "empty",
                          "a": { }, "111": [ {"e": "yes","E": "no" } ], "A": { }})"),
            R"({"":"empty","1":{"\n":56e0,"f":{"F":5e0,"f":"hi"}},"10":{},)"
            R"("111":[{"E":"no","e":"yes"}],"A":{},"a":{}})");
  EXPECT_EQ(Canonical(R"({"Unnormalized Unicode":"A\u030a"})"),
            "{\"Unnormalized Unicode\":\"A\xcc\x8a\"}");
  EXPECT_EQ(Canonical(R"({"numbers": [333333333.33333329, 1E30, 4.50, 2e-3,
                          0.000000000000000000000000001],
                          "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
                          "literals": [null, true, false]})"),
            R"({"literals":[null,true,false],"numbers":[33333333333333329e-8,1e30,45e-1,2e-3,)"
            "1e-27],\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

TEST(JsonCanonicalTest, J29_NamesAreSortedByUtf16CodeUnits) {
  EXPECT_EQ(
      Canonical(R"({"\u20ac":0,"\r":0,"\u000a":0,"1":0,"\u0080":0,"\ud83d\ude02":0,)"
                R"("\u00f6":0,"\ufb33":0,"</script>":0})"),
      "{\"\\n\":0e0,\"\\r\":0e0,\"1\":0e0,\"</script>\":0e0,\"\xc2\x80\":0e0,\"\xc3\xb6\":0e0,"
      "\"\xe2\x82\xac\":0e0,\"\xf0\x9f\x98\x82\":0e0,\"\xef\xac\xb3\":0e0}");
  EXPECT_EQ(Canonical(R"({"\ue000":0,"\ud7ff":0,"\udbff\udfff":0,"\ud800\udc00":0,"\uffff":0})"),
            "{\"\xed\x9f\xbf\":0e0,\"\xf0\x90\x80\x80\":0e0,\"\xf4\x8f\xbf\xbf\":0e0,"
            "\"\xee\x80\x80\":0e0,\"\xef\xbf\xbf\":0e0}");
}

TEST(JsonCanonicalTest, J31_NoUnicodeNormalisation) {
  EXPECT_NE(Canonical("\"\xc3\x85\""), Canonical("\"A\xcc\x8a\""));
}

TEST(JsonCanonicalTest, J34_IgnoredPointersAreLeftOut) {
  constexpr std::string_view kText =
      R"({"meta":{"ts":1,"id":2},"a/b":1,"m~n":2,"list":[10,11,12],"x":3})";
  const std::string all = Canonical(kText);
  EXPECT_EQ(Canonical(kText, {"/nothing", "/meta/none", "/list/3", "/list/-", "/list/01", "bad"}),
            all);
  EXPECT_EQ(Canonical(kText, {"/meta/ts", "/a~1b", "/m~0n", "/list/1"}),
            R"({"list":[1e1,12e0],"meta":{"id":2e0},"x":3e0})");
  EXPECT_EQ(Canonical(kText, {"/meta", "/meta/ts", "/list", "/a~1b", "/m~0n", "/x"}), "{}");
  EXPECT_EQ(Canonical(kText, {""}), "");
}

TEST(JsonCanonicalTest, IgnoringAValueEqualsItsAbsence) {
  EXPECT_EQ(Canonical(R"({"a":1,"t":{"deep":[1,2,3]}})", {"/t"}), Canonical(R"({"a":1})", {"/t"}));
}

TEST(JsonPointerTest, PointersOfRfc6901AreFollowed) {
  const Json root = Parsed(R"({"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,)"
                           R"("i\\j":5,"k\"l":6," ":7,"m~n":8,"o":{"0":"zero"}})");
  EXPECT_EQ(AtPointer(root, ""), &root);
  EXPECT_EQ(AtPointer(root, "/foo")->items.size(), 2U);
  const std::map<std::string, std::string> table = {
      {"/foo/0", "bar"}, {"/", "0"},     {"/a~1b", "1"},   {"/c%d", "2"},
      {"/e^f", "3"},     {"/g|h", "4"},  {"/i\\j", "5"},   {"/k\"l", "6"},
      {"/ ", "7"},       {"/m~0n", "8"}, {"/o/0", "zero"}, {"/foo/1", "baz"}};
  for (const auto& [pointer, text] : table) {
    const Json* const found = AtPointer(root, pointer);
    ASSERT_NE(found, nullptr) << pointer;
    EXPECT_EQ(ScalarText(*found), text) << pointer;
  }
  for (const char* pointer : {"foo", "/foo/2", "/foo/-", "/foo/00", "/foo/01", "/foo/+1", "/foo/ 1",
                              "/foo/1 ", "/foo/99999999999999999999999", "/foo/", "/foo/0/x",
                              "/nothing", "/m~n", "/m~2n", "/m~", "//", "/o/00"}) {
    EXPECT_EQ(AtPointer(root, pointer), nullptr) << pointer;
  }
}

TEST(JsonPointerTest, OnlySyntaxDecidesWhatIsAPointer) {
  for (const char* good : {"", "/", "/a/b", "/a~0~1", "/-", "//"}) EXPECT_TRUE(IsJsonPointer(good));
  for (const char* bad : {"a", "a/b", "#/a", "/~", "/~2", "/a~"}) EXPECT_FALSE(IsJsonPointer(bad));
}

TEST(ScalarTextTest, NumbersAreWrittenPlainlyWhileThatIsShort) {
  const std::map<std::string, std::string> table = {{"120", "120"},
                                                    {"-0.5", "-0.5"},
                                                    {"0", "0"},
                                                    {"1e-3", "0.001"},
                                                    {"12.345", "12.345"},
                                                    {"1.50", "1.5"},
                                                    {"-1200e-1", "-120"},
                                                    {"1e300", "1e300"},
                                                    {"1e-300", "1e-300"},
                                                    {"true", "true"},
                                                    {"false", "false"},
                                                    {"\"a\\u0000\"", "a\0"s},
                                                    {"null", ""},
                                                    {"[1]", ""},
                                                    {"{}", ""},
                                                    {"-0.0", "0"},
                                                    {"1e63", "1" + std::string(63, '0')},
                                                    {"1e64", "1e64"},
                                                    {"1e-62", "0." + std::string(61, '0') + "1"},
                                                    {"1e-63", "1e-63"}};
  for (const auto& [in, out] : table) EXPECT_EQ(ScalarText(Parsed(in)), out) << in;
}

TEST(AppendJsonStringTest, EscapesAsRfc8785) {
  std::string out;
  AppendJsonString(out, "\"\\/\b\t\n\f\r\x01\x1f\x7f\0<>\xc3\xa9\xf0\x9f\x98\x82"s);
  EXPECT_EQ(out, "\"\\\"\\\\/\\b\\t\\n\\f\\r\\u0001\\u001f\x7f\\u0000<>\xc3\xa9\xf0\x9f\x98\x82\"");
}

TEST(AppendJsonStringTest, InvalidUtf8BecomesTheReplacementCharacter) {
  const std::string r = "\xef\xbf\xbd";
  const std::map<std::string, std::string> table = {{"\xff", r},
                                                    {"a\x80z", "a" + r + "z"},
                                                    {"\xc3", r},
                                                    {"\xc0\xaf", r + r},
                                                    {"\xe2\x82", r},
                                                    {"\xe2\x82z", r + "z"},
                                                    {"\xed\xa0\x80", r + r + r},
                                                    {"\xf0\x9f\x98", r},
                                                    {"\xf4\x90\x80\x80", r + r + r + r},
                                                    {"\xe0\x80\x80", r + r + r},
                                                    {"\xf0\x9f\x98\x82", "\xf0\x9f\x98\x82"}};
  for (const auto& [in, expected] : table) {
    std::string out;
    AppendJsonString(out, in);
    EXPECT_EQ(out, "\"" + expected + "\"");
    EXPECT_TRUE(ParseJson(out).has_value());
  }
}

// Eight bytes are looked at together, wherever the one stands that must be escaped; reading the
// string back finds its end behind any run of escapes.
TEST(AppendJsonStringTest, EveryByteIsEscapedAtEveryPlace) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    std::string alone;
    AppendJsonString(alone, one);
    const std::string written = alone.substr(1, alone.size() - 2);
    for (std::size_t place = 0; place <= 17; ++place) {
      for (const std::string& around : {"a"s, " "s, "~"s, "\\"s}) {
        std::string before, in, out;
        for (std::size_t i = 0; i < place; ++i) before += around;
        for (const std::string& part : {before, one, "0123456789"s}) in += part;
        AppendJsonString(out, in);
        std::string expected = "\"";
        for (std::size_t i = 0; i < place; ++i) expected += around == "\\" ? "\\\\" : around;
        ASSERT_EQ(out, expected + written + "0123456789\"") << byte << " at " << place;
        const auto read = ParseJson("[" + out + "]");
        ASSERT_TRUE(read.has_value()) << out;
        if (byte < 0x80) ASSERT_EQ(read->items.front().text, in);
      }
    }
  }
}

// Random documents, written with random blanks, escapes, member orders and spellings of numbers.
class DocumentMaker {
 public:
  explicit DocumentMaker(unsigned seed) : random_(seed) {}

  Json Make(int depth = 0) {
    Json json;
    switch (depth == 0 ? 5 + Below(2) : Below(depth > 4 ? 5 : 7)) {
      case 0:
        json.kind = Json::Kind::kNull;
        break;
      case 1:
        json.kind = Json::Kind::kTrue;
        break;
      case 2:
        json.kind = Json::Kind::kFalse;
        break;
      case 3:
        json.kind = Json::Kind::kNumber;
        json.text = Number();
        break;
      case 4:
        json.kind = Json::Kind::kString;
        json.text = Text();
        break;
      case 5:
        json.kind = Json::Kind::kArray;
        for (unsigned n = Below(5); n > 0; --n) json.items.push_back(Make(depth + 1));
        break;
      default:
        json.kind = Json::Kind::kObject;
        for (unsigned n = Below(5); n > 0; --n) {
          std::string name = Text();
          if (json.Find(name) == nullptr) json.members.emplace_back(name, Make(depth + 1));
        }
    }
    return json;
  }

  std::string Spell(const Json& json) {
    std::string out = Blanks();
    switch (json.kind) {
      case Json::Kind::kNull:
        out += "null";
        break;
      case Json::Kind::kTrue:
        out += "true";
        break;
      case Json::Kind::kFalse:
        out += "false";
        break;
      case Json::Kind::kNumber:
        out += SpellNumber(json.text);
        break;
      case Json::Kind::kString:
        out += SpellText(json.text);
        break;
      case Json::Kind::kArray: {
        std::string between = "[";
        for (const Json& item : json.items) out += std::exchange(between, ",") + Spell(item);
        out += (json.items.empty() ? "[" : "") + Blanks() + "]";
        break;
      }
      case Json::Kind::kObject: {
        std::vector<const Json::Member*> members;
        for (const auto& member : json.members) members.push_back(&member);
        std::shuffle(members.begin(), members.end(), random_);
        std::string between = "{";
        for (const auto* member : members) {
          out += std::exchange(between, ",") + Blanks() + SpellText(member->first) + Blanks() +
                 ":" + Spell(member->second);
        }
        out += (members.empty() ? "{" : "") + Blanks() + "}";
      }
    }
    return out + Blanks();
  }

 private:
  unsigned Below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }

  std::string Blanks() {
    std::string out;
    while (Below(6) == 0) out += " \t\r\n"[Below(4)];
    return out;
  }

  // A normal form: no zero at either end.
  std::string Number() {
    if (Below(10) == 0) return "0e0";
    std::string digits(1, static_cast<char>('1' + Below(9)));
    for (unsigned n = Below(Below(4) == 0 ? 62 : 6); n > 0; --n) {
      digits += static_cast<char>('0' + Below(10));
    }
    digits.back() = static_cast<char>('1' + Below(9));
    const int exponent =
        static_cast<int>(Below(Below(4) == 0 ? 600 : 20)) - 10 - static_cast<int>(Below(200));
    const int kept = std::clamp(exponent, -380, 330);
    return (Below(2) == 0 ? "-" : "") + digits + "e" + std::to_string(kept);
  }

  // The same value with another split between digits and exponent.
  std::string SpellNumber(const std::string& normal) {
    if (normal == "0e0") return Below(2) == 0 ? "-0.00" : "0E5";
    const std::size_t mark = normal.find('e');
    std::string digits = normal.substr(0, mark);
    int exponent = std::stoi(normal.substr(mark + 1));
    const std::size_t sign = digits[0] == '-' ? 1 : 0;
    const unsigned shape = Below(3);
    if (shape == 0 && exponent >= 0 && exponent < 20) {
      return digits + std::string(static_cast<std::size_t>(exponent), '0');
    }
    if (shape == 1) {
      const auto fraction = static_cast<int>(digits.size() - sign) - 1;
      digits.insert(sign + 1, fraction > 0 ? "." : ".0");
      exponent += fraction;
      return digits + std::string(Below(3), '0') + (exponent >= 0 ? "E+" : "e") +
             std::to_string(exponent);
    }
    return digits + "e" + std::to_string(exponent);
  }

  std::string Text() {
    static const std::vector<std::string> kParts = {
        "a",           "b",   "Z",    "0",    "\"", "\\", "/", "\n",       "\t",
        "\x01",        " ",   "\x7f", "name", "12", "{",  "[", "\xc3\xa9", "\xe2\x82\xac",
        ":",           "\0"s, ",",    "~",    "-1", "}",  "]", "e5",       "\xf0\x9f\x98\x82",
        "\xef\xac\xb3"};
    std::string text;
    for (unsigned n = Below(7); n > 0; --n) {
      text += kParts[Below(static_cast<unsigned>(kParts.size()))];
    }
    return text;
  }

  std::string SpellText(const std::string& text) {
    static constexpr char kDigits[] = "0123456789aBcDeF";
    std::string out = "\"";
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || c == '"' || c == '\\' || (byte < 0x80 && Below(8) == 0)) {
        out += "\\u00"s + kDigits[byte >> 4] + kDigits[byte & 15];
      } else {
        out += c;
      }
    }
    return out + "\"";
  }

  std::mt19937 random_;
};

TEST(JsonPropertyTest, J41_CanonicalTextIsAFixedPointAndMeansTheSame) {
  constexpr unsigned kSeed = 41;
  DocumentMaker maker(kSeed);
  for (int i = 0; i < 20'000; ++i) {
    const Json made = maker.Make();
    const std::string spelled = maker.Spell(made);
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", document " + std::to_string(i) + ": " +
                 spelled);
    const Result<Json> read = ParseJson(spelled);
    ASSERT_TRUE(read.has_value()) << read.error().detail();
    const std::string canonical = CanonicalJson(*read);
    ASSERT_EQ(canonical, CanonicalJson(made));
    const Result<Json> again = ParseJson(canonical);
    ASSERT_TRUE(again.has_value()) << canonical;
    ASSERT_EQ(CanonicalJson(*again), canonical);
  }
}

TEST(JsonPropertyTest, AnyChangedByteStillGivesAStableReadingOrNone) {
  DocumentMaker maker(42);
  std::mt19937 random(43);
  for (int i = 0; i < 5'000; ++i) {
    std::string text = maker.Spell(maker.Make());
    text[random() % text.size()] = static_cast<char>(random());
    // Nothing to compare with: the reading must end in an answer, and what it accepts must be
    // stable.
    if (const Result<Json> read = ParseJson(text)) {
      const std::string canonical = CanonicalJson(*read);
      const Result<Json> again = ParseJson(canonical);
      ASSERT_TRUE(again.has_value()) << text;
      ASSERT_EQ(CanonicalJson(*again), canonical) << text;
    }
  }
}

}  // namespace
}  // namespace recourse::json_canonical_test
