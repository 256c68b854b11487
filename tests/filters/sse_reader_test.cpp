#include "filters/mcp/sse_reader.h"

#include <gtest/gtest.h>

#include <vector>

namespace recourse::sse_reader_test {
namespace {

std::vector<SseEvent> Read(std::string_view stream, std::size_t piece_size) {
  SseReader reader(1000);
  std::vector<SseEvent> events;
  for (std::size_t at = 0; at < stream.size(); at += piece_size) {
    reader.Feed(stream.substr(at, piece_size));
    while (auto event = reader.Next()) events.push_back(std::move(*event));
  }
  return events;
}

TEST(SseReaderTest, EventsAreTheSameInWhateverPiecesTheyCome) {
  const std::string_view stream =
      "\xef\xbb\xbfid: 1\ndata\n\n: ping\n\nevent: message\r\nid:2\r\ndata: {\"a\":\r\ndata:1}\r\n"
      "\r\ndata: x\rretry: 20\r\rdata: y\n\n";
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    const auto events = Read(stream, size);
    ASSERT_EQ(events.size(), 5u) << size;
    EXPECT_EQ(events[0].id, "1");
    EXPECT_EQ(events[0].data, "");
    EXPECT_EQ(events[1].data, "");
    EXPECT_EQ(events[1].raw, ": ping\n\n");
    EXPECT_EQ(events[2].id, "2");
    EXPECT_EQ(events[2].data, "{\"a\":\n1}");
    EXPECT_EQ(events[3].data, "x");
    EXPECT_EQ(events[3].retry, std::chrono::milliseconds(20));
    EXPECT_EQ(events[4].data, "y");
  }
}

TEST(SseReaderTest, AnEventComesAsSoonAsItsBlankLineDoes) {
  SseReader reader(1000);
  reader.Feed("data: a\r\n\r");
  const auto event = reader.Next();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->data, "a");
  EXPECT_FALSE(reader.is_inside_event());
  reader.Feed("\ndata: b");
  EXPECT_FALSE(reader.Next());
  EXPECT_TRUE(reader.is_inside_event());
  reader.Feed("\n\n");
  EXPECT_EQ(reader.Next()->data, "b");
}

TEST(SseReaderTest, FieldsThatSayNothingAreSkipped) {
  const std::string stream =
      std::string("id: a\0b\nretry: -1\nretry: 1x\nDATA: x\ndata : y\n\n", 47);
  const auto events = Read(stream, stream.size());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].id, "");
  EXPECT_EQ(events[0].data, "");
  EXPECT_FALSE(events[0].retry);
}

TEST(SseReaderTest, AnEventThatIsTooLargeEndsTheReading) {
  SseReader reader(10);
  reader.Feed("data: 12\n\n");
  EXPECT_TRUE(reader.Next());
  EXPECT_FALSE(reader.overflowed());
  reader.Feed("data: 123\n\n");
  EXPECT_FALSE(reader.Next());
  EXPECT_TRUE(reader.overflowed());
  SseReader endless(10);
  endless.Feed("data: 1234567");
  EXPECT_FALSE(endless.Next());
  EXPECT_TRUE(endless.overflowed());
}

}  // namespace
}  // namespace recourse::sse_reader_test
