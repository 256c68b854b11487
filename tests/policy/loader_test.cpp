#include "policy/language/loader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "policy/model/route_table.h"
#include "tests/policy/policy_builder.h"

namespace recourse::loader_test {
namespace {

namespace fs = std::filesystem;

constexpr char kTwoFilesA[] = R"(version: 1
mode: enforce
backends: { orders: { url: "http://orders" } }
)";
constexpr char kTwoFilesB[] = R"(version: 1
tools:
  get: { match: "GET orders /orders/{id}", effect: read }
)";

// A directory of its own, removed at the end.
class PolicyFilesTest : public ::testing::Test {
 protected:
  PolicyFilesTest() {
    std::string name = (fs::temp_directory_path() / "recourse-policy-XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~PolicyFilesTest() override { fs::remove_all(dir_); }
  std::string Write(const std::string& name, const std::string& text) {
    const fs::path path = fs::path(dir_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    chmod(path.c_str(), 0644);
    return path.string();
  }
  std::string dir_;
};

constexpr const char* kEveryWord = R"(
mode: observe
unlisted: { reads: deny, writes: pass }
backends:
  orders:
    url: "https://Orders.Shop.svc:8443/api/"
    hosts: [ orders, "orders.local:81" ]
    key_header: PayPal-Request-Id
    key_lives: 45d
    repeat_if: [ answer.header.Transient ]
    write_reuse: false
    escaped_slash: kept
    protocol: http
    timeout: 20s
    connect_timeout: 250ms
    tls: { ca_file: /ca.pem, client_cert: /c.pem, client_key: /k.pem }
  files: { url: "http://mcp-files:3000/mcp", protocol: mcp, trust_annotations: true }
tools:
  get: { match: [ "GET orders /orders/{id}", "GET orders /o/{id}" ], effect: read, timeout: 2s }
  update:
    match: PUT|PATCH orders /orders/{id}
    effect: write
    identity: [ path.id, request.body#/status ]
    ignore: [ /meta/sent_at, "body#/meta/n" ]
    scope: "header:X-Conversation-Id"
    dedupe_window: 1h
    trace: required
    across_traces: never
    on_mismatch: replay
    external_ref: answer.header.Location
    settle: { request: "GET /orders/{path.id}", happened: answer.body#/status,
              absent: [ answer.status == 404, answer.body#/gone ], absent_after: 0s }
    undo:
      request: "POST /orders/{path.id}/restore"
      headers: { X-Reason: "undo of {key}" }
      json: { status: "{body#/old_status}", n: 1 }
      done: [ 2xx, 404, 500-503 ]
      repeatable: by_key
    approval:
      { by: support, expires: 2m, when: [ request.body#/amount > 1000, body#/urgent == true ] }
    reason: stated
    breaks_flow: on_unknown
    pivot: true
    success_when: answer.body#/ok == true
    not_executed: [ 503, 429 ]
    repeat_if: answer.header.Should-Retry == true
    failed_ttl: 5s
    hold: 0s
    timeout: 30d
flows:
  change: { tools: [ update ], ends_with: update, deadline: 10m, on_deadline: keep }
tests:
  - call: "PUT orders /orders/7?x=1"
    headers: { X-A: b }
    body: { b: 1, a: [ true, "1", null ] }
    expect: { tool: update, effect: write, refused: ambiguous-path, key: [ path.id ] }
)";

TEST(LoaderTest, EveryWordOfABackendMeansWhatItSays) {
  const auto policy = LoadGood(kEveryWord);
  EXPECT_EQ(policy->mode, Mode::kObserve);
  EXPECT_EQ(policy->unlisted_reads, UnlistedRule::kDeny);
  EXPECT_EQ(policy->unlisted_writes, UnlistedRule::kPass);
  EXPECT_EQ(policy->version.size(), 16u);
  const Backend& orders = policy->backends.at(0);
  EXPECT_EQ(orders.name, "orders");
  EXPECT_EQ(orders.scheme, "https");
  EXPECT_EQ(orders.host, "orders.shop.svc");
  EXPECT_EQ(orders.port, 8443);
  EXPECT_EQ(orders.base_path, "/api");
  EXPECT_EQ(orders.authority, "orders.shop.svc:8443");
  EXPECT_EQ(orders.hosts, (std::vector<std::string>{"orders", "orders.local:81"}));
  EXPECT_EQ(orders.key.at.name, "PayPal-Request-Id");
  EXPECT_EQ(orders.key.lives, Millis(45LL * 86'400'000));
  EXPECT_EQ(orders.repeat_if.size(), 1u);
  EXPECT_EQ(policy->backends.at(1).key.lives, Millis(12LL * 3'600'000));
  EXPECT_FALSE(orders.write_reuse);
  EXPECT_TRUE(orders.keeps_escaped_slash);
  EXPECT_EQ(orders.timeout, Millis(20'000));
  EXPECT_EQ(orders.connect_timeout, Millis(250));
  EXPECT_EQ(orders.tls_ca_file, "/ca.pem");
  EXPECT_EQ(orders.tls_client_cert, "/c.pem");
  EXPECT_EQ(orders.tls_client_key, "/k.pem");
  const Backend& files = policy->backends.at(1);
  EXPECT_TRUE(files.is_mcp());
  EXPECT_TRUE(files.trust_annotations);
  EXPECT_EQ(files.base_path, "");
  EXPECT_EQ(files.endpoint, "/mcp");
}

TEST(LoaderTest, EveryWordOfToolsFlowsAndTestsMeansWhatItSays) {
  const auto policy = LoadGood(kEveryWord);
  const Tool& get = *policy->FindTool("get");
  EXPECT_EQ(get.effect, Effect::kRead);
  EXPECT_EQ(get.patterns, (std::vector<std::string>{"/orders/{id}", "/o/{id}"}));
  EXPECT_EQ(get.timeout, Millis(2'000));
  const Tool& update = *policy->FindTool("update");
  EXPECT_EQ(update.methods, (std::vector<std::string>{"PATCH", "PUT"}));
  ASSERT_EQ(update.identity.size(), 2u);
  EXPECT_EQ(update.identity[1].text, "body#/status");
  EXPECT_EQ(update.ignore, (std::vector<std::string>{"/meta/sent_at", "/meta/n"}));
  EXPECT_EQ(update.scope.kind, ScopeRule::Kind::kHeader);
  EXPECT_EQ(update.scope.name, "X-Conversation-Id");
  EXPECT_EQ(update.dedupe_window, Millis(3'600'000));
  EXPECT_TRUE(update.trace_required);
  EXPECT_EQ(update.across_traces, AcrossTraces::kNever);
  EXPECT_EQ(update.on_mismatch, OnMismatch::kReplay);
  EXPECT_EQ(update.external_ref->text, "answer.header.Location");
  EXPECT_EQ(update.settle->request.source, "GET /orders/{path.id}");
  EXPECT_EQ(update.settle->happened.text, "answer.body#/status");
  EXPECT_EQ(update.settle->absent.at(1).text, "answer.body#/gone");
  EXPECT_EQ(update.settle->absent_after, Millis(0));
  EXPECT_EQ(update.undo->request.headers.at(0).first, "X-Reason");
  EXPECT_EQ(update.undo->request.json->members.size(), 2u);
  EXPECT_TRUE(update.undo->done.Contains(404) && update.undo->done.Contains(502));
  EXPECT_EQ(update.undo->repeatable, Repeatable::kByKey);
  EXPECT_EQ(update.approval->by, std::vector<std::string>{"support"});
  EXPECT_EQ(update.approval->expires, Millis(120'000));
  EXPECT_EQ(update.approval->when.size(), 2u);
  EXPECT_EQ(update.reason, "stated");
  EXPECT_EQ(update.breaks_flow, BreaksFlow::kOnUnknown);
  EXPECT_TRUE(update.pivot);
  EXPECT_EQ(update.success_when.size(), 1u);
  EXPECT_TRUE(update.not_executed.Contains(429) && !update.not_executed.Contains(500));
  EXPECT_EQ(update.repeat_if.at(0).text, "answer.header.Should-Retry == true");
  EXPECT_EQ(update.failed_ttl, Millis(5'000));
  EXPECT_EQ(update.hold, Millis(0));
  EXPECT_EQ(update.timeout, Millis(30LL * 86'400'000));

  const Flow& flow = policy->flows.at(0);
  EXPECT_EQ(flow.name, "change");
  EXPECT_EQ(flow.tools, std::vector<std::size_t>{1});
  EXPECT_EQ(flow.ends_with, 1u);
  EXPECT_EQ(flow.deadline, Millis(600'000));
  EXPECT_EQ(flow.on_deadline, OnDeadline::kKeep);

  const PolicyTest& test = policy->tests.at(0);
  EXPECT_EQ(test.method + ' ' + test.backend + ' ' + test.target, "PUT orders /orders/7?x=1");
  EXPECT_EQ(test.body, CanonicalJson(*ParseJson(R"({"a":[true,"1",null],"b":1})")));
  EXPECT_EQ(test.headers, (Headers{{"X-A", "b"}}));
  EXPECT_EQ(test.refused, "ambiguous-path");
  EXPECT_EQ(test.key_parts, std::vector<std::string>{"path.id"});
}

TEST(LoaderTest, WhatIsNotSaidHasItsDefault) {
  const auto policy = LoadGood(R"(
backends: { orders: { url: "http://orders.shop" } }
tools:
  create:
    match: POST orders /orders
    effect: write
    undo: { request: "DELETE /o/{external_ref}" }
)");
  EXPECT_EQ(policy->mode, Mode::kEnforce);
  EXPECT_EQ(policy->unlisted_reads, UnlistedRule::kPass);
  EXPECT_EQ(policy->unlisted_writes, UnlistedRule::kGuard);
  const Backend& orders = policy->backends.at(0);
  EXPECT_EQ(orders.port, 80);
  EXPECT_EQ(orders.authority, "orders.shop");
  EXPECT_EQ(orders.base_path, "");
  EXPECT_FALSE(orders.timeout);
  EXPECT_EQ(orders.connect_timeout, limits::kConnectTimeout);
  const Tool& create = policy->tools.at(0);
  EXPECT_EQ(create.scope.kind, ScopeRule::Kind::kTrace);
  EXPECT_EQ(create.external_ref->text, "answer.body#/id");
  EXPECT_TRUE(create.undo->done.Contains(204));
  EXPECT_FALSE(create.undo->done.Contains(404));
  EXPECT_EQ(create.undo->repeatable, Repeatable::kNo);
  EXPECT_FALSE(create.settle || create.approval || create.timeout);
  EXPECT_EQ(create.hold, limits::kHold);
}

TEST(LoaderTest, ScopesCanBeNamedInEveryForm) {
  const std::pair<const char*, ScopeRule::Kind> rows[] = {
      {"trace", ScopeRule::Kind::kTrace},
      {"session", ScopeRule::Kind::kSession},
      {"caller", ScopeRule::Kind::kCaller},
      {"global", ScopeRule::Kind::kGlobal},
      {"\"header:X-Run\"", ScopeRule::Kind::kHeader},
      {"\"body#/run_id\"", ScopeRule::Kind::kBody},
      {"body#/run_id", ScopeRule::Kind::kBody},
      {"baggage:run", ScopeRule::Kind::kBaggage}};
  for (const auto& [text, kind] : rows) {
    const auto policy =
        LoadGood(std::string("backends: { b: { url: \"http://b\" } }\ntools: { t: { "
                             "match: POST b /, effect: write, reason: r, scope: ") +
                 text + " } }");
    EXPECT_EQ(policy->tools.at(0).scope.kind, kind) << text;
  }
}

TEST(LoaderTest, TheVersionFollowsTheText) {
  const auto a = LoadPolicyText("a.yaml", "version: 1\n");
  const auto b = LoadPolicyText("b.yaml", "version: 1\n");
  const auto c = LoadPolicyText("a.yaml", "version: 1 \n");
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(a.policy->version, b.policy->version);
  EXPECT_NE(a.policy->version, c.policy->version);
}

TEST(LoaderTest, LedgerAndQuotasAreReadAndHaveDefaults) {
  const auto plain = LoadGood("backends: { b: { url: \"http://b\" } }\n");
  EXPECT_EQ(plain->ledger.retention, Millis(7LL * 86'400'000));
  EXPECT_EQ(plain->ledger.tombstones, Millis(90LL * 86'400'000));
  EXPECT_FALSE(plain->quotas.Of("local").writes_in_flight);

  const auto policy = LoadGood(R"(
ledger: { retention: 12h, tombstones: 30d }
quotas:
  default: { writes_in_flight: 8, stored_bytes: 2GiB }
  callers:
    "spiffe://shop/nightly": { operations_per_hour: 500, stored_bytes: 64KiB }
)");
  EXPECT_EQ(policy->ledger.retention, Millis(12LL * 3'600'000));
  EXPECT_EQ(policy->ledger.tombstones, Millis(30LL * 86'400'000));
  const Quota& other = policy->quotas.Of("local");
  EXPECT_EQ(other.writes_in_flight, 8U);
  EXPECT_FALSE(other.operations_per_hour);
  EXPECT_EQ(other.stored_bytes, std::uint64_t{2} << 30);
  const Quota& named = policy->quotas.Of("spiffe://shop/nightly");
  EXPECT_EQ(named.writes_in_flight, 8U);
  EXPECT_EQ(named.operations_per_hour, 500U);
  EXPECT_EQ(named.stored_bytes, 65'536U);
}

TEST_F(PolicyFilesTest, ADirectoryIsOnePolicy) {
  Write("b.yaml", kTwoFilesB);
  Write("a.yml", kTwoFilesA);
  Write(".hidden.yaml", "not: read");
  Write("notes.txt", "not: read");
  const auto loaded = LoadPolicy(dir_);
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  EXPECT_NE(loaded.policy->FindTool("get"), nullptr);
  EXPECT_EQ(loaded.policy->routes->FindTool("get"), loaded.policy->FindTool("get"));
}

TEST_F(PolicyFilesTest, AConfigMapVolumeIsReadThroughItsLinks) {
  Write("..2024_01/a.yaml", kTwoFilesA);
  fs::create_directory_symlink("..2024_01", fs::path(dir_) / "..data");
  fs::create_symlink("..data/a.yaml", fs::path(dir_) / "a.yaml");
  const auto loaded = LoadPolicy(dir_);
  EXPECT_TRUE(loaded.ok()) << ProblemsOf(loaded);
}

TEST_F(PolicyFilesTest, LinksOutOfTheDirectoryAreRefused) {
  const std::string outside = Write("out/a.yaml", kTwoFilesA);
  fs::create_directory(fs::path(dir_) / "in");
  fs::create_symlink(outside, fs::path(dir_) / "in/a.yaml");
  const auto loaded = LoadPolicy(dir_ + "/in");
  EXPECT_FALSE(loaded.ok());
  EXPECT_EQ(ProblemsOf(loaded),
            dir_ + "/in/a.yaml: error: is a link that leads out of the directory\n");
}

TEST_F(PolicyFilesTest, NamesAreUniqueOverAllFiles) {
  Write("a.yaml", kTwoFilesA);
  const std::string b = Write("b.yaml", kTwoFilesA);
  const auto loaded = LoadPolicy(dir_);
  EXPECT_FALSE(loaded.ok());
  const std::string problems = ProblemsOf(loaded);
  EXPECT_NE(problems.find(b + ":3:13: error: backends.orders: this backend is defined in another "
                              "file too"),
            std::string::npos)
      << problems;
  EXPECT_NE(problems.find(b + ":2:1: error: mode: is given in"), std::string::npos) << problems;
}

TEST_F(PolicyFilesTest, AFileThatEveryoneMayWriteIsRefused) {
  const std::string path = Write("p.yaml", kTwoFilesA);
  ASSERT_TRUE(LoadPolicy(path).ok());
  chmod(path.c_str(), 0666);
  const auto loaded = LoadPolicy(path);
  EXPECT_FALSE(loaded.ok());
  EXPECT_NE(ProblemsOf(loaded).find("everyone may write"), std::string::npos);
}

TEST_F(PolicyFilesTest, MissingHugeAndStrangeFilesAreRefused) {
  EXPECT_NE(ProblemsOf(LoadPolicy(dir_ + "/none.yaml")).find("cannot be read"), std::string::npos);
  EXPECT_NE(ProblemsOf(LoadPolicy("/dev/null")).find("not a regular file"), std::string::npos);
  EXPECT_NE(ProblemsOf(LoadPolicy(dir_)).find("has no *.yaml file"), std::string::npos);
  const std::string path = Write("big.yaml", std::string(limits::kPolicyFileBytesMax + 1, '#'));
  EXPECT_NE(ProblemsOf(LoadPolicy(path)).find("larger than 10 MiB"), std::string::npos);
  Write("big.yaml", std::string(limits::kPolicyFileBytesMax - 16, '#') + "\nversion: 1\n");
  EXPECT_TRUE(LoadPolicy(path).ok());
}

TEST(LoaderTest, TheNumberOfProblemsIsBoundedAndWarningsHideNoErrors) {
  std::string yaml = "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n";
  for (int i = 0; i < 2'000; ++i) {
    yaml += fmt::format("  t{}: {{ match: POTS b /{}, effect: write, reason: x }}\n", i, i);
  }
  EXPECT_TRUE(LoadPolicyText("p", yaml).ok());
  for (int i = 0; i < 1'234; ++i) yaml += fmt::format("x{}: 1\n", i);
  const LoadedPolicy loaded = LoadPolicyText("p", yaml);
  EXPECT_FALSE(loaded.ok());
  EXPECT_LE(loaded.problems.size(), 2 * (limits::kPolicyProblemsMax + 1));
  const std::string problems = ProblemsOf(loaded);
  EXPECT_NE(problems.find("x7: unknown key"), std::string::npos);
  EXPECT_NE(problems.find("p: error: 234 more errors are not listed"), std::string::npos);
  EXPECT_NE(problems.find(" more warnings are not listed"), std::string::npos);
}

TEST(LoaderTest, AbsenceIsNeverProofForAProbeByAKeyThatTheBackendIsNotTold) {
  const auto with = [](const std::string& backend, const std::string& probe) {
    const auto policy = LoadGood("backends: { b: { url: \"http://b\"" + backend +
                                 " } }\ntools: { t: { match: POST b /x, effect: write, reason: r,\n"
                                 "  settle: { request: \"GET /x?ref=" +
                                 probe + "\", happened: answer.body#/id, absent_after: 5s } } }\n");
    return policy->FindTool("t")->settle->absent_after;
  };
  EXPECT_FALSE(with("", "{key}"));
  EXPECT_EQ(with(", key_header: Idempotency-Key", "{key}"), Millis(5'000));
  EXPECT_EQ(with("", "{body#/ref}"), Millis(5'000));
}

}  // namespace
}  // namespace recourse::loader_test
