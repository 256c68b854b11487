// Whether bytes of an attempt may still be handed to the kernel.
#pragma once

namespace recourse {

// Thread-safe.
class SendPermit {
 public:
  virtual ~SendPermit() = default;
  // True: they may, until Leave(). Nothing in between waits.
  virtual bool Enter() = 0;
  virtual void Leave() = 0;
};

}  // namespace recourse
