// The files of the pod's CA: DIR/ca.key and DIR/ca.crt, made here or mounted.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "proxy/config/files.h"
#include "proxy/net/tls/pod_ca.h"

namespace recourse {

enum class CaState : std::uint8_t {
  kFound,
  kMade,
  kRenewed,  // another certificate for the same key, as too little of its life was left
  kWidened,  // likewise, as it did not permit every host
};

// "was made".
std::string_view WordFor(CaState state);

struct KeptCa {
  std::shared_ptr<const PodCa> ca;
  CaState state = CaState::kFound;
  // It permits hosts that the certificate before it did not.
  bool has_further_hosts = false;
  std::string warning;  // what a person should know; empty: nothing
};

// The CA in `directory`, which is made when it is missing. A key that is there is never replaced; a
// certificate is, when PodCa made it and it ends soon or does not permit `wish.hosts`; when these
// are none, it is not needed and stays. Until it ends soon it permits what it has permitted, so
// that wishes that alternate come to rest. One that somebody else made is used as it is. Fails with
// a line that says what to do.
FileResult<KeptCa> KeepCa(const std::string& directory, const CaWish& wish, Random& random);

// As it is; makes nothing.
FileResult<std::shared_ptr<const PodCa>> ReadCa(const std::string& directory);

// Of this machine; in a pod that is the pod's name.
std::string HostName();

std::string CaCertificatePath(const std::string& directory);
std::string CaKeyPath(const std::string& directory);

}  // namespace recourse
