#include "proxy/net/deadline.h"

#include <algorithm>

namespace recourse {

void Deadline::Arm(MonoTime at) {
  Disarm();
  expired_ = false;
  at_ = at;
  wheel_.Link(*this);
}

void Deadline::Disarm() {
  if (armed_) wheel_.Unlink(*this);
}

void DeadlineWheel::Link(Deadline& deadline) {
  const std::size_t tick =
      deadline.at_ <= start_ ? 0 : static_cast<std::size_t>((deadline.at_ - start_) / kTick) + 1;
  // Never into a tick that was handled already: it would wait a whole turn.
  deadline.slot_ = std::max(tick, done_ + 1) % kSlots;
  Deadline*& first = slots_[deadline.slot_];
  deadline.previous_ = nullptr;
  deadline.next_ = first;
  if (first != nullptr) first->previous_ = &deadline;
  first = &deadline;
  deadline.armed_ = true;
  ++armed_;
}

void DeadlineWheel::Unlink(Deadline& deadline) {
  if (deadline.previous_ != nullptr) {
    deadline.previous_->next_ = deadline.next_;
  } else {
    slots_[deadline.slot_] = deadline.next_;
  }
  if (deadline.next_ != nullptr) deadline.next_->previous_ = deadline.previous_;
  deadline.previous_ = deadline.next_ = nullptr;
  deadline.armed_ = false;
  --armed_;
}

void DeadlineWheel::Advance(MonoTime now) {
  const std::size_t current = now <= start_ ? 0 : static_cast<std::size_t>((now - start_) / kTick);
  // After a stall of more than a turn every slot is looked at once.
  if (current > kSlots) done_ = std::max(done_, current - kSlots);
  while (done_ < current) {
    ++done_;
    const std::size_t slot = done_ % kSlots;
    Deadline* deadline = slots_[slot];
    while (deadline != nullptr) {
      if (deadline->at_ > now) {
        deadline = deadline->next_;
        continue;
      }
      Unlink(*deadline);
      deadline->expired_ = true;
      deadline->fire_(deadline->owner_);
      // Firing may have unlinked or destroyed any neighbour: begin this slot again.
      deadline = slots_[slot];
    }
  }
}

}  // namespace recourse
