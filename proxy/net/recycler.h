// Large objects of one thread that many requests need one after the other.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace recourse {

// What it hands out is as its last user left it. One thread; outlives what it handed out.
template <class T>
class Recycler {
 public:
  struct Return {
    Recycler* to;
    void operator()(T* object) const {
      std::unique_ptr<T> owned(object);
      if (to->kept_.size() < kKept) to->kept_.push_back(std::move(owned));
    }
  };
  using Lent = std::unique_ptr<T, Return>;

  Lent Take() {
    if (kept_.empty()) return Lent(new T, Return{this});
    T* const object = kept_.back().release();
    kept_.pop_back();
    return Lent(object, Return{this});
  }

 private:
  static constexpr std::size_t kKept = 128;
  std::vector<std::unique_ptr<T>> kept_;
};

}  // namespace recourse
