#include "policy/model/route_table.h"

#include <gtest/gtest.h>

#include <string>

#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::route_table_test {
namespace {

// The sample policy of the path corpus: wide reads, one write among them.
constexpr char kSample[] = R"(
unlisted: { reads: deny, writes: deny }
backends:
  orders: { url: "http://orders.shop.svc:8080" }
tools:
  read:   { match: GET orders /orders/**, effect: read }
  delete: { match: POST|GET orders /orders/delete, effect: write, reason: sample }
)";

std::string Describe(const std::expected<RouteMatch, CallRefusal>& match) {
  if (!match) return std::string(FactsOf(match.error().code()).slug);
  std::string out = match->tool == nullptr ? "unlisted" : match->tool->name;
  for (std::size_t i = 0; i < match->capture_count; ++i) {
    out += " " + std::string(match->captures[i].name) + "=" + std::string(match->captures[i].value);
  }
  return out;
}

std::string MatchOf(const Policy& policy, std::string_view method, std::string_view path) {
  std::string scratch;
  return Describe(policy.routes->Match(policy.backends[0], method, path, scratch));
}

struct Row {
  const char* method;
  const char* path;
  const char* expected;
};

void ExpectRows(const Policy& policy, std::initializer_list<Row> rows) {
  for (const Row& row : rows) {
    EXPECT_EQ(MatchOf(policy, row.method, row.path), row.expected) << row.method << ' ' << row.path;
  }
}

TEST(RouteTableTest, AMethodThatServersTakeForAnotherIsRefused) {
  const auto policy = LoadGood(R"(
unlisted: { reads: pass, writes: guard }
backends:
  shop: { url: "http://shop" }
tools:
  pay: { match: POST shop /pay, effect: write, reason: sample }
  any: { match: "* shop /any", effect: write, reason: sample }
)");
  ExpectRows(*policy, {
                          {"POST", "/pay", "pay"},
                          {"post", "/pay", "malformed-request"},
                          {"pOST", "/pay", "malformed-request"},
                          {"post", "/pay/", "malformed-request"},  // the path is read loosely too
                          {"get", "/other", "malformed-request"},  // a read in upper case
                          {"post", "/other", "unlisted"},
                          {"Purge", "/other", "unlisted"},
                          {"post", "/any", "any"},
                      });
}

TEST(RouteTableTest, ThePathCorpusFallsUnderTheStricterRule) {
  const auto policy = LoadGood(kSample);
  ExpectRows(*policy, {
                          {"GET", "/orders/7", "read"},
                          {"GET", "/orders/7/items", "read"},
                          {"GET", "/orders", "read"},
                          {"GET", "/orders/", "read"},
                          {"GET", "/orders/delete", "delete"},
                          {"POST", "/orders/delete", "delete"},
                          {"GET", "/orders/dele%74e", "delete"},             // P17
                          {"GET", "/orders/delete/", "ambiguous-path"},      // P13
                          {"GET", "/orders/DELETE", "ambiguous-path"},       // P16
                          {"GET", "/orders/Delete/", "ambiguous-path"},      //
                          {"GET", "/orders/delete%20", "ambiguous-path"},    // P19
                          {"GET", "/orders/delete.", "ambiguous-path"},      //
                          {"GET", "/orders/delete.%20.", "ambiguous-path"},  //
                          {"GET", "/orders/delete.json", "ambiguous-path"},  //
                          {"GET", "/orders/delete.json/", "ambiguous-path"},
                          {"GET", "/orders/delete.tar.gz", "ambiguous-path"},
                          {"GET", "/orders./delete/", "unlisted"},
                          {"GET", "/orders/DELETE.JSON", "ambiguous-path"},
                          {"GET", "/orders/deleted", "read"},
                          {"GET", "/orders/delete/7", "read"},
                          {"GET", "/orders/report.json", "read"},
                          {"GET", "/orders/X7/", "read"},
                          {"GET", "/orders/*", "read"},          // P34
                          {"GET", "/orders/**", "read"},         //
                          {"GET", "/nothing/here", "unlisted"},  // P43
                          {"GET", "/", "unlisted"},              //
                          {"DELETE", "/orders/7", "unlisted"},   //
                          {"GET", "/ordersX", "unlisted"},       //
                          {"GET", "/orders/x/../delete", "ambiguous-path"},
                          {"GET", "/orders/{id}", "malformed-request"},
                      });
}

TEST(RouteTableTest, AScriptWithAPathBehindItIsNoWayAroundARule) {
  const auto policy = LoadGood(R"(
unlisted: { reads: pass, writes: guard }
backends: { shop: { url: "http://shop" } }
tools:
  pay: { match: POST shop /pay, effect: write, reason: sample }
  buy: { match: POST shop /shop/buy.php, effect: write, reason: sample }
  any: { match: POST shop /api/**, effect: read }
  gated: { match: POST shop /api/pay, effect: write, reason: sample }
  run: { match: "POST shop /api/run.php/{what}", effect: read }
)");
  ExpectRows(*policy, {
                          {"POST", "/index.php/pay", "ambiguous-path"},
                          {"POST", "/INDEX.PHP/pay/", "ambiguous-path"},
                          {"POST", "/index.php5/pay.json", "ambiguous-path"},
                          {"POST", "/public/index.php/pay", "ambiguous-path"},
                          {"POST", "/pay.php/x", "ambiguous-path"},
                          {"POST", "/pay.php/x/y", "ambiguous-path"},
                          {"POST", "/pay.aspx/x", "ambiguous-path"},
                          {"POST", "/shop/buy.php/x", "ambiguous-path"},
                          {"POST", "/api/index.php/pay", "ambiguous-path"},
                          {"POST", "/api/pay.cgi/x", "ambiguous-path"},
                          {"POST", "/api/index.php/other", "any"},
                          {"POST", "/api/run.php/it", "run what=it"},
                          {"POST", "/index.php/other", "unlisted"},
                          {"POST", "/pay.phpx/x", "unlisted"},
                          {"POST", "/.php/pay", "unlisted"},
                          {"POST", "/pay/index.php", "unlisted"},
                      });
}

TEST(RouteTableTest, UnlistedCallsDoNotSlipPastAToolByAnotherReading) {
  const auto policy = LoadGood(R"(
unlisted: { reads: pass, writes: guard }
backends: { orders: { url: "http://orders" } }
tools:
  create: { match: POST orders /orders, effect: write, reason: sample }
  get:    { match: "GET orders /orders/{id}", effect: read }
  cancel: { match: "POST orders /orders/7:cancel", effect: write, reason: sample }
  pay:    { match: "POST orders /Orders/{id}/Pay", effect: write, reason: sample }
)");
  ExpectRows(*policy, {
                          {"POST", "/orders", "create"},
                          {"POST", "/orders/", "ambiguous-path"},
                          {"POST", "/ORDERS", "ambiguous-path"},
                          {"POST", "/orders.", "ambiguous-path"},
                          {"POST", "/orders.%20./7", "unlisted"},
                          {"POST", "/Orders./7/Pay", "ambiguous-path"},
                          {"POST", "/orders/7:cancel", "cancel"},
                          {"POST", "/orders/7%3Acancel", "ambiguous-path"},
                          {"GET", "/orders/7%3Acancel", "get id=7%3Acancel"},
                          {"POST", "/Orders/7/Pay", "pay id=7"},
                          {"POST", "/orders/7/pay", "ambiguous-path"},
                          {"POST", "/orders/7/other", "unlisted"},
                          {"GET", "/orders/7/", "unlisted"},
                          {"GET", "/orders", "unlisted"},
                      });
}

TEST(RouteTableTest, APathWithoutTheSlashOfItsRuleIsAmbiguousUnlessBothAreListed) {  // P13
  const auto policy = LoadGood(R"(
backends: { orders: { url: "http://orders" } }
tools:
  slash: { match: POST orders /django/, effect: write, reason: sample }
  both:  { match: [ POST orders /both, POST orders /both/ ], effect: write, reason: sample }
)");
  ExpectRows(*policy, {{"POST", "/django/", "slash"},
                       {"POST", "/django", "ambiguous-path"},
                       {"POST", "/Django", "ambiguous-path"},
                       {"POST", "/both", "both"},
                       {"POST", "/both/", "both"}});
}

TEST(RouteTableTest, AReadOnOneReadingNeverHidesAnApprovalOnAnother) {
  const auto policy = LoadGood(R"(
backends: { orders: { url: "http://orders" } }
tools:
  any:  { match: POST orders /pay/**, effect: write, reason: sample }
  wire: { match: POST orders /pay/wire, effect: write, undo: none, approval: { by: [ team ] } }
)");
  ExpectRows(*policy, {{"POST", "/pay/wire", "wire"},
                       {"POST", "/pay/wire/", "ambiguous-path"},
                       {"POST", "/pay/w%C4%B1re", "ambiguous-path"},        // dotless i
                       {"POST", "/pay/%EF%BD%97ire", "ambiguous-path"},     // fullwidth w
                       {"POST", "/pay/%F0%9D%90%96ire", "ambiguous-path"},  // bold W
                       {"POST", "/pay/w%C3%ADre", "any"},                   // i with an accent
                       {"POST", "/pay/%E9%87%91", "any"},
                       {"POST", "/pay/card/", "any"}});
}

TEST(RouteTableTest, LiteralBeatsCaptureBeatsRest) {
  const auto policy = LoadGood(R"(
backends: { orders: { url: "http://orders" } }
tools:
  rest:    { match: GET orders /a/**, effect: read }
  one:     { match: "GET orders /a/{x}", effect: read }
  literal: { match: GET orders /a/b, effect: read }
  deep:    { match: "GET orders /a/{x}/c", effect: read }
  deeper:  { match: "GET orders /a/b/{y}", effect: read }
  search:  { match: POST orders /a/search, effect: read }
  root:    { match: GET orders /, effect: read }
  django:  { match: GET orders /d/, effect: read }
  any:     { match: "* orders /any", effect: read }
  put:     { match: PUT orders /any, effect: write, reason: sample }
)");
  ExpectRows(*policy, {
                          {"GET", "/a/b", "literal"},
                          {"GET", "/a/z", "one x=z"},
                          {"GET", "/a/z/c", "deep x=z"},
                          {"GET", "/a/b/c", "deeper y=c"},
                          {"GET", "/a/z/d", "rest"},
                          {"GET", "/a/b/c/d", "rest"},
                          {"GET", "/a", "rest"},
                          {"GET", "/a/search", "one x=search"},
                          {"POST", "/a/search", "search"},
                          {"HEAD", "/a/b", "literal"},
                          {"Trace", "/a/b", "unlisted"},
                          {"GET", "/", "root"},
                          {"GET", "/d/", "django"},
                          {"GET", "/d", "unlisted"},
                          {"PATCH", "/any", "any"},
                          {"PUT", "/any", "put"},
                          {"GET", "/a/x%20y", "one x=x%20y"},
                      });
}

TEST(RouteTableTest, UnlistedCallsFollowTheRuleOfTheirMethod) {
  const auto policy = LoadGood(R"(
unlisted: { reads: deny, writes: pass }
backends: { orders: { url: "http://orders" } }
)");
  std::string scratch;
  for (const char* method : {"GET", "HEAD", "OPTIONS"}) {
    const auto match = policy->routes->Match(policy->backends[0], method, "/x", scratch);
    ASSERT_TRUE(match);
    EXPECT_EQ(match->effect, Effect::kRead);
    EXPECT_EQ(match->unlisted, UnlistedRule::kDeny);
  }
  for (const char* method : {"POST", "DELETE", "PUT", "PROPFIND", "Propfind"}) {
    const auto match = policy->routes->Match(policy->backends[0], method, "/x", scratch);
    ASSERT_TRUE(match);
    EXPECT_EQ(match->effect, Effect::kWrite);
    EXPECT_EQ(match->unlisted, UnlistedRule::kPass);
  }
}

TEST(RouteTableTest, BackendsAreFoundByUrlAndHosts) {
  const auto policy = LoadGood(R"(
backends:
  orders: { url: "http://Orders.Shop.svc:8080", hosts: [ orders, "shop.local:81" ] }
  pay:    { url: "https://api.payments.example" }
  plain:  { url: "http://plain" }
  six:    { url: "http://[::1]:9000" }
)");
  const auto find = [&](std::string_view authority, std::uint16_t port) -> std::string {
    const Backend* backend = policy->routes->FindBackend(authority, port);
    return backend == nullptr ? "-" : backend->name;
  };
  EXPECT_EQ(find("orders.shop.svc:8080", 80), "orders");
  EXPECT_EQ(find("ORDERS.shop.SVC:8080", 80), "orders");
  EXPECT_EQ(find("orders.shop.svc", 80), "-");
  EXPECT_EQ(find("orders.shop.svc", 8080), "orders");
  EXPECT_EQ(find("orders", 80), "orders");
  EXPECT_EQ(find("orders:1234", 80), "orders");
  EXPECT_EQ(find("shop.local:81", 80), "orders");
  EXPECT_EQ(find("shop.local", 80), "-");
  EXPECT_EQ(find("api.payments.example", 80), "pay");
  EXPECT_EQ(find("api.payments.example:443", 80), "pay");
  EXPECT_EQ(find("api.payments.example:80", 80), "-");
  EXPECT_EQ(find("plain", 80), "plain");
  EXPECT_EQ(find("plain:80", 80), "plain");
  EXPECT_EQ(find("plain:8080", 80), "-");
  EXPECT_EQ(find("[::1]:9000", 80), "six");
  EXPECT_EQ(find("[::1]", 80), "-");
  EXPECT_EQ(find("[::1]", 9000), "six");
  EXPECT_EQ(find("", 80), "-");
  EXPECT_EQ(find(std::string(5000, 'a'), 80), "-");
  EXPECT_EQ(find("169.254.169.254", 80), "-");
}

TEST(RouteTableTest, ThousandsOfRoutesGiveTheSameAnswerAsTen) {
  std::string yaml = "backends: { orders: { url: \"http://orders\" } }\ntools:\n";
  for (int i = 0; i < 5000; ++i) {
    const std::string n = std::to_string(i);
    yaml += "  get" + n + ": { match: \"GET orders /r" + n + "/{id}\", effect: read }\n";
    yaml += "  put" + n + ": { match: \"PUT orders /r" + n +
            "/{id}/x\", effect: write, reason: r, identity: path.id }\n";
  }
  const auto policy = LoadGood(yaml);
  ASSERT_EQ(policy->tools.size(), 10'000u);
  for (int i = 0; i < 5000; i += 7) {
    const std::string n = std::to_string(i);
    EXPECT_EQ(MatchOf(*policy, "GET", "/r" + n + "/5"), "get" + n + " id=5");
    EXPECT_EQ(MatchOf(*policy, "PUT", "/r" + n + "/5/x"), "put" + n + " id=5");
    EXPECT_EQ(MatchOf(*policy, "PUT", "/r" + n + "/5"), "unlisted");
    EXPECT_EQ(policy->FindTool("put" + n)->name, "put" + n);
  }
  EXPECT_EQ(policy->FindTool("put5000"), nullptr);
}

}  // namespace
}  // namespace recourse::route_table_test
