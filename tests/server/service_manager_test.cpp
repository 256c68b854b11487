#include "proxy/startup/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <string>

namespace recourse::service_manager_test {
namespace {

// Short, as a socket's path has to be.
std::string FreshPath() {
  const std::string path = testing::TempDir() + "/notify-" + std::to_string(::getpid());
  ::unlink(path.c_str());
  return path;
}

// Listens where a service manager would.
class Manager {
 public:
  // An abstract name begins with a zero byte.
  explicit Manager(const std::string& name) {
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    name.copy(address.sun_path, name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(file_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  ~Manager() { ::close(file_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  std::string Heard() const {
    char text[64] = {};
    const ssize_t size = ::recv(file_, text, sizeof text, MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string(text, static_cast<std::size_t>(size));
  }

 private:
  const int file_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

TEST(ServiceManager, HearsOneDatagramAtAPath) {
  const std::string path = FreshPath();
  const Manager manager(path);
  EXPECT_TRUE(TellServiceManager(path, "READY=1"));
  EXPECT_EQ(manager.Heard(), "READY=1");
  EXPECT_EQ(manager.Heard(), "nothing");
  ::unlink(path.c_str());
}

TEST(ServiceManager, HearsAtAnAbstractName) {
  const std::string name = "recourse-test-" + std::to_string(::getpid());
  const Manager manager(std::string(1, '\0') + name);
  EXPECT_TRUE(TellServiceManager("@" + name, "STOPPING=1"));
  EXPECT_EQ(manager.Heard(), "STOPPING=1");
}

TEST(ServiceManager, WhoDoesNotListenIsNotWaitedFor) {
  EXPECT_FALSE(TellServiceManager(FreshPath(), "READY=1"));
  EXPECT_FALSE(
      TellServiceManager("/" + std::string(sizeof(sockaddr_un::sun_path), 'x'), "READY=1"));
}

TEST(ServiceManager, NoneIsThereWithoutAName) { EXPECT_TRUE(TellServiceManager("", "READY=1")); }

}  // namespace
}  // namespace recourse::service_manager_test
