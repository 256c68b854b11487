// A copy of a ledger on its way out: a consistent snapshot, made while the ledger goes on.
#pragma once

namespace recourse {

class LedgerCopy {
 public:
  // Ends the copying, whether or not it is complete. May wait for the thread that copies.
  virtual ~LedgerCopy() = default;
  // Read the copy here until its end. Whoever reads slowly slows the copying down, never the
  // ledger, which meanwhile cannot use pages again that were in use when the copy began.
  virtual int fd() const = 0;
  // After the end of fd(): whether that was all of the copy.
  virtual bool Finish() = 0;
};

}  // namespace recourse
