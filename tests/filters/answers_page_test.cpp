// The page of all problems, proxy/docs/answers.md, says what the code sends.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "filters/answers.h"
#include "filters/idempotency/event_answer.h"
#include "proxy/base/json.h"

namespace recourse::answers_page_test {
namespace {

constexpr const char* kPage = "proxy/docs/answers.md";
constexpr std::string_view kHead =
    "| `type` | status | `outcome` | `retryable` | means | agent (`advice`) | operator |\n"
    "|---|---|---|---|---|---|---|\n";

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

std::string OutcomesOf(const ErrorFacts& facts) {
  std::string text = "`" + std::string(facts.outcome) + "`";
  if (facts.speaks_for) {
    const ErrorFacts& other = FactsOf(*facts.speaks_for);
    text.append(", or as [").append(other.slug).append("](#").append(other.slug).append(")");
  }
  return text;
}

std::string RowOf(const ErrorFacts& facts) {
  const std::string slug(facts.slug);
  std::string row = "| <a id=\"" + slug + "\"></a>`" + slug + "`";
  for (const std::string& cell :
       {StatusesOf(facts), OutcomesOf(facts), std::string(facts.retryable ? "true" : "false"),
        std::string(facts.cause), std::string(facts.advice), std::string(facts.operators)}) {
    EXPECT_FALSE(cell.empty()) << slug;
    EXPECT_EQ(cell.find_first_of("|\n"), std::string::npos) << slug << ": " << cell;
    row += " | " + cell;
  }
  return row + " |\n";
}

std::string TableOfTheCode() {
  std::string table(kHead);
  for (int i = 0; i < kErrorCodeCount; ++i) table += RowOf(FactsOf(static_cast<ErrorCode>(i)));
  return table;
}

std::string TableOfThePage(const std::string& page) {
  const std::size_t begin = page.find(kHead.substr(0, kHead.find('\n')));
  if (begin == std::string::npos) return {};
  const std::size_t end = page.find("\n\n", begin);
  return page.substr(begin, end == std::string::npos ? end : end + 1 - begin);
}

TEST(AnswersPageTest, EveryProblemHasItsRow) {
  const std::string expected = TableOfTheCode();
  EXPECT_TRUE(TableOfThePage(Page()) == expected)
      << "proxy/base/error.cpp says something else than " << kPage << "; its table has to be:\n\n"
      << expected;
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
    EXPECT_NE(page.find("\n| `" + name + "` |"), std::string::npos) << name;
  }
}

TEST(AnswersPageTest, TheAdviceWhereNothingCanFindOutIsQuoted) {
  std::string page = Page();
  std::ranges::replace(page, '\n', ' ');
  EXPECT_NE(page.find(AdviceOf(CanBeAsked::kNo)), std::string::npos);
}

TEST(AnswersPageTest, TheLastSegmentOfATypeIsTheAnchorOfItsRow) {
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
