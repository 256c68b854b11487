#include "proxy/admin/views/message_view.h"

#include <gtest/gtest.h>

namespace recourse::message_view_test {
namespace {

TEST(MessageViewTest, CredentialsInAQueryAreHidden) {
  EXPECT_EQ(ShownTarget("/x", "*"), "/x");
  EXPECT_EQ(ShownTarget("/x?", "*"), "/x?");
  EXPECT_EQ(ShownTarget("/x?a=1&b=2", "*"), "/x?a=1&b=2");
  EXPECT_EQ(ShownTarget("/x?api_key=K&a=1", "*"), "/x?api_key=*&a=1");
  EXPECT_EQ(ShownTarget("/x?a=1&&%74oken=K%26L&", "*"), "/x?a=1&&%74oken=*&");
  EXPECT_EQ(ShownTarget("/x?client_secret", "*"), "/x?client_secret=*");
}

}  // namespace
}  // namespace recourse::message_view_test
