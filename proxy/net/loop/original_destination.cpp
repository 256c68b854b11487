#include "proxy/net/loop/original_destination.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace recourse {
namespace {

// SO_ORIGINAL_DST of linux/netfilter_ipv4.h and IP6T_SO_ORIGINAL_DST, whose headers do not go with
// those of the C library.
constexpr int kOriginalDestination = 80;

class NetlinkSocket {
 public:
  NetlinkSocket()
      : fd_(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG)) {}
  ~NetlinkSocket() {
    if (fd_ >= 0) ::close(fd_);
  }
  NetlinkSocket(const NetlinkSocket&) = delete;
  NetlinkSocket& operator=(const NetlinkSocket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

void SetAddress(const boost::asio::ip::address& address, __be32* out) {
  if (address.is_v6()) {
    const auto bytes = address.to_v6().to_bytes();
    std::memcpy(out, bytes.data(), bytes.size());
  } else {
    const auto bytes = address.to_v4().to_bytes();
    std::memcpy(out, bytes.data(), bytes.size());
  }
}

struct Question {
  nlmsghdr head{};
  inet_diag_req_v2 body{};
};

Question QuestionFor(const Tcp::endpoint& from, const Tcp::endpoint& to) {
  Question question;
  question.head.nlmsg_len = sizeof question;
  question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.head.nlmsg_flags = NLM_F_REQUEST;
  inet_diag_req_v2& body = question.body;
  body.sdiag_family = from.address().is_v6() ? AF_INET6 : AF_INET;
  body.sdiag_protocol = IPPROTO_TCP;
  body.idiag_states = ~0U;
  body.id.idiag_sport = htons(from.port());
  body.id.idiag_dport = htons(to.port());
  SetAddress(from.address(), body.id.idiag_src);
  SetAddress(to.address(), body.id.idiag_dst);
  body.id.idiag_cookie[0] = body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

}  // namespace

std::optional<Tcp::endpoint> OriginalDestination(int accepted) {
  const auto local = LocalEnd(accepted);
  if (!local) return std::nullopt;
  const bool is_v6 = local->address().is_v6();
  sockaddr_storage address{};
  socklen_t size = is_v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::getsockopt(accepted, is_v6 ? SOL_IPV6 : SOL_IP, kOriginalDestination, &address, &size) !=
      0) {
    return std::nullopt;
  }
  if (is_v6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof v6);
    boost::asio::ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
    return Tcp::endpoint(boost::asio::ip::address_v6(bytes), ntohs(v6.sin6_port));
  }
  sockaddr_in v4;
  std::memcpy(&v4, &address, sizeof v4);
  return Tcp::endpoint(boost::asio::ip::address_v4(ntohl(v4.sin_addr.s_addr)), ntohs(v4.sin_port));
}

std::optional<std::uint32_t> OwnerOfSocket(const Tcp::endpoint& from, const Tcp::endpoint& to) {
  const NetlinkSocket kernel;
  const Question question = QuestionFor(from, to);
  if (kernel.fd() < 0 || ::send(kernel.fd(), &question, sizeof question, 0) != sizeof question) {
    return std::nullopt;
  }
  alignas(nlmsghdr) std::array<char, 4096> bytes;
  const ssize_t got = ::recv(kernel.fd(), bytes.data(), bytes.size(), 0);
  nlmsghdr head;
  inet_diag_msg answer;
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof answer))) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;  // an error
  std::memcpy(&answer, bytes.data() + NLMSG_HDRLEN, sizeof answer);
  return answer.idiag_uid;
}

}  // namespace recourse
