// Credentials that only Recourse has: tokens, and what answers show of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <expected>
#include <string>
#include <vector>

#include "filters/credentials/credential_upstream.h"
#include "filters/credentials/frame_scrubber.h"
#include "proxy/base/crypto/hash.h"
#include "tests/support/scripted_upstream.h"
#include "tests/support/test_loop.h"

namespace recourse::credentials_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kSecret = "canary-0123456789";

TEST(EchoScrubberTest, WhatAnAnswerShowsIsBlankedHoweverItIsCut) {
  const std::string text = "a canary-0123456789 canary-012345678 canary-canary-0123456789";
  std::string clean = text;
  (void)EchoScrubber({std::string(kSecret), "short"}).Clean(clean, true);
  EXPECT_EQ(clean, "a ***************** canary-012345678 canary-*****************");
  for (std::size_t size = 1; size <= text.size(); ++size) {
    EchoScrubber scrubber({std::string(kSecret)});
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += size) {
      out += scrubber.Take(std::string_view(text).substr(at, size), at + size >= text.size());
    }
    EXPECT_EQ(out, clean) << size;
  }
}

TEST(EchoScrubberTest, HoldsNothingBackThatCannotBeOne) {
  EchoScrubber scrubber({std::string(kSecret)});
  EXPECT_EQ(scrubber.Take("event: x\n\n", false), "event: x\n\n");
  EXPECT_EQ(scrubber.Take("can", false), "");
  EXPECT_EQ(scrubber.Take("not", false), "cannot");
  EXPECT_EQ(scrubber.Take("data: a can\n\n", false), "data: a can\n\n");
  EXPECT_EQ(EchoScrubber().Take("canary-0123456789", false), "canary-0123456789");
}

TEST(EchoScrubberTest, KnowsWhatAJsonWriterOrAUrlHasEscaped) {
  std::string text = R"({"a":"se\/cret+token","b":"se%2Fcret%2Btoken"})";
  (void)EchoScrubber({"se/cret+token"}).Clean(text, true);
  EXPECT_EQ(text, R"({"a":"**************","b":"*****************"})");
}

TEST(EchoScrubberTest, KnowsItInWhateverIsEscapedOfIt) {
  const std::string secret = "se/c&ret+to\"ken=";
  for (const std::string_view shown : {
           R"(se\/c&ret+to\"ken=)",                    // JSON of PHP
           R"(se/c\u0026ret\u002Bto\u0022ken\u003d)",  // of Gson, .NET, Go
           R"(se\\\/c\\u0026ret+to\\\"ken=)",          // JSON in JSON
           "se%2Fc%26ret%2Bto%22ken%3D",
           "se%2fc%26ret%2bto%22ken%3d",            // urls
           "se%252Fc%2526ret%252Bto%2522ken%253D",  // a url in a url
           "se/c&amp;ret&#43;to&quot;ken&#x3D;",
           "se&#47;c&#x26;ret+to&#34;ken=",  // pages
           R"(\u0073\u0065\u002f\u0063\u0026\u0072\u0065\u0074+to\u0022ken=)",
       }) {
    const std::string text = "a " + std::string(shown) + " z";
    const std::string clean = "a " + std::string(shown.size(), '*') + " z";
    for (std::size_t size = 1; size <= text.size(); ++size) {
      EchoScrubber scrubber({secret});
      std::string out;
      for (std::size_t at = 0; at < text.size(); at += size) {
        out += scrubber.Take(std::string_view(text).substr(at, size), at + size >= text.size());
      }
      EXPECT_EQ(out, clean) << size;
    }
  }
  for (const std::string_view other :
       {R"(se\u002fc\u0027ret)", "se%2", "se&#47", R"(se\\\\\\\\\\/c&ret+to"ken=)"}) {
    std::string text(other);
    (void)EchoScrubber({secret}).Clean(text, true);
    EXPECT_EQ(text, other);
  }
}

// What is left of the text in which the secret stood as `shown`, in pieces of every size.
void ExpectBlanked(const std::string& secret, const std::string& shown) {
  const std::string text = "a " + shown + " z",
                    clean = "a " + std::string(shown.size(), '*') + " z";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    EchoScrubber scrubber({secret});
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += size) {
      out += scrubber.Take(std::string_view(text).substr(at, size), at + size >= text.size());
    }
    EXPECT_EQ(out, clean) << shown << ' ' << size;
  }
}

TEST(EchoScrubberTest, KnowsItInAnotherCaseCharsetAndCoding) {
  const std::string secret = "Canary/01+23=";
  using namespace std::string_literals;
  for (const std::string& shown : {"CANARY/01+23="s, "canary/01+23="s, R"(Canary\x2f01\x2B23\x3d)"s,
                                   R"(Canary\05701\05323\075)"s, R"(Canary\u{2f}01\u{002b}23=)"s,
                                   "Canary&sol;01&plus;23&equals;"s, "43616e6172792f30312b32333d"s,
                                   "43616E6172792F30312B32333D"s,
                                   "C\0a\0n\0a\0r\0y\0/\0"
                                   "0\0"
                                   "1\0+\0"
                                   "2\0"
                                   "3\0="s,
                                   "C\0\0\0a\0\0\0n\0\0\0a\0\0\0r\0\0\0y\0\0\0/\0\0\0"
                                   "0\0\0\0"
                                   "1\0\0\0+\0\0\0"
                                   "2\0\0\0"
                                   "3\0\0\0="s}) {
    ExpectBlanked(secret, shown);
  }
}

TEST(EchoScrubberTest, KnowsItInBase64WhereverItStandsThere) {
  const std::string secret = "canary?>~0123456789";
  for (const std::string before : {"", "k", "ke", "key=", "Authorization: Bearer "}) {
    for (const std::string after : {"", ";", "\r\n", " and more"}) {
      std::string text = ToBase64(before + secret + after);
      for (const bool is_for_urls : {false, true}) {
        if (is_for_urls) std::ranges::replace(text, '+', '-');
        if (is_for_urls) std::ranges::replace(text, '/', '_');
        std::string clean = text;
        (void)EchoScrubber({secret}).Clean(clean, true);
        // A character at each end is made of its neighbours, too.
        EXPECT_GE(std::ranges::count(clean, '*'), static_cast<std::ptrdiff_t>(secret.size()));
        EXPECT_EQ(clean.size(), text.size());
      }
    }
  }
}

TEST(EchoScrubberTest, KnowsItCutIntoLines) {
  const std::string secret = "canary/01+23=45";
  for (const char* const shown :
       {"canary\n/01+23=45", "canary\r\n/01+23=45", "cana\nry/01+23=4\n5",
        "canary\r\n\t  /01+\n23=45", R"(canary\n/01+23=45)", R"(canary\r\n/01+\n23=45)",
        R"(canary\\n/01+23=45)", R"(canary\u000a/01+23=45)", "canary%0A%2f01+23=45",
        "canary&#10;/01+23=45", "63616e6172792f\n30312b32333d3435"}) {
    ExpectBlanked(secret, shown);
  }
  std::string early = "c\nanary/01+23=45";
  (void)EchoScrubber({secret}).Clean(early, true);
  EXPECT_EQ(early, std::string(early.size(), '*'));
  for (const std::string_view other : {"canary \n/01+23=45", "canary\n\n", "canary\nx", "canary/01",
                                       "\ncanary", "canary x/01+23=45"}) {
    std::string text(other);
    (void)EchoScrubber({secret}).Clean(text, true);
    EXPECT_EQ(text, other);
  }
  EchoScrubber scrubber({secret});
  EXPECT_EQ(scrubber.Take("canary", false), "");
  std::size_t passed = 0;
  for (int i = 0; i < 1'000; ++i) passed += scrubber.Take("\n", false).size();
  EXPECT_GT(passed, 900U);
}

TEST(EchoScrubberTest, KnowsItInBase64OfLinesHoweverLongTheyAre) {
  std::string text = "Authorization: Bearer ";
  const std::string secret = "canary?>~0123456789abcdefghijklmnopqrstuvwxyz-0123456789-abcdef";
  text = ToBase64(text + secret + " and more");
  for (const std::size_t columns : {5U, 60U, 64U, 76U}) {
    for (const std::string_view end : {"\n", "\r\n", R"(\n)", R"(\r\n)"}) {
      std::string wrapped;
      for (std::size_t at = 0; at < text.size(); at += columns) {
        wrapped += (at == 0 ? "" : std::string(end)) + text.substr(at, columns);
      }
      std::string clean = wrapped;
      (void)EchoScrubber({secret}).Clean(clean, true);
      EXPECT_GE(std::ranges::count(clean, '*'), static_cast<std::ptrdiff_t>(secret.size()));
      EXPECT_EQ(clean.size(), wrapped.size());
    }
  }
}

TEST(EchoScrubberTest, KnowsWhatOfAFieldIsSecretByItself) {
  const auto shows = [](const std::string& value, std::string text) {
    const std::string before = text;
    (void)EchoScrubber({value}).Clean(text, true);
    return text == before;
  };
  EXPECT_FALSE(shows("Bearer canary-0123", "token canary-0123 is bad"));
  EXPECT_FALSE(shows("canary-0123", "token canary-0123 is bad"));
  EXPECT_FALSE(shows("sid=canary-0123; theme=\"long-canary\"", "canary-0123"));
  EXPECT_FALSE(shows("sid=canary-0123; theme=\"long-canary\"", "long-canary"));
  EXPECT_FALSE(shows("Basic " + ToBase64("user:canary-0123"), "no user with canary-0123"));
  EXPECT_FALSE(shows("Basic " + ToBase64("u:canary-01"), ToBase64("u:canary-01")));
  EXPECT_FALSE(shows("Digest username=\"a\", response=\"canary-0123\"", "canary-0123"));
  EXPECT_TRUE(shows("Negotiate canary-0123", "use Negotiate or username"));
  EXPECT_TRUE(shows("session-id=canary-0123", "your session-id"));
  EXPECT_TRUE(shows("canary-0123==", "==0123"));
}

TEST(EchoScrubberTest, NamesOfFieldsShowNothingEither) {
  HttpResponse answer{200, "canary-0123456789", {{"X-canary-0123456789", "a"}}, "{}"};
  EchoScrubber({std::string(kSecret)}).Clean(answer);
  EXPECT_EQ(answer.headers.front().first, "X-*****************");
  EXPECT_EQ(answer.reason, "*****************");
}

TEST(EchoScrubberTest, TheLongestOfSeveralIsBlankedWhole) {
  std::string text = "canary-0123456789 canary-01";
  (void)EchoScrubber({"canary-01", std::string(kSecret)}).Clean(text, true);
  EXPECT_EQ(text, "***************** *********");
  EchoScrubber cut({"canary-01", std::string(kSecret)});
  EXPECT_EQ(cut.Take("canary-01", false), "");
  EXPECT_EQ(cut.Take("23456789", true), "*****************");
}

TEST(EchoScrubberTest, WhatMayBeEscapedForEverIsHeldBackForAWhile) {
  EchoScrubber scrubber({std::string(kSecret)});
  std::size_t passed = 0;
  for (int i = 0; i < 1'000; ++i) passed += scrubber.Take(R"(\\\\)", false).size();
  EXPECT_GT(passed, 3'900U);
}

TEST(OwnCredentialTest, ItsFieldIsItsInWhateverSpelling) {
  Backend backend;
  backend.secrets.push_back({"X-Api-Key", "/f"});
  for (const char* const name : {"X-Api-Key", "x-api-key", "X_Api_Key"}) {
    EXPECT_TRUE(IsOwnCredential(backend, nullptr, name)) << name;
  }
  EXPECT_FALSE(IsOwnCredential(backend, nullptr, "X-Api-Key-Id"));
}

std::string Frame(int first, std::string_view payload) {
  std::string frame{static_cast<char>(first)};
  if (payload.size() < 126) {
    frame += static_cast<char>(payload.size());
  } else {
    frame += static_cast<char>(126);
    frame += static_cast<char>(payload.size() >> 8);
    frame += static_cast<char>(payload.size() & 0xff);
  }
  return frame + std::string(payload);
}
constexpr int kText = 0x81, kFirst = 0x01, kMore = 0x00, kLast = 0x80, kPing = 0x89;

// What goes on of it when it comes in pieces of that size; "!": it is not to be looked through.
std::string Passed(const std::string& bytes, std::size_t size) {
  FrameScrubber frames{EchoScrubber({std::string(kSecret)})};
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const auto passed = frames.Take(std::string_view(bytes).substr(at, size));
    if (!passed) return out + "!";
    out += *passed;
  }
  return out;
}

TEST(FrameScrubberTest, BlanksACredentialInWhateverFramesItComes) {
  const std::string stars(kSecret.size(), '*');
  const std::string sent = Frame(kText, "a canary-0123456789") + Frame(kFirst, "can") +
                           Frame(kPing, "canary-0123456789") + Frame(kMore, "ary-01234") +
                           Frame(kLast, "56789 end") + Frame(kText, std::string(300, 'c'));
  const std::string clean = Frame(kText, "a " + stars) + Frame(kFirst, "***") +
                            Frame(kPing, stars) + Frame(kMore, "*********") +
                            Frame(kLast, "***** end") + Frame(kText, std::string(300, 'c'));
  for (std::size_t size = 1; size <= sent.size(); ++size) EXPECT_EQ(Passed(sent, size), clean);
}

TEST(FrameScrubberTest, AWholeMessageIsNeverHeldBack) {
  FrameScrubber frames{EchoScrubber({std::string(kSecret)})};
  for (const std::string_view text : {"canary-", "c", "", "x"}) {
    EXPECT_EQ(frames.Take(Frame(kText, text)), Frame(kText, text));
  }
}

TEST(FrameScrubberTest, WhatCannotBeLookedThroughEndsIt) {
  EXPECT_EQ(Passed(Frame(kText | 0x40, "x"), 9), "!") << "compressed";
  EXPECT_EQ(Passed(std::string("\x81\x81maskx"), 9), "!") << "masked";
  EXPECT_EQ(Passed(Frame(0x83, "x"), 9), "!") << "of a kind that nobody knows";
  std::string held = Frame(kFirst, "canary-");
  for (int i = 0; i < 1'000; ++i) held += Frame(kPing, std::string(100, 'p'));
  EXPECT_EQ(Passed(held, 4'096).back(), '!') << "bounded memory";
}

// A backend with a credential of a file, asked once.
Result<Answer> Asked(Step step, BodySink* sink = nullptr) {
  TestLoop loop;
  ScriptedUpstream upstream(loop);
  upstream.otherwise = std::move(step);
  TokenCache cache;
  CredentialUpstream credentialed(
      upstream, [](const std::string&) { return std::string(kSecret); }, cache, loop.executor(),
      loop.clock());
  Backend backend;
  backend.secrets.push_back({"Authorization", "/f", "Bearer "});
  const auto ask = [](CredentialUpstream& over, const Backend& to, BodySink* into,
                      MonoTime until) -> Task<Result<Answer>> {
    const auto connection = over.Open(to);
    if (into != nullptr) connection->GiveBodyTo(into);
    co_return co_await connection->Exchange({"POST", "/x", {}, "{}"}, until, 1'000'000);
  };
  return loop.Run(ask(credentialed, backend, sink, loop.now() + Millis(1'000)));
}

// "seen canary-0123456789" as gzip.
const std::string kZipped(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x2b\x4e\x4d\xcd\x53\x48\x4e\xcc\x4b\x2c\xaa\xd4"
    "\x35\x30\x34\x32\x36\x31\x35\x33\xb7\xb0\x04\x00\xee\x20\xc0\x50\x16\x00\x00\x00",
    42);

TEST(CredentialUpstreamTest, AnEncodedAnswerIsDecodedOrWithheld) {
  const auto zipped = Asked(Respond(200, kZipped, {{"Content-Encoding", "gzip"}}));
  ASSERT_TRUE(zipped);
  EXPECT_EQ(zipped->response.body, "seen " + std::string(kSecret.size(), '*'));
  EXPECT_EQ(FindHeader(zipped->response.headers, "Content-Encoding"), nullptr);
  for (const char* const coding : {"br", "gzip, gzip"}) {
    const auto other = Asked(Respond(200, kZipped, {{"Content-Encoding", coding}}));
    ASSERT_TRUE(other);
    EXPECT_EQ(other->response.body, "");
    EXPECT_THAT(std::string(other->withheld), HasSubstr("encoded"));
    EXPECT_TRUE(other->over_cap);
  }
}

TEST(TokenTest, IsAskedForByTheClientsCredentials) {
  TokenRule rule;
  rule.client_id = "agent:1";
  rule.scope = "read write";
  const HttpRequest request = TokenRequest(rule, "s&cret");
  EXPECT_EQ(request.body, "grant_type=client_credentials&scope=read%20write");
  EXPECT_EQ(*FindHeader(request.headers, "Authorization"),
            "Basic " + ToBase64("agent%3A1:s%26cret"));
}

TEST(TokenTest, WhatIsNoneIsRefusedWithoutItsWords) {
  const auto why = [](int status, std::string body) {
    const auto token = ReadToken({status, {}, {}, std::move(body)});
    return token ? "" : token.error();
  };
  EXPECT_THAT(why(401, R"({"error":"canary"})"), HasSubstr("401"));
  EXPECT_THAT(why(200, "canary"), Not(HasSubstr("canary")));
  EXPECT_NE(why(200, R"({"access_token":"a\nb"})"), "");
  EXPECT_NE(why(200, R"({"access_token":""})"), "");
  const auto token = ReadToken({200, {}, {}, R"({"access_token":"t","expires_in":3600})"});
  ASSERT_TRUE(token);
  EXPECT_EQ(token->life, Millis(3'600'000));
}

// A backend whose credential is a token, and the endpoint that gives it.
class Tokens {
 public:
  Tokens() {
    rule->backend.name = "token";
    rule->client_id = "agent";
    backend.name = "shop";
    backend.secrets.push_back({"Authorization", "", "Bearer ", rule});
    upstream.decide = [this](const HttpRequest&) {
      ++asked;
      return answer;
    };
  }

  // What so many requests are sent with; empty: they are not sent.
  std::vector<std::string> Ask(int count) {
    std::vector<std::string> sent;
    for (int i = 0; i < count; ++i) loop.Start(AskOne(sent));
    loop.RunFor(Millis(500));
    return sent;
  }

  void Give(const std::string& text, int expires_in, Millis delay = Millis(100)) {
    answer = Respond(200, "{\"access_token\":\"" + text +
                              "\",\"expires_in\":" + std::to_string(expires_in) + "}");
    answer.delay = delay;
  }

  TestLoop loop;
  ScriptedUpstream upstream{loop};
  TokenCache cache;
  CredentialUpstream credentialed{upstream, [](const std::string&) { return std::string("s"); },
                                  cache, loop.executor(), loop.clock()};
  std::shared_ptr<TokenRule> rule = std::make_shared<TokenRule>();
  Backend backend;
  Step answer = Respond(500, "");
  int asked = 0;

 private:
  Task<void> AskOne(std::vector<std::string>& sent) {
    const auto read = co_await credentialed.CredentialsFor(backend);
    sent.push_back(read ? *FindHeader(read->fields, "Authorization") : "");
  }
};

TEST(TokenTest, ManyCallsShareOneAndItIsRenewedBeforeItsEnd) {
  Tokens tokens;
  tokens.Give("first", 100);
  EXPECT_EQ(tokens.Ask(20), std::vector<std::string>(20, "Bearer first"));
  EXPECT_EQ(tokens.asked, 1);
  tokens.loop.RunFor(Millis(80'000));
  EXPECT_EQ(tokens.Ask(1), std::vector<std::string>{"Bearer first"});
  EXPECT_EQ(tokens.asked, 1);
  tokens.loop.RunFor(Millis(11'000));
  tokens.Give("second", 100);
  EXPECT_EQ(tokens.Ask(5), std::vector<std::string>(5, "Bearer first")) << "it holds meanwhile";
  EXPECT_EQ(tokens.asked, 2);
  EXPECT_EQ(tokens.Ask(1), std::vector<std::string>{"Bearer second"});
}

Task<void> CleanFor(CredentialUpstream& credentialed, const Backend& backend,
                    const std::string& content, std::string& text) {
  const auto read = co_await credentialed.CredentialsFor(backend);
  EXPECT_EQ(*FindHeader(read->fields, "X-Api-Key"), content);
  EXPECT_EQ(FindHeader(read->fields, "Authorization"), nullptr);
  (void)read->scrubber.Clean(text, true);
}

TEST(CredentialUpstreamTest, WhatToolsHaveAndWhatWasSentBeforeIsTakenOutToo) {
  TestLoop loop;
  ScriptedUpstream upstream{loop};
  TokenCache cache;
  std::string content = "first-0123456789";
  const auto read_secret = [&](const std::string& file) -> std::expected<std::string, std::string> {
    if (file == "/none") return std::unexpected(std::string("there is none"));
    return file == "/own" ? content : "approvals-0123456789";
  };
  CredentialUpstream credentialed{upstream, read_secret, cache, loop.executor(), loop.clock()};
  Backend backend;
  backend.secrets = {{"X-Api-Key", "/own"}};
  backend.hidden = {{"Authorization", "/approval", "Bearer "}, {"Authorization", "/none"}};
  const auto shown = [&] {
    std::string text = "first-0123456789 later-0123456789 approvals-0123456789";
    loop.Start(CleanFor(credentialed, backend, content, text));
    loop.RunFor(Millis(1));
    return text;
  };
  EXPECT_EQ(shown(), "**************** later-0123456789 ********************");
  content = "later-0123456789";
  EXPECT_EQ(shown(), "**************** **************** ********************");
}

TEST(OwnCredentialTest, NoAnswerIsAskedForInAnotherCharset) {
  EXPECT_TRUE(AsksForCharset("accept-charset", "utf-16"));
  EXPECT_TRUE(AsksForCharset("Accept", "text/plain;charset=ibm037, */*"));
  EXPECT_FALSE(AsksForCharset("Accept", "application/json; charset=utf-8"));
  EXPECT_FALSE(AsksForCharset("Accept", "application/json"));
  EXPECT_FALSE(AsksForCharset("X-Other", "charset=utf-16"));
}

TEST(TokenTest, AnEndpointThatFailsIsNotAskedByEveryCall) {
  Tokens tokens;
  EXPECT_EQ(tokens.Ask(10), std::vector<std::string>(10, ""));
  EXPECT_EQ(tokens.Ask(10), std::vector<std::string>(10, ""));
  EXPECT_EQ(tokens.asked, 1);
  tokens.loop.RunFor(Millis(1'000));
  tokens.Give("late", 100);
  EXPECT_EQ(tokens.Ask(1), std::vector<std::string>{"Bearer late"});
  EXPECT_EQ(tokens.asked, 2);
}

TEST(TokenTest, ATokenIsUsedToItsEndAndNotLonger) {
  Tokens tokens;
  tokens.Give("first", 100);
  (void)tokens.Ask(1);
  tokens.answer = Respond(503, "");
  tokens.loop.RunFor(Millis(95'000));
  EXPECT_EQ(tokens.Ask(1), std::vector<std::string>{"Bearer first"});
  tokens.loop.RunFor(Millis(10'000));
  EXPECT_EQ(tokens.Ask(1), std::vector<std::string>{""});
}

}  // namespace
}  // namespace recourse::credentials_test
