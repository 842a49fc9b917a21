// Package epoll is what an event loop needs of Linux: system calls on sockets
// that never wait ([Kernel]), the readiness of many of them ([Poller]), pipes to
// splice through ([Pipes]), and deadlines ([Timers]).
//
// It knows no session, no frontend and no rule: it says what the kernel said. It
// starts no goroutine and keeps no list of descriptors: who opens one closes it.
//
// Invariants:
//
//   - Every system call goes through [Calls], so that a test can make each fail.
//   - A call returns what the kernel answered, as a syscall.Errno, 0 for none.
//     Only EINTR is dealt with here.
//   - What belongs to a loop (Kernel, Poller, Pipes, Timers) is used by that
//     loop alone; Poller.Wake and PipeBudget are for all.
//   - A call that moves bytes, accepts, connects or waits allocates nothing, but
//     for the zone of a link-local address.
//
// Timers work everywhere, all else on Linux only: 4.5 and later, for
// EPOLLEXCLUSIVE.
package epoll
