// The page of the metrics, proxy/telemetry/README.md, says what the table says.
#include "proxy/telemetry/metric_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

namespace recourse::metric_table_test {
namespace {

std::string_view NameOf(prometheus::MetricType type) {
  return type == prometheus::MetricType::Counter ? "counter"
         : type == prometheus::MetricType::Gauge ? "gauge"
                                                 : "histogram";
}

// The README's line of it.
std::string LineOf(const MetricSpec& spec) {
  std::string line = "* `" + std::string(spec.name) + "` " + std::string(NameOf(spec.type));
  std::istringstream labels{std::string(spec.labels)};
  for (std::string label; labels >> label;) line += " `" + label + "`";
  return line + ": " + std::string(spec.meaning) + " ";
}

TEST(MetricTableTest, ThePageSaysItWordByWord) {
  std::ifstream file("proxy/telemetry/README.md");
  ASSERT_TRUE(file.is_open()) << "it is read from the top of the tree";
  std::string page;
  for (std::string word; file >> word;) page += word + " ";
  std::set<std::string_view> names;
  for (const MetricSpec& spec : MetricSpecs()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name << " stands there twice";
    EXPECT_NE(page.find(LineOf(spec)), std::string::npos) << "the page lacks " << LineOf(spec);
  }
}

TEST(MetricTableTest, TheHelpIsASentence) {
  EXPECT_EQ(MetricNamed("recourse_store_rows").help(), "Rows kept.");
  EXPECT_EQ(MetricNamed("recourse_http_requests_total").help(),
            "Requests answered; method is one of eight or other, effect read, write or unlisted.");
}

}  // namespace
}  // namespace recourse::metric_table_test
