// A client that keeps its connection, before servers that end theirs.
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <thread>
#include <vector>

#include "proxy/net/beast/http_client.h"

namespace recourse::http_caller_test {
namespace {

using boost::asio::ip::tcp;

// Gives each of its connections these answers, one to a request, and then ends it.
class Server {
 public:
  explicit Server(std::vector<std::vector<std::string>> connections)
      : acceptor_(io_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)),
        place_{.host = "127.0.0.1", .port = std::to_string(acceptor_.local_endpoint().port())},
        thread_([this, connections = std::move(connections)] {
          for (const auto& answers : connections) Serve(answers);
        }) {}
  ~Server() { thread_.join(); }

  const HttpPlace& place() const { return place_; }

 private:
  void Serve(const std::vector<std::string>& answers) {
    tcp::socket socket = acceptor_.accept();
    boost::asio::streambuf buffer;
    for (const std::string& answer : answers) {
      boost::system::error_code ec;
      buffer.consume(boost::asio::read_until(socket, buffer, "\r\n\r\n", ec));
      if (ec) return;
      boost::asio::write(socket, boost::asio::buffer(answer), ec);
    }
  }

  boost::asio::io_context io_;
  tcp::acceptor acceptor_;
  const HttpPlace place_;
  std::thread thread_;
};

std::string Answer(const std::string& body, const std::string& fields = {}) {
  return "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

std::string BodyOf(HttpCaller& caller) {
  const auto answer = caller.Call({"GET", "/", {}, ""});
  return answer ? answer->body : "failed";
}

TEST(HttpCaller, KeepsItsConnectionForTheNextRequest) {
  Server server({{Answer("one"), Answer("two"), Answer("three")}});
  HttpCaller caller(server.place(), 10);
  EXPECT_EQ(BodyOf(caller), "one");
  EXPECT_EQ(BodyOf(caller), "two");
  EXPECT_EQ(BodyOf(caller), "three");
}

TEST(HttpCaller, ConnectsAnewAfterTheLastAnswerOfAConnection) {
  Server server({{Answer("one", "Connection: close\r\n")}, {Answer("two")}});
  HttpCaller caller(server.place(), 10);
  EXPECT_EQ(BodyOf(caller), "one");
  EXPECT_EQ(BodyOf(caller), "two");
}

// It may have been done: only who asked knows whether it may be sent again.
TEST(HttpCaller, DoesNotSendAgainWhatTheEndOfAConnectionMet) {
  Server server({{Answer("one")}, {Answer("two")}});
  HttpCaller caller(server.place(), 10);
  EXPECT_EQ(BodyOf(caller), "one");
  EXPECT_EQ(BodyOf(caller), "failed");
  EXPECT_EQ(BodyOf(caller), "two");
}

TEST(HttpCaller, LeavesAConnectionWhoseAnswerBrokeOff) {
  Server server({{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"}, {Answer("two")}});
  HttpCaller caller(server.place(), 10);
  EXPECT_EQ(BodyOf(caller), "failed");
  EXPECT_EQ(BodyOf(caller), "two");
}

}  // namespace
}  // namespace recourse::http_caller_test
