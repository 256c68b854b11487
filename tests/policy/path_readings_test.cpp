#include "policy/uri/path_readings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/uri/path.h"
#include "proxy/base/limits.h"

namespace recourse::path_readings_test {
namespace {

using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

std::vector<std::string> ReadingsOf(std::string_view path) {
  std::string scratch;
  EXPECT_TRUE(FormOf(path, scratch)) << path;
  std::vector<std::string> out;
  const auto readings = PathReadings(path);
  if (!readings) return {"refused: " + std::string(readings.error().detail())};
  for (const PathReading& one : *readings)
    out.push_back((one.has_moved ? "moved " : "") + one.path);
  return out;
}

TEST(PathReadingsTest, APlainPathHasOne) {
  EXPECT_THAT(ReadingsOf("/orders/7"), UnorderedElementsAre("/orders/7"));
  EXPECT_THAT(ReadingsOf("/a%20b/"), UnorderedElementsAre("/a%20b/"));
}

TEST(PathReadingsTest, EachKindOfDoubtHasItsReadings) {
  EXPECT_THAT(ReadingsOf("/projects/group%2fname"),
              UnorderedElementsAre("/projects/group%2Fname", "/projects/group/name"));
  EXPECT_THAT(ReadingsOf("/a%5Cb"), UnorderedElementsAre("/a%5Cb", "/a/b"));
  EXPECT_THAT(ReadingsOf("/api/queues/%2F/q"),
              UnorderedElementsAre("/api/queues/%2F/q", "/api/queues///q", "/api/queues/q"));
  EXPECT_THAT(ReadingsOf("/a;v=1/b"), UnorderedElementsAre("/a;v=1/b", "/a/b"));
  EXPECT_THAT(ReadingsOf("/a%3Bb"), UnorderedElementsAre("/a%3Bb", "/a;b", "/a"));
  EXPECT_THAT(ReadingsOf("/a%3Fb"), UnorderedElementsAre("/a%3Fb", "/a"));
  EXPECT_THAT(ReadingsOf("/100%25"), UnorderedElementsAre("/100%25"));
  EXPECT_THAT(ReadingsOf("/a%252Fb"), UnorderedElementsAre("/a%252Fb", "/a%2Fb", "/a/b"));
  EXPECT_THAT(ReadingsOf("/a//b"), UnorderedElementsAre("/a//b", "/a/b"));
  EXPECT_THAT(ReadingsOf("//host/a"), UnorderedElementsAre("//host/a", "/host/a", "/a"));
  EXPECT_THAT(ReadingsOf("/a/./b"), UnorderedElementsAre("/a/./b", "moved /a/b"));
  EXPECT_THAT(ReadingsOf("/a/../b"), UnorderedElementsAre("/a/../b", "moved /b"));
  EXPECT_THAT(ReadingsOf("/a/b/.."), UnorderedElementsAre("/a/b/..", "moved /a/"));
}

TEST(PathReadingsTest, StepsAreTakenInAnyOrder) {
  EXPECT_THAT(ReadingsOf("/a/..;x=1/b"), IsSupersetOf({"/a/../b", "moved /b"}));
  EXPECT_THAT(ReadingsOf("/a/%252e%252e/b"), IsSupersetOf({"/a/../b", "moved /b"}));
  EXPECT_THAT(ReadingsOf("/a/..%2Fb"), IsSupersetOf({"/a/../b", "moved /b"}));
  EXPECT_THAT(ReadingsOf("/a/..%20/b"), IsSupersetOf({"/a/../b", "moved /b"}));
  EXPECT_THAT(ReadingsOf("/a/b//../c"), IsSupersetOf({"moved /a/b/c", "moved /a/c"}));
  EXPECT_THAT(ReadingsOf("/%2e/./b"), IsSupersetOf({"moved /%2E/b", "moved /b", "/././b"}));
  EXPECT_THAT(ReadingsOf("/a/%25252Fb"), IsSupersetOf({"/a/%2Fb", "/a//b", "/a/b"}));
}

TEST(PathReadingsTest, WhatHasNoBoundIsRefused) {
  for (const char* path : {"/..", "/a/../../b", "/%2e%2e/b", "/a/%252e%252e%252f..%2fb"}) {
    EXPECT_THAT(
        ReadingsOf(path),
        UnorderedElementsAre("refused: the path has a dot segment that leads above its root"));
  }
  EXPECT_THAT(ReadingsOf("/a%2500b"),
              UnorderedElementsAre("refused: the path has an escaped control character"));
  std::string path;
  for (const char* piece : {"/a%2Fb", "/a%5Cb", "/a%3Bb", "/a;b", "/a%252Fb", "//b", "/a%3Fb"}) {
    path += piece;
  }
  EXPECT_THAT(ReadingsOf(path), UnorderedElementsAre("refused: the path has too many readings"));
}

}  // namespace
}  // namespace recourse::path_readings_test
