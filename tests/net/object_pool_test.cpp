#include "proxy/net/loop/object_pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace recourse::recycler_test {
namespace {

struct Counted {
  Counted() { ++alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --alive; }
  static inline int alive = 0;
};

TEST(RecyclerTest, KeepsWhatIsNeededAndLetsGoWhatIsNot) {
  ObjectPool<Counted> recycler;
  const auto crowd = [&](int size) {
    std::vector<ObjectPool<Counted>::Lent> lent;
    for (int i = 0; i < size; ++i) lent.push_back(recycler.Take());
  };
  crowd(500);
  EXPECT_EQ(Counted::alive, 500);
  (void)recycler.Trim();
  crowd(500);
  EXPECT_EQ(Counted::alive, 500);  // none was made anew
  (void)recycler.Trim();
  crowd(20);
  EXPECT_TRUE(recycler.Trim());
  EXPECT_EQ(Counted::alive, 20);
  EXPECT_FALSE(recycler.Trim());
  EXPECT_LT(Counted::alive, 20);
}

}  // namespace
}  // namespace recourse::recycler_test
