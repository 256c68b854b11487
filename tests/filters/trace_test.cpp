#include <gtest/gtest.h>

#include "filters/call/traceparent.h"
#include "filters/trace/trace_filter.h"
#include "filters/tracing.h"
#include "tests/support/seeded_random.h"
#include "tests/support/test_loop.h"

namespace recourse::trace_test {
namespace {

constexpr const char* kGood = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceparentTest, ReadsWhatW3cAllows) {
  const auto trace = ParseTraceparent(kGood);
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(trace->parent_id, "b7ad6b7169203331");
  EXPECT_EQ(trace->flags, "01");
  EXPECT_TRUE(trace->from_client);
  EXPECT_EQ(FormatTraceparent(*trace), kGood);
  EXPECT_TRUE(ParseTraceparent(std::string("cc") + (kGood + 2) + "-what-comes-later").has_value());
}

TEST(TraceparentTest, RefusesEverythingElse) {
  for (const char* text : {"", "00", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
                           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                           "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more",
                           "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01"}) {
    EXPECT_FALSE(ParseTraceparent(text).has_value()) << text;
  }
}

// Takes the place of the rest of the chain.
class End final : public Filter {
 public:
  std::string_view name() const override { return "end"; }
  Task<Result<Outcome>> Handle(RequestContext&, Next) override { co_return Outcome(); }
};

void RunFilter(RequestContext& context) {
  TestLoop loop;
  SeededRandom random;
  FilterChain chain;
  chain.push_back(std::make_unique<TraceFilter>(random));
  chain.push_back(std::make_unique<End>());
  ASSERT_TRUE(loop.Run(Next(chain)(context)).has_value());
}

TEST(TraceFilterTest, KeepsTheClientsTraceUnderANewParent) {
  RequestContext context;
  context.request.headers = {{"Traceparent", kGood}, {"tracestate", "vendor=1"}};
  RunFilter(context);
  EXPECT_TRUE(context.trace.from_client);
  EXPECT_EQ(context.trace.trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_NE(context.trace.parent_id, "b7ad6b7169203331");
  EXPECT_EQ(*FindHeader(context.request.headers, "traceparent"), FormatTraceparent(context.trace));
  EXPECT_NE(FindHeader(context.request.headers, "tracestate"), nullptr);
}

TEST(TraceFilterTest, MakesATraceThatIsNotTheClientsWhenThereIsNone) {
  for (const char* sent : {"", "00-00000000000000000000000000000000-b7ad6b7169203331-01"}) {
    RequestContext context;
    if (*sent != '\0') context.request.headers.emplace_back("traceparent", sent);
    context.request.headers.emplace_back("tracestate", "vendor=1");
    RunFilter(context);
    EXPECT_FALSE(context.trace.from_client);
    const std::string* field = FindHeader(context.request.headers, "traceparent");
    ASSERT_NE(field, nullptr);
    EXPECT_TRUE(ParseTraceparent(*field).has_value()) << *field;
    EXPECT_EQ(FindHeader(context.request.headers, "tracestate"), nullptr);
  }
}

}  // namespace
}  // namespace recourse::trace_test
