#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/language/config_reader.h"
#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::loader_errors_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Load(const std::string& yaml) { return ProblemsOf(LoadPolicyText("p.yaml", yaml)); }

// A policy with one good backend and one write tool that has `words` besides.
std::string WithTool(const std::string& words) {
  return "version: 1\nbackends: { b: { url: \"http://b\", key_header: Idempotency-Key } }\n"
         "tools:\n  t:\n    match: \"POST b /t/{id}\"\n    effect: write\n    identity: "
         "body#/id\n" +
         words;
}
std::string WithBackend(const std::string& words) {
  return "version: 1\nbackends:\n  b: { " + words + " }\n";
}

struct Row {
  std::string yaml;
  std::string problem;
};
void ExpectRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const auto loaded = LoadPolicyText("p.yaml", row.yaml);
    EXPECT_FALSE(loaded.ok()) << row.yaml;
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr(row.problem)) << row.yaml;
  }
}

TEST(LoaderErrorsTest, AWindowEndsBeforeItsKeyIsForgotten) {
  const auto with = [](const std::string& window) {
    return WithTool("    undo: none\n    reason: r\n    dedupe_window: " + window + "\n") +
           "ledger: { retention: 1h, tombstones: 2h }\n";
  };
  ExpectRows({{with("181m"),
               "dedupe_window: is longer than ledger.retention and "
               "ledger.tombstones together: the key is forgotten before"}});
  EXPECT_THAT(Load(with("180m")), Not(HasSubstr("error")));
}

TEST(LoaderErrorsTest, LedgerAndQuotasHaveBounds) {
  const std::string b = "version: 1\nbackends: { b: { url: \"http://b\" } }\n";
  ExpectRows({
      {b + "ledger: { retention: 999ms }\n", "ledger.retention: the duration must be at least"},
      {b + "ledger: { retention: 367d }\n", "ledger.retention: accepted: a duration"},
      {b + "ledger: { tombstones: 0s }\n", "ledger.tombstones: the duration must be at least"},
      {b + "ledger: { retain: 7d }\n", "ledger.retain: unknown key"},
      {b + "ledger: 7d\n", "ledger: a map is accepted here"},
      {b + "quotas: { default: { writes_in_flight: 0 } }\n", "accepted: a whole number from 1"},
      {b + "quotas: { default: { writes_in_flight: many } }\n", "accepted: a whole number"},
      {b + "quotas: { default: { writes_in_flight: 1.5 } }\n", "accepted: a whole number"},
      {b + "quotas: { default: { operations_per_hour: 1000000001 } }\n", "a whole number"},
      {b + "quotas: { default: { stored_bytes: 10 } }\n", "accepted: a size such as"},
      {b + "quotas: { default: { stored_bytes: 0KiB } }\n", "accepted: a size such as"},
      {b + "quotas: { default: { stored_bytes: 17TiB } }\n", "accepted: a size such as"},
      {b + "quotas: { default: { stored: 1GiB } }\n", "quotas.default.stored: unknown key"},
      {b + "quotas: { callers: [ a ] }\n", "quotas.callers: a map of callers to quotas"},
      {b + "quotas: { callers: { \"a b\": { writes_in_flight: 1 } } }\n", "visible ASCII"},
  });
}

TEST(LoaderErrorsTest, AShortRetentionAndAWindowBeyondItAreWarnedAbout) {
  const std::string b = "version: 1\nbackends: { b: { url: \"http://b\" } }\n";
  EXPECT_THAT(Load(b + "ledger: { retention: 59m }\n"), HasSubstr("warning: ledger.retention"));
  EXPECT_THAT(Load(b + "ledger: { retention: 1h }\n"), Not(HasSubstr("ledger.retention")));
  const std::string tool = WithTool("    undo: none\n    reason: r\n    dedupe_window: 2h\n");
  EXPECT_THAT(Load(tool + "ledger: { retention: 1h }\n"),
              HasSubstr("dedupe_window: is longer than ledger.retention"));
  EXPECT_THAT(Load(tool), Not(HasSubstr("longer than ledger.retention")));
}

TEST(LoaderErrorsTest, ProblemsNamePlaceKeyAndWhatIsAccepted) {
  EXPECT_EQ(Load("version: 1\n"
                 "mode: enforced\n"
                 "backends:\n"
                 "  orders: { url: \"http://orders\", key_headr: Idempotency-Key }\n"
                 "tools:\n"
                 "  orders.create:\n"
                 "    match: POST orders /orders\n"
                 "    effect: rite\n"
                 "    identity: body#/id\n"
                 "    dedupe_window: 5\n"
                 "    undo:\n"
                 "      request: \"DELETE /orders/{external_reff}\"\n"),
            "p.yaml:2:7: error: mode: not one of its values, did you mean 'enforce'?; accepted: "
            "enforce, observe\n"
            "p.yaml:4:35: error: backends.orders.key_headr: unknown key, did you mean "
            "'key_header'?; accepted: addresses, connect_timeout, credentials, escaped_slash, "
            "hosts, intercept, key_after_failure, key_answer, key_at, key_form, key_header, "
            "key_hit, key_lives, key_scope, persisted, protocol, repeat_if, timeout, tls, "
            "trust_annotations, trust_effects, url, write_reuse\n"
            "p.yaml:8:13: error: tools.orders.create.effect: not one of its values, did you mean "
            "'write'?; accepted: read, write\n"
            "p.yaml:10:20: error: tools.orders.create.dedupe_window: accepted: a duration such as "
            "250ms, 5s, 10m, 1h or 30d\n"
            "p.yaml:12:16: error: tools.orders.create.undo.request: {external_reff} is no place, "
            "did you mean 'external_ref'?; accepted: body#/pointer, path.name, query.name, "
            "header.Name, key, external_ref, answer.body#/pointer, answer.header.Name, "
            "answer.status, before.body#/pointer, before.header.Name\n");
}

TEST(LoaderErrorsTest, TheFileMustBePlainYaml) {
  ExpectRows({
      {"", "p.yaml:1:1: error: version: is missing: the file is empty"},  // Y15
      {"# only a comment\n", "the file is empty"},
      {"backends: {}\n", "p.yaml:1:1: error: version: is missing"},
      {"version: 2\n", "p.yaml:1:10: error: version: this program reads version 1"},
      {"version: \"1\"\n", "version: this program reads version 1"},
      {"version: 01\n", "version: this program reads version 1"},
      {"- 1\n", "p.yaml:1:1: error: a map is accepted here"},
      {"version: 1\nversion: 1\n", "p.yaml:2:1: error: version: given twice; first in line 1"},
      {"version: 1\nbackends:\n  b: { url: \"http://b\" }\n  b: { url: \"http://c\" }\n",
       "p.yaml:4:3: error: backends.b: given twice; first in line 3"},               // Y01
      {"version: &a 1\n", "p.yaml:1:10: error: version: anchors are not accepted"},  // Y02
      {"version: 1\nmode: &m enforce\nunlisted: *m\n", "aliases are not accepted"},
      {"version: 1\n<<: { mode: enforce }\n", "<<: unknown key"},
      {"version: !!int 1\n", "tags are not accepted"},
      {"\xEF\xBB\xBFversion: 1\n", "p.yaml:1:1: error: the file starts with a byte order mark"},
      {"version: 1\r\n", "p.yaml:1:11: error: the line ends with CR LF"},
      {"version: 1\nbackends:\n\tb: 1\n", "p.yaml:3:1: error: a tab in the indentation"},
      {std::string("version: 1\n#\0\n", 13), "p.yaml:2:2: error: a control character"},
      {"version: 1\nmode: [enforce\n", "p.yaml:2:7: error: this '[' is not closed"},
      {"version: 1\n---\nversion: 1\n",
       "p.yaml:2:1: error: a second document begins here; one document per file is accepted"},
      {"version: 1\n# na\xefve\n", "p.yaml:2:5: error: is not UTF-8"},
      {"version: 1\n# \xc3\xa9 \xed\xa0\x80\n", "p.yaml:2:6: error: is not UTF-8"},
      {std::string("\xff\xfev\0", 4), "p.yaml:1:1: error: is not UTF-8"},
      {"version: 1\n? [a]\n: 1\n", "a key must be plain text"},
      {"version: 1\nmodes: enforce\n", "modes: unknown key, did you mean 'mode'?"},  // Y05
      {"version: 1\nbackends:\n", "p.yaml:2:1: error: backends: has no value"},
      {"version: 1\nbackends: []\n", "a map of names to backends is accepted"},
      {"version: 1\ntools: x\n", "a map of names to tools is accepted"},
      {"version: 1\nunlisted: { reads: guard }\n", "unlisted.reads: not one of its values"},
      {"version: 1\ntests: {}\n", "p.yaml:2:8: error: tests: a list is accepted here"},
      {"version: 1\nx: " + std::string(5'000, '['), "not valid YAML"},
  });
}

TEST(LoaderErrorsTest, WordsThatYamlReadsInAnotherWayMustBeQuoted) {  // Y03
  ExpectRows({
      {WithTool("    reason: no\n"),
       "p.yaml:8:13: error: tools.t.reason: 'no' is a boolean to YAML"},
      {WithTool("    reason: off\n"), "is a boolean"},
      {WithTool("    reason: Yes\n"), "is a boolean"},
      {WithTool("    reason: 010\n"), "is an octal number"},
      {WithTool("    reason: 1:30\n"), "is a sexagesimal number"},
      {WithTool("    reason: ~\n"), "has no value"},
      {WithTool("    reason: [ a ]\n"), "a text is accepted here"},
      {WithTool("    reason: r\n    pivot: yes\n"), "tools.t.pivot: accepted: true or false"},
      {WithTool("    reason: r\n    pivot: \"true\"\n"), "accepted: true or false"},
      {WithTool("    reason: r\n    hold: 1:30\n"), "accepted: a duration"},
      {WithTool("    undo: { request: POST /u, json: { a: no } }\n"),
       "p.yaml:8:42: error: tools.t.undo.json.a: 'no' is a boolean to YAML and not to JSON"},
      {WithTool("    undo: { request: POST /u, json: { a: 010 } }\n"), "octal number"},
      {WithTool("    undo: { request: POST /u, json: { a: 1_000 } }\n"), "a number to YAML"},
      {WithTool("    undo: { request: POST /u, json: { a: .5 } }\n"), "a number to YAML"},
      {WithTool("    undo: { request: POST /u, json: { a: {external_ref} } }\n"),
       "json.a: quote the placeholder: \"{external_ref}\""},
      {WithTool("    undo: { request: POST /u, json: { \"{key}\": 1 } }\n"),
       "a member name is fixed text"},
  });
  EXPECT_TRUE(LoadPolicyText("p.yaml", WithTool("    reason: \"no\"\n")).ok());
}

TEST(LoaderErrorsTest, CredentialsAreRefusedWhereverTheyStand) {  // Y14
  const std::string tail(20, 'a');
  for (const std::string& secret : std::vector<std::string>{
           "sk_live_" + tail, "AKIA" + std::string(16, 'B'), "-----BEGIN RSA PRIVATE KEY-----",
           "Bearer eyJhbGciOi", "ghp_" + tail, "token=xoxb-" + tail}) {
    const std::string said = Load("version: 1\n# was: " + secret + "\n");
    EXPECT_THAT(said, HasSubstr("p.yaml:2:")) << secret;
    EXPECT_THAT(said, HasSubstr("looks like a credential")) << secret;
    EXPECT_THAT(said, Not(HasSubstr("aaaaaaa"))) << "the message repeats it";
  }
  for (const std::string& word :
       std::vector<std::string>{"sk_live_", "keys begin with AKIA", "Bearer {header.X}", "-----",
                                "task_sk_live_" + tail}) {
    EXPECT_THAT(Load("version: 1\n# " + word + "\n"), Not(HasSubstr("credential"))) << word;
  }
}

TEST(LoaderErrorsTest, AnEmptyFileIsAnErrorAndAnEmptyPolicyServesNobody) {  // Y15
  for (const char* empty : {"", "\n", "# nothing\n", "---\n"}) {
    ExpectRows({{empty, "p.yaml:1:1: error: version: is missing"}});
  }
  const auto loaded = LoadPolicyText("p.yaml", "version: 1\n");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  EXPECT_TRUE(loaded.policy->backends.empty());
}

TEST(LoaderErrorsTest, TheNumberOfRoutesIsBounded) {  // Y13
  std::string yaml =
      "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools: { t: { effect: read, match: [";
  for (std::size_t i = 0; i <= limits::kPolicyRoutesMax; ++i) {
    yaml += "GET b /r" + std::to_string(i) + ",";
  }
  EXPECT_THAT(Load(yaml + "] } }\n"), HasSubstr("more than 100000 routes"));
}

TEST(LoaderErrorsTest, DurationsHaveAUnit) {
  const std::pair<const char*, std::int64_t> good[] = {
      {"250ms", 250},    {"5s", 5'000},          {"2m", 120'000}, {"10m", 600'000},
      {"1h", 3'600'000}, {"30d", 2'592'000'000}, {"0s", 0}};
  for (const auto& [text, millis] : good) EXPECT_EQ(ParseDuration(text), Millis(millis)) << text;
  for (const char* bad : {"", "5", "s", "5 s", "5S", "-5s", "+5s", "1.5s", "05s", "5sec", "1h30m",
                          "367d", "99999999999999999999s", "9223372036854775807d"}) {
    EXPECT_FALSE(ParseDuration(bad)) << bad;
  }
  EXPECT_THAT(Load(WithTool("    reason: r\n    timeout: 0s\n")),
              HasSubstr("tools.t.timeout: the duration must be more than zero"));
}

TEST(LoaderErrorsTest, BackendsAreCheckedAtTheirPlace) {
  ExpectRows({
      {WithBackend("hosts: x"), "p.yaml:3:6: error: backends.b.url: is missing"},
      {WithBackend("url: b"), "backends.b.url: accepted: http://host"},
      {WithBackend("url: \"ftp://b\""), "accepted: http://host"},
      {WithBackend("url: \"http://\""), "accepted: http://host"},
      {WithBackend("url: \"http://b:0\""), "accepted: http://host"},
      {WithBackend("url: \"http://b:65536\""), "accepted: http://host"},
      {WithBackend("url: \"http://b:x\""), "accepted: http://host"},
      {WithBackend("url: \"http://{env.HOST}\""), "accepted: http://host"},  // T04
      {WithBackend("url: \"http://user:pw@b\""),
       "p.yaml:3:13: error: backends.b.url: a url carries no user or password"},
      {WithBackend("url: \"http://b/?q=1\""), "no query and no fragment"},
      {WithBackend("url: \"http://b/#f\""), "no query and no fragment"},
      {WithBackend("url: \"http://b/a/../c\""), "dot segment"},
      {WithBackend("url: \"http://169.254.169.254\""), "a cloud metadata address"},  // T11
      {WithBackend("url: \"http://[fe80::1]\""), "a link-local address"},
      {WithBackend("url: \"http://127.0.0.1\", addresses: [ public, 10.0.0.1/8 ]"),
       "backends.b.addresses[1]: accepted: public, private"},
      {WithBackend("url: \"http://10.0.0.1\", addresses: [ 10.2.0.0/16 ]"), "a private address"},
      {WithBackend("url: \"http://[::ffff:169.254.169.254]\""), "refused as a backend"},
      {WithBackend("url: \"http://0.0.0.0:80\""), "refused as a backend"},
      {WithBackend("url: \"http://0x7f.1\""), "accepted: http://host"},  // P50
      {WithBackend("url: \"http://2130706433\""), "accepted: http://host"},
      {WithBackend("url: \"http://m\xC3\xBCnchen.example\""), "accepted: http://host"},  // P49
      {WithBackend("url: \"http://b\", hosts: [ \"a/b\" ]"), "backends.b.hosts[0]: accepted: host"},
      {WithBackend("url: \"http://b\", key_header: \"A B\""), "backends.b.key_header: accepted"},
      {WithBackend("url: \"http://b\", key_lives: 1h"), "backends.b.key_lives: says how long"},
      {WithBackend("url: \"http://b\", repeat_if: body#/x"), "this looks at the answer"},
      {WithBackend("url: \"http://b\", key_header: Content-Length"), "backends.b.key_header"},
      {WithBackend("url: \"http://b\", protocol: grpc"), "accepted: http, mcp"},
      {WithBackend("url: \"http://b\", trust_annotations: true"), "protocol: mcp"},
      {WithBackend("url: \"http://b\", tls: { ca_file: x }"), "the url is http"},
      {WithBackend("url: \"https://b\", tls: { client_cert: x }"), "go together"},
      {WithBackend("url: \"http://b\" }\n  c: { url: \"http://B:80/other\""),
       "p.yaml:4:3: error: backends.c: has the same authority b:80 as backend b"},
      {WithBackend("url: \"http://b\", hosts: x }\n  c: { url: \"http://c\", hosts: X"),
       "has the same authority x as backend b"},
      {"version: 1\nbackends: { \"a b\": { url: \"http://b\" } }\n", "a name has letters"},
  });
  for (const char* good :
       {"http://b", "https://b:8443/x/", "http://127.0.0.1:3000", "http://[::1]:1",
        "http://a_b.c-d.svc.cluster.local", "http://1password.example"}) {
    const auto loaded = LoadPolicyText("p.yaml", WithBackend(std::string("url: \"") + good + '"'));
    EXPECT_TRUE(loaded.ok()) << good << ": " << ProblemsOf(loaded);
  }
}

TEST(LoaderErrorsTest, MatchesAreCheckedAtTheirPlace) {
  const auto with_match = [](const std::string& match) {
    return "version: 1\nbackends: { orders: { url: \"http://o\" }, mail: { url: \"http://m\" } }\n"
           "tools:\n  t:\n    match: " +
           match + "\n    effect: read\n";
  };
  ExpectRows({
      {with_match("GET"), "p.yaml:5:12: error: tools.t.match: accepted: \"METHOD backend /path\""},
      {with_match("/orders"), "accepted: \"METHOD backend /path\""},
      {with_match("get orders /o"), "'get' is no list of methods"},
      {with_match("GET|GET orders /o"), "is no list of methods"},
      {with_match("GET|* orders /o"), "is no list of methods"},
      {with_match("GET order /o"),
       "no backend is called 'order', did you mean 'orders'?; defined: mail, orders"},
      {with_match("GET orders o"), "a path starts with '/'"},
      {with_match("GET orders /a/*"), "no regular expressions and no other wildcards; use"},
      {with_match("GET orders /**/a"), "or /** at the end"},
      {with_match("\"GET orders /a{id}\""), "a capture is a whole segment"},
      {with_match("\"GET orders /{a}/{a}\""), "the same name"},
      {with_match("\"GET orders /{a-b}\""), "a capture is {name}"},
      {with_match("GET orders /a//b"), "empty segment"},
      {with_match("GET orders /a/../b"), "dot segment"},
      {with_match("GET orders /%61"), "canonical form"},
      {with_match("GET orders /a;b"), "parameters"},
      {with_match("\"GET orders /{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}\""), "at most 8 captures"},
      {with_match("[ GET orders /a, GET mail /a ]"),
       "p.yaml:5:29: error: tools.t.match[1]: all matches of a tool have one backend"},
      {with_match("[]"), "the list is empty"},
      {"version: 1\ntools: { t: { match: GET b /, effect: write, reason: r, settle: { request: "
       "\"GET "
       "/{key}\", happened: answer.status } } }\n",
       "no backend is called 'b'\n"},
  });
}

TEST(LoaderErrorsTest, AmbiguousRoutesAreRefused) {  // Y06
  const std::string head = "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n";
  ExpectRows({
      {head + "  x: { match: \"GET b /o/{id}\", effect: read }\n"
              "  y: { match: \"GET|POST b /o/{name}\", effect: write, reason: r }\n",
       "p.yaml:5:15: error: tools.y.match: GET /o/{name} is ambiguous: tool x matches the same"},
      {head + "  x: { match: [ GET b /o, GET b /o ], effect: read }\n", "GET /o is given twice"},
      {head + "  x: { match: \"* b /o/**\", effect: read }\n"
              "  y: { match: \"* b /o/**\", effect: read }\n",
       "* /o/** is ambiguous"},
  });
  EXPECT_TRUE(LoadPolicyText("p.yaml", head + "  x: { match: \"GET b /o/{id}\", effect: read }\n"
                                              "  y: { match: \"POST b /o/{id}\", effect: read }\n"
                                              "  z: { match: \"GET b /o/z\", effect: read }\n"
                                              "  r: { match: \"GET b /o/**\", effect: read }\n"
                                              "  a: { match: \"* b /o/{id}\", effect: read }\n")
                  .ok());
}

TEST(LoaderErrorsTest, AWriteSaysHowItIsUndoneOrWhyNot) {  // Y09
  ExpectRows({
      {WithTool(""), "p.yaml:4:3: error: tools.t.undo: a write needs one of these"},
      {WithTool("    undo: undecided\n    reason: r\n"), "tools.t.undo: nobody has decided yet"},
      {WithTool("    undo: none\n"),
       "p.yaml:8:11: error: tools.t.undo: `undo: none` needs a human"},
      {WithTool("    undo: never\n"), "tools.t.undo: accepted: none, undecided, or {"},
      {WithTool("    undo: {}\n"), "tools.t.undo.request: is missing"},
      {WithTool("    approval: {}\n"), "tools.t.approval.by: is missing"},
      {WithTool("    approval: { by: [] }\n"), "tools.t.approval.by: the list is empty"},
      {WithTool("    approval: true\n"), "tools.t.approval: a map is accepted"},
  });
  for (const char* good : {"    reason: why\n", "    undo: none\n    reason: why\n",
                           "    approval: { by: a }\n", "    undo: none\n    approval: { by: a }\n",
                           "    undo: { request: \"DELETE /u/{external_ref}\" }\n"}) {
    const auto loaded = LoadPolicyText("p.yaml", WithTool(good));
    EXPECT_TRUE(loaded.ok()) << good << ProblemsOf(loaded);
  }
}

TEST(LoaderErrorsTest, TemplatesAreCheckedWhenTheyAreLoaded) {
  ExpectRows({
      {WithTool("    undo: { request: \"DELETE http://evil/{external_ref}\" }\n"),
       "p.yaml:8:22: error: tools.t.undo.request: the path must start with '/'"},  // T04
      {WithTool("    undo: { request: \"DELETE //{body#/host}\" }\n"), "empty segment"},
      {WithTool("    undo: { request: \"{body#/m} /u\" }\n"), "fixed capital letters"},
      {WithTool("    undo: { request: POST /u, headers: { \"X {key}\": 1 } }\n"), "fixed name"},
      {WithTool("    undo: { request: POST /u, headers: { Host: x } }\n"), "fixed name of a field"},
      {WithTool("    undo: { request: POST /u, headers: { Authorization: Bearer abc } }\n"),
       "a secret does not belong in this file"},  // Y14
      {WithTool("    undo: { request: POST /u, headers: { X-A: \"a\\nb\" } }\n"), "no line breaks"},
      {WithTool("    undo: { request: \"DELETE /u/{env.SECRET}\" }\n"), "accepted: body#/"},  // T17
      {WithTool("    undo: { request: \"DELETE /u/{path.name}\" }\n"),
       "tools.t.undo: path.name: /t/{id} has no capture {name}"},
      {WithTool("    undo: { request: \"GET /u\" }\n"), "takes nothing back"},
      {WithTool("    undo: { request: POST /u, done: [ 2x ] }\n"),
       "undo.done[0]: accepted: statuses"},
      {WithTool("    undo: { request: POST /u, repeatable: maybe }\n"), "true, false, by_key"},
      {WithTool("    undo: { request: POST /u, body: x }\n"), "undo.body: unknown key"},
      {WithTool("    reason: r\n    settle: { request: \"POST /s\", happened: answer.status }\n"),
       "tools.t.settle.request: is GET or HEAD"},  // T20
      {WithTool("    reason: r\n    settle: { request: GET /s }\n"), "settle.happened: is missing"},
      {WithTool("    reason: r\n    settle: { request: GET /s, happened: body#/id }\n"),
       "settle.happened: this looks at the answer"},
      {WithTool("    reason: r\n    settle: { request: \"GET /s/{external_ref}\", happened: "
                "answer.status }\n"),
       "{external_ref} comes from the answer, and there is none"},
      {WithTool("    reason: r\n    settle: { request: \"GET /s/{answer.body#/id}\", happened: "
                "answer.status }\n"),
       "comes from the answer"},
      {WithTool("    reason: r\n    identity: answer.body#/id\n"), "given twice"},
      {WithTool("    reason: r\n    external_ref: key\n"),
       "external_ref: accepted: a place in the"},
      {WithTool("    reason: r\n    success_when: body#/ok == true\n"), "this looks at the answer"},
      {WithTool("    reason: r\n    success_when: answer.status = 1\n"), "did you mean '=='?"},
      {WithTool("    approval: { by: a, when: answer.status == 1 }\n"),
       "only the request is known"},
      {WithTool("    reason: r\n    ignore: [ meta ]\n"), "ignore[0]: accepted: a JSON pointer"},
      {WithTool("    reason: r\n    scope: \"header:A B\"\n"), "tools.t.scope: accepted: trace"},
      {WithTool("    reason: r\n    not_executed: [ 5xxx ]\n"),
       "not_executed[0]: accepted: statuses"},
  });
}

TEST(LoaderErrorsTest, AnUndoNeedsNoHuman) {
  const std::string undo = WithTool("    undo: { request: \"DELETE /t/{external_ref}\" }\n");
  ExpectRows({
      {undo + "  d: { match: \"DELETE b /t/{id}\", effect: write, approval: { by: a } }\n",
       "p.yaml:8:11: error: tools.t.undo: this request is tool d, which needs approval"},  // T18
      {WithTool("    undo: { request: POST /u, repeatable: by_key }\n") +
           "  d: { match: POST c /x, effect: write, undo: { request: POST /y, repeatable: by_key } "
           "}\n",
       "no backend is called 'c'"},
  });
  for (const char* words : {"undo: none, reason: r", "undo: { request: POST /r }"}) {  // T19
    const std::string head = undo + "  d: { match: \"DELETE b /t/{id}\", effect: write, ";
    EXPECT_TRUE(LoadPolicyText("p.yaml", head + words + " }\n").ok());
  }
  // A tool may be its own inverse: putting back what was there before.
  EXPECT_TRUE(
      LoadPolicyText("p.yaml", WithTool("    undo: { request: \"POST /t/{path.id}\" }\n")).ok());
}

TEST(LoaderErrorsTest, ReadsHaveNoWordsOfWrites) {
  const std::string yaml =
      "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n"
      "  t: { match: POST b /search, effect: read, identity: body#/q, reason: r, timout: 1s }\n";
  const std::string problems = Load(yaml);
  EXPECT_THAT(problems, HasSubstr("p.yaml:4:45: error: tools.t.identity: is for writes only"));
  EXPECT_THAT(problems, HasSubstr("tools.t.reason: is for writes only"));
  EXPECT_THAT(problems, HasSubstr("tools.t.timout: unknown key, did you mean 'timeout'?"));
  EXPECT_THAT(problems, Not(HasSubstr("tools.t.timout: is for writes")));
}

TEST(LoaderErrorsTest, OnlyAGetThatIsAReadMayBecomeATunnel) {
  const std::string yaml = "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n  t: ";
  const std::string read = yaml + "{ match: GET b /live, effect: read, ";
  ExpectRows({
      {read + "upgrade: [ h2c ] }\n", "tools.t.upgrade[0]: accepted: websocket"},
      {yaml + "{ match: POST b /live, effect: read, upgrade: websocket }\n",
       "p.yaml:4:43: error: tools.t.upgrade: an upgrade begins with a GET"},
      {yaml + "{ match: \"GET|POST b /live\", effect: read, upgrade: websocket }\n",
       "tools.t.upgrade: an upgrade begins with a GET"},
      {yaml + "{ match: GET b /live, effect: write, undo: none, reason: r, upgrade: websocket }\n",
       "tools.t.upgrade: is for reads only"},
  });
  const auto loaded = LoadPolicyText("p.yaml", read + "upgrade: websocket }\n");
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.policy->tools[0].upgrades, std::vector<std::string>{"websocket"});
}

TEST(LoaderErrorsTest, FlowsAndTestsNameWhatExists) {
  const std::string tool = WithTool("    reason: r\n") + "  g: { match: GET b /, effect: read }\n";
  ExpectRows({
      {tool + "flows: { f: { tools: [ t, u ] } }\n",
       "p.yaml:10:27: error: flows.f.tools[1]: no tool is called 'u'"},
      {tool + "flows: { f: {} }\n", "flows.f.tools: is missing"},
      {tool + "flows: { f: { tools: [ t, t ] } }\n", "named twice"},
      {tool + "flows: { f: { tools: [ g ] } }\n", "this tool is a read"},
      {tool + "flows: { f: { tools: t, ends_with: x } }\n", "flows.f.ends_with: no tool is called"},
      {tool + "flows: { f: { tools: t, on_deadline: undo } }\n", "no meaning without `deadline`"},
      {tool + "flows: { f: { tools: t, deadline: 1m, on_deadline: stop } }\n", "undo, keep, ask"},
      {tool + "tests: [ { call: GET /, expect: { effect: read } } ]\n",
       "p.yaml:10:18: error: tests[0].call: accepted: \"METHOD backend /path?query\""},
      {tool + "tests: [ { call: GET x /, expect: { effect: read } } ]\n",
       "no backend is called 'x'"},
      {tool + "tests: [ { call: GET b / } ]\n", "tests[0].expect: is missing"},
      {tool + "tests: [ { call: GET b /, expect: {} } ]\n", "expects nothing"},
      {tool + "tests: [ { call: GET b /, expect: { tool: x } } ]\n", "no tool is called 'x'"},
      {tool + "tests: [ { call: GET b /, expect: { effect: run } } ]\n", "accepted: read, write"},
  });
}

TEST(LoaderErrorsTest, WarningsSayWhatMayGoWrong) {
  const std::string head = "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n";
  const std::pair<std::string, std::string> rows[] = {
      {head + "  t: { match: POST b /t, effect: write, reason: r }\n",
       "p.yaml:4:3: warning: tools.t.identity: is not given, so the whole body is the key"},
      {head + "  t: { match: POST b /t, effect: write, reason: r, identity: body#/a }\n",
       "p.yaml:4:3: warning: tools.t.settle: is not given and the backend has no key_header"},
      {head + "  t: { match: POST b /t, effect: write, reason: r, ignore: /ts }\n",
       "tools.t.ignore: /ts is a top-level member"},  // J35
      {head + "  t: { match: POST b /t, effect: write, reason: r, identity: body#/a, settle: { "
              "request: \"GET /t?k={key}\", happened: answer.body#/0 } }\n",
       "backend b is never told the key"},
      {head + "  r: { match: GET b /t/**, effect: read }\n"
              "  t: { match: GET b /t/delete, effect: write, reason: r }\n",
       "p.yaml:5:15: warning: tools.t.match: the read r covers GET /t/delete too"},  // Y08
      {head + "  t: { match: POST b /t, effect: write, reason: r, success_when: 'answer.status == "
              "\"201\"' }\n",
       "'answer.status == \"201\"' can never be evaluated: the status is a number"},
  };
  for (const auto& [yaml, warning] : rows) {
    const auto loaded = LoadPolicyText("p.yaml", yaml);
    EXPECT_TRUE(loaded.ok()) << yaml << ProblemsOf(loaded);
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr(warning)) << yaml;
  }
  const std::string keyed =
      "version: 1\nbackends: { b: { url: \"http://b\", key_header: K } }\ntools:\n";
  for (const std::string& quiet :
       {head + "  t: { match: DELETE b /t, effect: write, reason: r }\n",
        keyed +
            "  t: { match: POST b /t, effect: write, reason: r, identity: body#/a, ignore: /t }\n",
        keyed + "  t: { match: POST b /t, effect: write, reason: r, scope: \"body#/run\" }\n",
        head + "  t: { match: POST b /t/search, effect: read }\n",
        head + "  r: { match: GET b /t/**, effect: read }\n"
               "  t: { match: GET b /t/delete, effect: write, reason: r }\n"
               "tests: [ { call: GET b /t/delete, expect: { tool: t } } ]\n"}) {
    EXPECT_EQ(ProblemsOf(LoadPolicyText("p.yaml", quiet)), "") << quiet;
  }
}

}  // namespace
}  // namespace recourse::loader_errors_test
