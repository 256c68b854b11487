// The one translation unit that compiles Asio and Beast themselves. Asio's reactor waits where the
// thread says (kernel_wait.h).
#include <sys/epoll.h>

#include "proxy/net/loop/kernel_wait.h"

#define epoll_wait ::recourse::EpollWaitOfAsio
#include <boost/asio/impl/src.hpp>
#undef epoll_wait

#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
