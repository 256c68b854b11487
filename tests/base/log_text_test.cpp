#include "proxy/base/log/log_text.h"

#include <gtest/gtest.h>

namespace recourse::log_text_test {
namespace {

TEST(LogTextTest, APersonReadsTheTimeTheWeightAndEachField) {
  constexpr std::time_t kAt = 86'400 + 9 * 3600 + 52 * 60 + 7;
  EXPECT_EQ(LogText(kAt, LogLevel::kInfo, "draining", {}), "09:52:07Z info: draining");
  EXPECT_EQ(LogText(kAt, LogLevel::kWarn, "gone", {{"file", "a b"}, {"reason", "none"}}),
            "09:52:07Z warning: gone (file: a b; reason: none)");
}

TEST(LogTextTest, NothingInItSteersTheTerminalOrPosesAsAnotherLine) {
  EXPECT_EQ(LogText(0, LogLevel::kError, "x", {{"reason", "a\x1b[2J\nb"}}),
            "00:00:00Z error: x (reason: a\\x1b[2J\\x0ab)");
}

}  // namespace
}  // namespace recourse::log_text_test
