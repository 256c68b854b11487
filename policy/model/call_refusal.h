// Why a call is not passed on, where the reason names what the policy says.
#pragma once

#include <string>
#include <utility>

#include "proxy/base/error.h"

namespace recourse {

class CallRefusal {
 public:
  CallRefusal() = default;
  CallRefusal(ErrorCode code, std::string detail) : detail_(std::move(detail)), code_(code) {}
  explicit CallRefusal(const Error& error) : detail_(error.detail()), code_(error.code()) {}
  ErrorCode code() const { return code_; }
  const std::string& detail() const { return detail_; }

 private:
  std::string detail_;
  ErrorCode code_ = ErrorCode::kInternal;
};

}  // namespace recourse
