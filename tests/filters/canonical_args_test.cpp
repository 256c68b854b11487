// Which byte variants are one call.
#include <gtest/gtest.h>

#include "tests/filters/key_builder.h"

namespace recourse::canonical_args_test {
namespace {

struct Pair {
  const char* what;
  KeyCase first, second;
};

KeyCase Query(std::string query) {
  KeyCase call = JsonCall("");
  call.query = std::move(query);
  return call;
}

KeyCase Multipart(std::string boundary, std::string body) {
  KeyCase call;
  call.type = "multipart/form-data; boundary=" + std::move(boundary);
  call.body = std::move(body);
  return call;
}

std::string OnePart(const std::string& boundary, const std::string& content) {
  return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n" + content +
         "\r\n--" + boundary + "--\r\n";
}

KeyCase Typed(std::string type, std::string body) {
  KeyCase call;
  call.type = std::move(type);
  call.body = std::move(body);
  return call;
}

KeyCase Ignoring(KeyCase call, std::vector<std::string> pointers) {
  call.tool.ignore = std::move(pointers);
  return call;
}

TEST(CanonicalArgsTest, VariantsThatClientsSendOfOneCallGiveOneKey) {
  const std::vector<Pair> pairs = {
      {"fetch and requests separate differently", JsonCall(R"({"amount":100,"note":"x"})"),
       JsonCall(R"({"amount": 100, "note": "x"})")},
      {"raw UTF-8 and escapes", JsonCall(R"({"note":"é"})"), JsonCall(R"({"note":"\u00e9"})")},
      {"escaped slash", JsonCall(R"({"a":"b/c"})"), JsonCall(R"({"a":"b\/c"})")},
      {"surrogate pair and raw emoji", JsonCall("{\"a\":\"\xf0\x9f\x98\x82\"}"),
       JsonCall(R"({"a":"\ud83d\ude02"})")},
      {"member order", JsonCall(R"({"a":1,"b":2})"), JsonCall(R"({"b":2,"a":1})")},
      {"JavaScript 1 and Python 1.0", JsonCall(R"({"x":1})"), JsonCall(R"({"x":1.0})")},
      {"exponent", JsonCall(R"({"x":1})"), JsonCall(R"({"x":1e0})")},
      {"negative zero", JsonCall(R"({"x":-0})"), JsonCall(R"({"x":0e5})")},
      {"line breaks", JsonCall("{\n  \"x\": [1, 2]\n}\n"), JsonCall(R"({"x":[1,2]})")},
      {"content type parameters", Typed("application/json", "{}"),
       Typed("application/json; charset=UTF-8", "{}")},
      {"vendor JSON type", Typed("application/json", "{}"), Typed("application/hal+json", "{}")},
      {"form order", FormCall("b=2&a=1"), FormCall("a=1&b=2")},
      {"form plus and %20", FormCall("a=x+y"), FormCall("a=x%20y")},
      {"form escapes of plain characters", FormCall("metadata[b]=2"),
       FormCall("metadata%5Bb%5D=2")},
      {"query order", Query("b=2&a=1"), Query("a=1&b=2")},
      {"query escapes", Query("a=%7Ex"), Query("a=~x")},
      {"multipart boundary", Multipart("AaB03x", OnePart("AaB03x", "1")),
       Multipart("\"zzz\"", OnePart("zzz", "1"))},
      {"ignored member present and missing",
       Ignoring(JsonCall(R"({"a":1,"ts":5})"), {"/ts", "/meta"}),
       Ignoring(JsonCall(R"({"a":1,"meta":{"x":1}})"), {"/ts", "/meta"})},
      {"ignored form field", Ignoring(FormCall("a=1&ts=5"), {"/ts"}),
       Ignoring(FormCall("ts=6&a=1"), {"/ts"})},
  };
  for (const Pair& pair : pairs) {
    EXPECT_EQ(Derive(pair.first).key, Derive(pair.second).key) << pair.what;
    EXPECT_EQ(Derive(pair.first).args_hash, Derive(pair.second).args_hash) << pair.what;
  }
}

TEST(CanonicalArgsTest, CallsThatDifferGiveDifferentKeys) {
  KeyCase other_path = JsonCall("{}");
  other_path.path = "/orders/7";
  KeyCase other_method = JsonCall("{}");
  other_method.method = "PUT";
  const std::vector<Pair> pairs = {
      {"2^53 and 2^53+1", JsonCall(R"({"x":9007199254740992})"),
       JsonCall(R"({"x":9007199254740993})")},
      {"long fraction", JsonCall(R"({"x":0.30000000000000000001})"), JsonCall(R"({"x":0.3})")},
      {"twenty digits", JsonCall(R"({"x":12345678901234567890.5})"), JsonCall(R"({"x":0})")},
      {"number and string", JsonCall(R"({"x":1})"), JsonCall(R"({"x":"1"})")},
      {"array order", JsonCall(R"([1,2])"), JsonCall(R"([2,1])")},
      {"null and missing", JsonCall(R"({"x":null})"), JsonCall("{}")},
      {"composed and decomposed", JsonCall("{\"x\":\"\xc3\x85\"}"),
       JsonCall("{\"x\":\"A\xcc\x8a\"}")},
      {"form and JSON", FormCall("a=1"), JsonCall(R"({"a":"1"})")},
      {"order of equal form names", FormCall("a=1&a=2"), FormCall("a=2&a=1")},
      {"form with a malformed escape", FormCall("a=%zz"), FormCall("a=%25zz")},
      {"query with a malformed escape", Query("a=%zz"), Query("a=%25zz")},
      {"order of equal query names", Query("a=1&a=2"), Query("a=2&a=1")},
      {"query value moved to another name", Query("a=1&b="), Query("a=&b=1")},
      {"multipart content", Multipart("x", OnePart("x", "1")), Multipart("x", OnePart("x", "2"))},
      {"raw bytes keep their white space", Typed("text/plain", "a b"), Typed("text/plain", "a  b")},
      {"raw type", Typed("text/plain", "a"), Typed("text/csv", "a")},
      {"JSON text without a type", Typed("", R"({"a":1})"), Typed("", R"({"a": 1})")},
      {"patch types", Typed("application/merge-patch+json", "{}"),
       Typed("application/strategic-merge-patch+json; charset=utf-8", "{}")},
      {"path", JsonCall("{}"), other_path},
      {"method", JsonCall("{}"), other_method},
  };
  for (const Pair& pair : pairs) {
    EXPECT_NE(Derive(pair.first).key, Derive(pair.second).key) << pair.what;
    EXPECT_NE(Derive(pair.first).args_hash, Derive(pair.second).args_hash) << pair.what;
  }
}

TEST(CanonicalArgsTest, FieldsThatSayWhatACallDoesAreArguments) {
  for (const char* name : {"Content-Range",
                           "Upload-Offset",
                           "Upload-Metadata",
                           "X-Amz-Target",
                           "X-Amz-Copy-Source",
                           "X-Ms-Copy-Source",
                           "Dropbox-API-Arg",
                           "Destination",
                           "SOAPAction",
                           "X-TC-Action",
                           "Next-Action",
                           "X-Amz-Meta-Owner",
                           "X-Bz-File-Name",
                           "X-Bz-Part-Number",
                           "Slug",
                           "X-Amz-Acl",
                           "X-Ms-Access-Tier",
                           "X-Dry-Run",
                           "Content-Profile",
                           "ce-type"}) {
    KeyCase first, second, other_case;
    first.headers = {{name, "1"}};
    second.headers = {{name, "2"}};
    other_case.headers = {{ToLower(name), "1"}};
    EXPECT_NE(Derive(first).key, Derive(second).key) << name;
    EXPECT_NE(Derive(first).args_hash, Derive(KeyCase()).args_hash) << name;
    EXPECT_EQ(Derive(first).key, Derive(other_case).key) << name;
  }
  for (const char* name : {"Date", "X-Amz-Date", "X-Request-Id", "If-Match", "Accept", "Expect",
                           "X-Amz-Content-Sha256", "Content-MD5", "User-Agent", "Range"}) {
    KeyCase call;
    call.headers = {{name, "1"}};
    EXPECT_EQ(Derive(call).args_hash, Derive(KeyCase()).args_hash) << name;
  }
}

TEST(CanonicalArgsTest, APreferenceIsAnArgumentUnlessItIsAboutTheAnswer) {
  const auto args = [](const char* preferences) {
    KeyCase call;
    call.headers = {{"Prefer", preferences}};
    return Derive(call).args_hash;
  };
  EXPECT_NE(args("return=minimal, tx=rollback"), args("tx=commit"));
  EXPECT_EQ(args("return=minimal, tx=commit"), args("tx=commit,return=representation"));
  EXPECT_EQ(args("return=minimal"), Derive(KeyCase()).args_hash);
}

TEST(CanonicalArgsTest, EncodedBodiesAreTheirBytes) {
  KeyCase packed = JsonCall("{not json}");
  packed.headers.emplace_back("Content-Encoding", "gzip");
  KeyCase plain = Typed("application/octet-stream", "{not json}");
  EXPECT_NE(Derive(packed).key, Derive(plain).key);
}

TEST(CanonicalArgsTest, JsonThatHasTwoReadingsIsRefused) {
  for (const char* body : {R"({"a":1,"a":2})", R"({"a":1,"\u0061":2})", "{\"a\":\"\\ud800\"}",
                           "\xef\xbb\xbf{}", "{\"a\":1,}", "{", " ", "NaN", "01"}) {
    const auto key = TryDerive(JsonCall(body));
    ASSERT_FALSE(key.has_value()) << body;
    EXPECT_EQ(key.error().code(), ErrorCode::kMalformedRequest) << body;
    EXPECT_FALSE(key.error().detail().empty()) << body;
  }
}

TEST(CanonicalArgsTest, JsonInAnotherCharsetIsRefused) {
  for (const char* type :
       {"application/json; charset=utf-16", "application/json;charset=\"iso-8859-1\"",
        "application/json, text/plain; charset", "application/json; charset=utf-7",
        "application/json; charset*=utf-7''", "application/json; x=\"a; charset=utf-7\""}) {
    const auto key = TryDerive(Typed(type, "{}"));
    if (std::string_view(type).starts_with("application/json,")) continue;  // not a JSON type
    ASSERT_FALSE(key.has_value()) << type;
    EXPECT_EQ(key.error().code(), ErrorCode::kUnsupportedMediaType) << type;
  }
}

TEST(CanonicalArgsTest, AnEmptyBodyIsNoBodyWhateverItsType) {
  EXPECT_EQ(Derive(Typed("application/json", "")).key, Derive(Typed("", "")).key);
}

TEST(CanonicalArgsTest, MultipartThatSplitsTwoWaysIsItsBytes) {
  for (const char* body :
       {"preamble\r\n--x\r\nA: b\r\n\r\n1\r\n--x--\r\n",
        "--x\r\nA: b\r\n\r\n1\r\n--x--\r\nepilogue",
        "--x\r\nA: b\r\n\r\n1\r\n--xy\r\nA: b\r\n\r\n2\r\n--x--\r\n",
        "--x\r\nA: b\r\n\r\n1\n--x\nA: b\n\n2\r\n--x--\r\n", "--x\r\nno header\r\n\r\n1\r\n--x--",
        "--x\nA: b\n\n1\n--x--\n", "--x\r\nA: b\r\n\r\n1"}) {
    HttpRequest request{"POST", "/", {{"Content-Type", "multipart/form-data; boundary=x"}}, body};
    const auto read = ReadCallBody(request);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->form, BodyForm::kRaw) << body;
  }
}

TEST(CanonicalArgsTest, JsonThatCallsItselfYamlIsJson) {
  const auto form_of = [](const std::string& body) {
    return ReadCallBody({"PATCH", "/", {{"Content-Type", "application/apply-patch+yaml"}}, body})
        ->form;
  };
  EXPECT_EQ(form_of(R"({"spec":{"replicas":3}})"), BodyForm::kJson);
  EXPECT_EQ(form_of(R"({"a":1,"a":2})"), BodyForm::kRaw);
  EXPECT_EQ(form_of("spec: { replicas: 3 }\n"), BodyForm::kRaw);
}

TEST(CanonicalArgsTest, MultipartWithMorePartsThanTheLimitIsItsBytes) {
  std::string body;
  for (std::size_t i = 0; i <= limits::kMultipartPartsMax; ++i) {
    body += (i == 0 ? "" : "\r\n") + std::string("--x\r\nA: b\r\n\r\n");
  }
  const auto read_with = [](const std::string& parts) {
    return ReadCallBody({"POST",
                         "/",
                         {{"Content-Type", "multipart/form-data; boundary=x"}},
                         parts + "\r\n--x--"})
        ->form;
  };
  EXPECT_EQ(read_with(body), BodyForm::kRaw);
  body.resize(body.size() - std::string_view("\r\n--x\r\nA: b\r\n\r\n").size());
  EXPECT_EQ(read_with(body), BodyForm::kMultipart);
}

}  // namespace
}  // namespace recourse::canonical_args_test
