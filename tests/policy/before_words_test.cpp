// `before`, its placeholders and `only_if`: what is accepted, and what is said of the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::before_words_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Policy(const std::string& words, const std::string& match = "PATCH b /issues/{id}") {
  return "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n  t:\n    match: " + match +
         "\n    effect: write\n    identity: path.id\n" + words;
}
std::string Load(const std::string& yaml) { return ProblemsOf(LoadPolicyText("p.yaml", yaml)); }

const std::string kBefore =
    "    before: { request: \"GET /issues/{path.id}\", keep: [ body#/title, body#/labels ], "
    "version: header.ETag }\n";
const std::string kUndo =
    "    undo: { request: \"PATCH /issues/{path.id}\", json: { title: \"{before.body#/title}\", "
    "labels: \"{before.body#/labels/0}\" }, headers: { X-Was: \"{before.header.ETag}\" }, "
    "only_if: unchanged }\n";

TEST(BeforeWordsTest, AnUpdateKeepsWhatItsUndoPutsBack) {
  const auto loaded = LoadPolicyText("p.yaml", Policy(kBefore + kUndo));
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  const Tool& tool = loaded.policy->tools.front();
  ASSERT_TRUE(tool.before);
  EXPECT_EQ(tool.before->keep.size(), 2U);
  EXPECT_EQ(tool.before->missing, BeforeMissing::kRefuse);
  EXPECT_TRUE(tool.undo->only_if_unchanged);
}

TEST(BeforeWordsTest, WhatWasBeforeChoosesTheUndo) {
  const std::string before = "    before: { request: \"GET /i/{path.id}\", keep: body#/open }\n";
  const auto undo = [](const std::string& when) {
    return "    undo: { when: '" + when + "', request: \"POST /i/{path.id}/reopen\" }\n";
  };
  const auto loaded = LoadPolicyText("p.yaml", Policy(before + undo("before.body#/open == true")));
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  EXPECT_EQ(loaded.policy->tools.front().undo->when.front().left.text, "before.body#/open");
  EXPECT_THAT(Load(Policy(undo("before.body#/open == true"))), HasSubstr("has no `before`"));
  EXPECT_THAT(Load(Policy(before + undo("before.body#/shut == true"))),
              HasSubstr("before.keep does not name it; add body#/shut"));
  EXPECT_THAT(Load(Policy(before + undo("key == true"))), HasSubstr("or in what `before` keeps"));
}

TEST(BeforeWordsTest, WhatAHumanApprovedIsPutBackWithoutOne) {
  EXPECT_EQ(Load(Policy(kBefore + kUndo + "    approval: { by: x }\n")).find("needs approval"),
            std::string::npos);
  EXPECT_THAT(Load(Policy("    undo: { request: \"PATCH /issues/{path.id}\" }\n"
                          "    approval: { by: x }\n")),
              HasSubstr("this request is tool t, which needs approval"));
}

struct Row {
  std::string words;
  std::string problem;
};

TEST(BeforeWordsTest, WhatIsWrongIsToldWithTheFix) {
  const std::string get = "request: \"GET /issues/{path.id}\"";
  const Row rows[] = {
      {"    before: { " + get + " }\n" + kUndo,
       "tools.t.before.keep: is missing; what the undo needs of it"},
      {"    before: { keep: body#/title }\n" + kUndo,
       "tools.t.before.request: is missing; a read of what"},
      {"    before: { request: \"POST /i\", keep: body#/title }\n" + kUndo,
       "tools.t.before.request: is GET"},
      {"    before: { " + get + ", keep: answer.body#/title }\n" + kUndo,
       "before.keep: did you mean 'body#/title'?; accepted: places in the body of its answer"},
      {"    before: { " + get + ", keep: header.ETag }\n" + kUndo, "accepted: places in the body"},
      {"    before: { " + get + ", keep: [ body#/a, body#/a ] }\n" + kUndo,
       "body#/a is named twice"},
      {"    before: { " + get + ", keep: body#/a, version: path.id }\n" + kUndo,
       "tools.t.before.version: accepted: a place of its answer that every change alters"},
      {"    before: { " + get + ", keep: body#/a, missing: never }\n" + kUndo,
       "accepted: refuse, approve, go_on"},
      {"    before: { " + get + ", keep: body#/a, missing: approve }\n" + kUndo,
       "missing: approve needs to know who may decide"},
      {"    before: { " + get + ", keep: body#/title }\n" + kUndo,
       "{before.body#/labels/0}: before.keep does not name it; add body#/labels/0"},
      {"    before: { " + get + ", keep: [ body#/title, body#/labels ] }\n" + kUndo,
       "{before.header.ETag}: only the field that before.version names is kept"},
      {kUndo, "the tool has no `before` that would keep it"},
      {"    undo: { request: \"DELETE /i/{path.id}\", only_if: unchanged }\n",
       "only_if: unchanged compares with what `before` reads, and there is none"},
      {"    undo: { request: \"DELETE /i/{path.id}\", only_if: changed }\n",
       "tools.t.undo.only_if: not one of its values"},
      {kBefore + "    undo: { request: \"DELETE /i/{path.id}\" }\n",
       "tools.t.before: keeps what nothing puts back"},
      {kBefore +
           "    undo: { request: \"PATCH /i/{path.id}\", json: { title: \"{before.body#/title}\" } "
           "}\n",
       "tools.t.undo: puts back only part of what before.keep names: body#/labels is missing; add "
       "\"{before.body#/labels}\", or say leaves: body#/labels"},
      {kBefore + "    undo: { request: \"DELETE /i/{path.id}\", leaves: path.id }\n",
       "tools.t.undo.leaves: accepted: places in the body of the call"},
      {kBefore + "    undo: none\n    reason: r\n", "tools.t.before: keeps what nothing puts back"},
      {"    before: { request: \"GET /issues/{path.no}\", keep: [ body#/title, body#/labels ], "
       "version: header.ETag }\n" +
           kUndo,
       "path.no: /issues/{id} has no capture {no}"},
      {"    before: { request: \"GET /issues/{external_ref}\", keep: [ body#/title, body#/labels "
       "], "
       "version: header.ETag }\n" +
           kUndo,
       "{external_ref}: only the call is known before it is sent"},
      {kBefore + kUndo + "    redact: answer.body#/labels\n",
       "body#/labels would be stored, but `redact` says that answer.body#/labels never"},
      {kBefore + kUndo + "    redact: body#/title\n", "body#/title would be stored"},
      {"    before: { " + get +
           ", keep: [ body#/title, body#/labels ], version: header.Set-Cookie }\n" + kUndo,
       "header.Set-Cookie carries credentials"},
      {kBefore + kUndo +
           "    settle: { request: \"GET /i?t={before.body#/title}\", happened: answer.body#/id "
           "}\n",
       "{before.body#/title} is for `undo` only"},
      {kBefore + kUndo +
           "  r:\n    match: GET b /issues/{id}\n    effect: write\n    undo: none\n"
           "    reason: r\n",
       "this request is tool r, a write: it must only read"},
  };
  for (const Row& row : rows) {
    const auto loaded = LoadPolicyText("p.yaml", Policy(row.words));
    EXPECT_FALSE(loaded.ok()) << row.words;
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr(row.problem)) << row.words;
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr("p.yaml:")) << row.words;
  }
}

TEST(BeforeWordsTest, OnlyWhatWasThereBeforeMayBeLeftOutForNull) {
  const auto put_back = [](const std::string& place) {
    return Load(Policy(kBefore +
                       "    undo: { request: \"PATCH /issues/{path.id}\", json: { title: "
                       "\"{" +
                       place + " unless null}\" }, leaves: body#/labels, only_if: unchanged }\n"));
  };
  EXPECT_THAT(put_back("before.body#/title"), Not(HasSubstr("error")));
  for (const std::string place :
       {"body#/title", "answer.body#/title", "before.header.ETag", "external_ref", "path.id"}) {
    EXPECT_THAT(put_back(place),
                HasSubstr("`unless null` is for what `before` keeps: {before.body#/note unless "
                          "null}"))
        << place;
  }
}

TEST(BeforeWordsTest, WhatWouldOverwriteAForeignChangeIsWarnedOf) {
  const std::string warning = "warning: tools.t.undo: puts back what was there before also where";
  const std::string before = "    before: { request: \"GET /i/{path.id}\", keep: body#/a }\n";
  const auto with = [&](const std::string& only_if, const std::string& match) {
    return Load(Policy(before +
                           "    undo: { request: \"PATCH /i/{path.id}\", json: { a: "
                           "\"{before.body#/a}\" }" +
                           only_if + " }\n",
                       match + " b /issues/{id}"));
  };
  EXPECT_THAT(with("", "PATCH"), HasSubstr(warning));
  EXPECT_THAT(with("", "PATCH"), HasSubstr("say only_if: unchanged, or only_if: always"));
  EXPECT_THAT(with(", only_if: unchanged", "PATCH"), Not(HasSubstr(warning)));
  EXPECT_THAT(with(", only_if: always", "PATCH"), Not(HasSubstr("tools.t.undo")));
  EXPECT_THAT(with("", "DELETE"), Not(HasSubstr(warning))) << "nobody changes what is gone";
  EXPECT_THAT(Load(Policy(before + "    undo: { request: \"POST /i/{path.id}/lists/"
                                   "{before.body#/a}\" }\n")),
              HasSubstr(warning));
  EXPECT_THAT(Load(Policy(before + "    undo: { when: before.body#/a, request: \"POST /i/x\" }\n")),
              Not(HasSubstr(warning)));
}

TEST(BeforeWordsTest, OfSeveralUndosEachMaySayForItselfWhetherItOverwrites) {
  const auto with = [](const std::string& first, const std::string& second) {
    const std::string back = "request: \"PATCH /i/{path.id}\", json: { a: \"{before.body#/a}\" }";
    return LoadPolicyText("p.yaml",
                          Policy("    before: { request: \"GET /i/{path.id}\", keep: body#/a }\n"
                                 "    undo: [ { when: header.Prefer, " +
                                 back + first + " }, { " + back + second + " } ]\n"));
  };
  struct Row {
    std::string first, second;
    bool is_first, is_second;
  };
  const std::string unchanged = ", only_if: unchanged", always = ", only_if: always";
  const Row rows[] = {{unchanged, "", true, true},
                      {unchanged, always, true, false},
                      {always, unchanged, false, true},
                      {always, "", false, false}};
  for (const Row& row : rows) {
    const auto loaded = with(row.first, row.second);
    ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
    EXPECT_EQ(ProblemsOf(loaded).find("their change is lost"), std::string::npos);
    const Tool& tool = loaded.policy->tools.front();
    EXPECT_EQ(tool.undo->only_if_unchanged, row.is_first);
    EXPECT_EQ(tool.other_undos.front().only_if_unchanged, row.is_second);
  }
  EXPECT_THAT(ProblemsOf(with("", always)), HasSubstr("their change is lost"));
}

// The fix that is told is one: what `keep` alone takes is not for the undo.
TEST(BeforeWordsTest, APlaceThatMayBeNullIsPutBackByItsName) {
  const auto with = [](const std::string& json) {
    return Load(
        Policy("    before: { request: \"GET /issues/{path.id}\", keep: [ body#/title, "
               "\"body#/labels or null\" ] }\n"
               "    undo: { request: \"PATCH /issues/{path.id}\", only_if: unchanged, json: { "
               "title: \"{before.body#/title}\"" +
               json + " } }\n"));
  };
  EXPECT_THAT(with(""), HasSubstr("body#/labels is missing; add \"{before.body#/labels}\", or say "
                                  "leaves: body#/labels"));
  const std::string told = with(", labels: \"{before.body#/labels or null}\"");
  EXPECT_THAT(told, HasSubstr("did you mean before.body#/labels?"));
  EXPECT_THAT(told, Not(HasSubstr("is missing")));
  EXPECT_THAT(with(", labels: \"{before.body#/labels}\""), Not(HasSubstr("error")));
}

TEST(BeforeWordsTest, AMisspelledPlaceIsHeldAgainstWhatIsKept) {
  const auto with = [](const std::string& undo, const std::string& keep = "[ body#/title ]") {
    return Load(Policy("    before: { request: \"GET /i/{path.id}\", keep: " + keep +
                       " }\n    undo: { request: \"PATCH /i/{path.id}\", only_if: unchanged, " +
                       undo + " }\n"));
  };
  const std::string title = "json: { title: \"{before.body#/title}\" }";
  const std::string told = with("json: { title: \"{before.body#/titel}\" }");
  EXPECT_THAT(told, HasSubstr("{before.body#/titel}: before.keep does not name it, did you mean "
                              "before.body#/title?"));
  EXPECT_THAT(told, Not(HasSubstr("leaves")));
  EXPECT_THAT(with("when: before.body#/titel, " + title),
              HasSubstr("tools.t.undo: when: before.body#/titel: before.keep does not name it"));
  EXPECT_THAT(with(title + ", leaves: title"), HasSubstr("did you mean 'body#/title'?"));
  for (const std::string keep : {"title", "before.body#/title", "answer.body#/title"}) {
    const std::string wrong = with(title, keep);
    EXPECT_THAT(wrong, HasSubstr("before.keep: did you mean 'body#/title'?")) << keep;
    EXPECT_THAT(wrong, Not(HasSubstr("does not name it"))) << keep;
  }
  EXPECT_THAT(with(title, "\"*\""), HasSubstr("did you mean 'body#'?"));
  EXPECT_THAT(with(title, "body#/title, version: ETag"), HasSubstr("did you mean 'header.ETag'?"));
  const std::string absent =
      Load(Policy("    undo: { request: \"PATCH /i/{path.id}\", "
                  "only_if: unchanged, json: { a: \"{before.body#/a}\", b: "
                  "\"{before.body#/b}\" } }\n"));
  EXPECT_EQ(std::count(absent.begin(), absent.end(), '\n'), 1) << absent;
  EXPECT_THAT(Load(Policy("    before: \"GET /i/{path.id}\"\n" + kUndo)),
              HasSubstr("a map is accepted here: { request: \"GET /issues/{path.id}\", keep:"));
}

TEST(BeforeWordsTest, AReplacementPutsBackTheWholeOrSaysThatTheRestStays) {
  const std::string problem = "tools.t.undo: is a PUT, which replaces all, and names only part";
  const auto with = [&](const std::string& keep, const std::string& json,
                        const std::string& more = "", const std::string& method = "PUT") {
    return Load(Policy("    before: { request: \"GET /issues/{path.id}\", keep: " + keep +
                           " }\n    undo: { request: \"" + method + " /issues/{path.id}\", json: " +
                           json + ", only_if: unchanged" + more + " }\n",
                       "PUT b /issues/{id}"));
  };
  const std::string title = "{ title: \"{before.body#/title}\" }";
  EXPECT_THAT(with("body#/title", title), HasSubstr(problem));
  EXPECT_THAT(with("body#/title, version: header.ETag", title), HasSubstr(problem));
  EXPECT_THAT(with("body#", title), HasSubstr(problem)) << "kept whole, and put back in part";
  EXPECT_THAT(with("body#/title", title, "", "PATCH"), Not(HasSubstr("error")));
  EXPECT_THAT(with("body#/title", title, ", rest: stays"), Not(HasSubstr("error")));
  EXPECT_THAT(with("body#", "\"{before.body#}\""), Not(HasSubstr("error")));
  EXPECT_THAT(with("body#", "{ labels: \"{before.body#}\" }"), Not(HasSubstr("error")));
  EXPECT_THAT(with("body#/data", "\"{before.body#/data}\""), Not(HasSubstr("error")));
  EXPECT_THAT(with("body#/title", title, ", rest: stays", "PATCH"),
              HasSubstr("undo.rest: speaks of a PUT"));
  EXPECT_THAT(with("body#/title", title, ", rest: goes"), HasSubstr("undo.rest: not one of"));
}

TEST(BeforeWordsTest, AVersionThatIsNeverATextIsTold) {
  const auto with = [](const std::string& keep, const std::string& version) {
    return Load(Policy("    before: { request: \"GET /issues/{path.id}\", keep: " + keep +
                       ", version: " + version +
                       " }\n    undo: { request: \"PATCH /issues/{path.id}\", json: { title: "
                       "\"{before.body#/data/title}\" }, only_if: unchanged }\n"));
  };
  const std::string title = "body#/data/title";
  EXPECT_THAT(with(title, "body#"),
              HasSubstr("p.yaml:8:73: warning: tools.t.before.version: body# is never a text or a "
                        "number, so nothing is compared by it; accepted: a place of its answer"));
  EXPECT_THAT(with(title, "body#/data"), HasSubstr("body#/data is never a text or a number"));
  EXPECT_THAT(with(title, "body#/"), HasSubstr("body#/ is taken literally, and will hardly ever"));
  for (const std::string version : {"body#/data/titles", "body#/data/version", "body#/data/title",
                                    "body#/dat", "header.ETag"}) {
    EXPECT_THAT(with(title, version), Not(HasSubstr("before.version"))) << version;
  }
}

TEST(BeforeWordsTest, AnMcpToolIsReadByACallOfARead) {
  const auto with = [](const std::string& before, const std::string& get = "read") {
    return Load(
        "version: 1\nbackends: { m: { url: \"http://m/mcp\", protocol: mcp } }\ntools:\n"
        "  get:\n    match: tools/call m get\n    effect: " +
        get + (get == "write" ? "\n    undo: none\n    reason: r\n" : "\n") +
        "  t:\n    match: tools/call m edit\n    effect: write\n    identity: body#/id\n"
        "    before: { " +
        before +
        ", keep: body#/title }\n"
        "    undo: { call: edit, arguments: { title: \"{before.body#/title}\" } }\n");
  };
  const std::string call = "call: get, arguments: { id: \"{body#/id}\" }";
  EXPECT_THAT(with(call), Not(HasSubstr("error")));
  EXPECT_THAT(with(call + ", version: body#/etag"), Not(HasSubstr("error")));
  EXPECT_THAT(with(call + ", version: header.ETag"),
              HasSubstr("before.version: accepted: a place"));
  EXPECT_THAT(with(call, "write"), HasSubstr("get is tool get, a write: it must only read"));
  EXPECT_THAT(with("call: show"), HasSubstr("no tool of this policy is tools/call m show"));
  EXPECT_THAT(with("request: \"GET /x\""), HasSubstr("is for tools that are matched by a path"));
  EXPECT_THAT(with("call: get, arguments: { id: \"{path.id}\" }"),
              HasSubstr("has no path and no query"));
}

}  // namespace
}  // namespace recourse::before_words_test
