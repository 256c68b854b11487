// Task<T>: a lazy coroutine that resumes its awaiter by symmetric transfer. Our own type because
// the read lane needs operation memory inside the frame and a concrete executor; asio::awaitable
// costs 6-7 % of a 1 KiB read (bench/README.md).
//
// A Task belongs to one thread: it is started, resumed and destroyed there. Nothing may throw out
// of a Task; an exception ends the process.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "proxy/base/check.h"
#include "proxy/base/frame_arena.h"

namespace recourse {

template <class T = void>
class Task;

namespace detail {

class TaskPromiseBase {
 public:
  static void* operator new(std::size_t size) { return FrameArena::New(size); }
  static void operator delete(void* frame, std::size_t size) { FrameArena::Delete(frame, size); }

  std::suspend_always initial_suspend() noexcept { return {}; }
  auto final_suspend() noexcept {
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<>) noexcept { return next; }
      void await_resume() noexcept {}
      std::coroutine_handle<> next;
    };
    return Final{continuation_};
  }
  void unhandled_exception() noexcept { std::terminate(); }
  void set_continuation(std::coroutine_handle<> handle) { continuation_ = handle; }

 private:
  std::coroutine_handle<> continuation_ = std::noop_coroutine();
};

template <class T>
class TaskPromise : public TaskPromiseBase {
 public:
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() {
    RC_CHECK(value_.has_value());
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> : public TaskPromiseBase {
 public:
  Task<void> get_return_object();
  void return_void() {}
  void take() {}
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;

  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  Task(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  auto operator co_await() && noexcept {
    struct Awaiter {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
        handle.promise().set_continuation(awaiting);
        return handle;
      }
      T await_resume() { return handle.promise().take(); }
      std::coroutine_handle<promise_type> handle;
    };
    return Awaiter{handle_};
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {
template <class T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise<T>>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<TaskPromise<void>>::from_promise(*this));
}

struct Detached {
  struct promise_type {
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};
}  // namespace detail

// Starts `task` on the calling thread and calls `done` there when it has ended. Whoever spawns
// counts or awaits what runs, bounds it and outlives it: the I/O thread its connections, an
// exchange its upload, an upstream connection its sending, the settler its probes.
inline void Spawn(Task<void> task, std::move_only_function<void()> done) {
  [](Task<void> body, std::move_only_function<void()> on_done) -> detail::Detached {
    co_await std::move(body);
    on_done();
  }(std::move(task), std::move(done));
}

// A one-shot value handed from one coroutine to another on the same thread. At most one waiter.
template <class T>
class Promise {
 public:
  Promise() = default;
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;

  bool is_set() const { return value_.has_value(); }
  // Resumes the waiter, if any, before it returns. The Promise may be gone afterwards.
  void Set(T value) {
    RC_CHECK(!value_.has_value());
    value_.emplace(std::move(value));
    if (auto waiter = std::exchange(waiter_, nullptr)) waiter.resume();
  }
  // Returns the value; it is moved out, so await once.
  auto Wait() {
    struct Awaiter {
      bool await_ready() { return promise.value_.has_value(); }
      void await_suspend(std::coroutine_handle<> handle) {
        RC_CHECK(!promise.waiter_);
        promise.waiter_ = handle;
      }
      T await_resume() { return std::move(*promise.value_); }
      Promise& promise;
    };
    return Awaiter{*this};
  }

 private:
  std::optional<T> value_;
  std::coroutine_handle<> waiter_;
};

}  // namespace recourse
