// Large objects of one thread that many requests need one after the other.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "proxy/base/low_watermark.h"

namespace recourse {

// What it hands out is as its last user left it. One thread; outlives what it handed out.
template <class T>
class ObjectPool {
 public:
  struct Return {
    ObjectPool* to;
    void operator()(T* object) const { to->kept_.emplace_back(object); }
  };
  using Lent = std::unique_ptr<T, Return>;

  Lent Take() {
    if (kept_.empty()) return Lent(new T, Return{this});
    T* const object = kept_.back().release();
    kept_.pop_back();
    low_.Took(kept_.size());
    return Lent(object, Return{this});
  }
  // Lets go what nobody needed since the last call. True: more is kept than always.
  bool Trim() {
    kept_.resize(kept_.size() - low_.Look(kept_.size(), kFloor));
    return kept_.size() > kFloor;
  }

 private:
  static constexpr std::size_t kFloor = 4;
  std::vector<std::unique_ptr<T>> kept_;
  LowWatermark low_;
};

}  // namespace recourse
