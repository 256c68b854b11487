// Whether bytes of an attempt may still be handed to the kernel.
#pragma once

#include "proxy/base/clock.h"

namespace recourse {

// Thread-safe.
class SendPermit {
 public:
  virtual ~SendPermit() = default;
  // True: they may, until Leave(). Nothing in between waits.
  virtual bool Enter() = 0;
  virtual void Leave() = 0;
  // For how long the kernel may go on to send what it was handed, if this process is stopped now:
  // from then on somebody else may send the attempt anew.
  virtual Millis Left() = 0;
};

}  // namespace recourse
