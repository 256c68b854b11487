// The page of all problems, proxy/docs/answers.md, says what the code sends.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "filters/call/answers.h"
#include "proxy/base/json/json.h"

namespace recourse::answers_page_test {
namespace {

constexpr const char* kPage = "proxy/docs/answers.md";
constexpr std::size_t kColumns = 120;

std::string Page() {
  std::ifstream file(kPage);
  EXPECT_TRUE(file.is_open()) << kPage << " is read from the top of the tree";
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string StatusesOf(const ErrorFacts& facts) {
  std::vector<int> statuses = {facts.http_status};
  for (const int other : facts.other_statuses) {
    if (other != 0) statuses.push_back(other);
  }
  std::sort(statuses.begin(), statuses.end());
  std::string text;
  for (const int status : statuses) text += (text.empty() ? "" : ", ") + std::to_string(status);
  return text;
}

// The outcome is said where it is not that of most problems.
std::string OutcomesOf(const ErrorFacts& facts) {
  std::string text;
  if (facts.outcome != "not_executed") text = ", `" + std::string(facts.outcome) + "`";
  if (facts.speaks_for) {
    const ErrorFacts& other = FactsOf(*facts.speaks_for);
    text.append(", or as [").append(other.slug).append("](#").append(other.slug).append(")");
  }
  return text;
}

// What the page calls an advice, by what the advice says.
struct Step {
  std::string_view word;
  bool retryable;
  std::vector<std::string_view> said;
};
const std::vector<Step>& Steps() {
  static const std::vector<Step> steps = {
      {"repeat", true, {"same call may be made again", "Repeat exactly the same call:"}},
      {"later", true, {"same call later", ", then repeat exactly", "wait before making it again"}},
      {"mend",
       false,
       {"correct it as the detail says", "use the path exactly", "use a connection of its own",
        "end it again with", "send the original arguments"}},
      {"look",
       false,
       {"read the result another way", "Read how things stand", "find out what happened"}},
      {"anew", false, {"made as a new intent", "is another intent, name it"}},
      {"tell", false, {"Say so", "say so", "say what was rejected", "a human must judge"}},
      {"skip", false, {"go on without", "choose another way"}},
  };
  return steps;
}

// The words for an advice; none or several: nobody knows which step it means.
std::vector<std::string> StepsOf(const ErrorFacts& facts) {
  std::vector<std::string> words;
  for (const Step& step : Steps()) {
    const auto is_said = [&](std::string_view text) { return facts.advice.contains(text); };
    if (step.retryable == facts.retryable && std::ranges::any_of(step.said, is_said)) {
      words.emplace_back(step.word);
    }
  }
  return words;
}

std::string StepOf(const ErrorFacts& facts) {
  const std::vector<std::string> words = StepsOf(facts);
  return words.size() == 1 ? words.front() : "?";
}

// `text` as an item of a list, in lines of the page's width.
std::string Wrapped(const std::string& text) {
  std::istringstream words(text);
  std::string wrapped = "*", word;
  std::size_t column = wrapped.size();
  while (words >> word) {
    const bool fits = column + 1 + word.size() <= kColumns;
    wrapped += (fits ? " " : "\n  ") + word;
    column = (fits ? column + 1 : 2) + word.size();
  }
  return wrapped + "\n";
}

// What an operator need not do is said once for all.
bool IsNoStep(const ErrorFacts& facts) { return facts.operators.starts_with("Nothing"); }

std::string ItemOf(const ErrorFacts& facts) {
  const std::string slug(facts.slug);
  EXPECT_FALSE(facts.cause.empty() || facts.operators.empty() || facts.advice.empty()) << slug;
  return Wrapped("<a id=\"" + slug + "\"></a>`" + slug + "` (" + StatusesOf(facts) +
                 OutcomesOf(facts) + ", " + StepOf(facts) + "): " + std::string(facts.cause) +
                 (IsNoStep(facts) ? "" : " **Do:** " + std::string(facts.operators)));
}

std::string ListOfTheCode() {
  std::string list;
  for (int i = 0; i < kErrorCodeCount; ++i) list += ItemOf(FactsOf(static_cast<ErrorCode>(i)));
  return list;
}

std::string ListOfThePage(const std::string& page) {
  const std::size_t begin = page.find("* <a id=");
  if (begin == std::string::npos) return {};
  const std::size_t end = page.find("\n\n", begin);
  return page.substr(begin, end == std::string::npos ? end : end + 1 - begin);
}

TEST(AnswersPageTest, EveryProblemHasItsItem) {
  const std::string expected = ListOfTheCode();
  EXPECT_TRUE(ListOfThePage(Page()) == expected)
      << "proxy/base/error.cpp says something else than " << kPage << "; its list has to be:\n\n"
      << expected;
}

TEST(AnswersPageTest, EachAdviceIsOneStepThatThePageExplains) {
  const std::string page = Page();
  for (int i = 0; i < kErrorCodeCount; ++i) {
    const ErrorFacts& facts = FactsOf(static_cast<ErrorCode>(i));
    EXPECT_EQ(StepsOf(facts).size(), 1U)
        << facts.slug << (facts.retryable ? " is retryable, and" : "") << " says: " << facts.advice;
  }
  for (const Step& step : Steps()) {
    EXPECT_NE(page.find("**" + std::string(step.word) + "**"), std::string::npos) << step.word;
  }
}

TEST(AnswersPageTest, EveryMemberAndFieldIsDescribed) {
  const std::string page = Page();
  ProblemFacts facts;
  facts.event = 1;
  facts.flow = "flow";
  facts.key = "ab";
  const WriteAnswer problem = MakeProblem(ErrorCode::kOutcomeUnknown, "lost", facts);
  const auto body = ParseJson(problem.response.body);
  ASSERT_TRUE(body.has_value());
  std::vector<std::string> names;
  for (const auto& [name, value] : body->members) names.push_back(name);
  HttpResponse replay = problem.response;
  AnswerFacts kept;
  kept.origin = AnswerSource::kReplay;
  Decorate(replay, kept);
  for (const auto& [name, value] : replay.headers) names.push_back(name);
  for (const std::string& name : names) {
    EXPECT_NE(page.find("\n* `" + name + "`"), std::string::npos) << name;
  }
}

TEST(AnswersPageTest, TheLastSegmentOfATypeIsTheAnchorOfItsItem) {
  const std::string page = Page();
  for (int i = 0; i < kErrorCodeCount; ++i) {
    const auto body = ParseJson(ProblemBody(static_cast<ErrorCode>(i), {}));
    ASSERT_TRUE(body.has_value());
    const std::string type = ScalarText(*body->Find("type"));
    const std::string anchor = "<a id=\"" + type.substr(type.rfind('/') + 1) + "\"></a>";
    EXPECT_NE(page.find(anchor), std::string::npos) << type;
  }
}

}  // namespace
}  // namespace recourse::answers_page_test
