// Package eventloop serves connections that rarely block without a goroutine for each.
//
// Listen wraps a listener, so that its TCP connections are a [Conn]. A connection that is
// attached has a function, which its loop calls when the client has sent something. While
// attached, Read and Write cost one system call each, and no switch of goroutines. A call that
// would block detaches the connection: it goes on as a call that blocks, and another goroutine
// goes on with the loop. So the function can do whatever a goroutine of the connection can do.
//
//	ln, err := eventloop.Listen(ln)
//	...
//	nc, err := ln.Accept()
//	...
//	if c, ok := nc.(eventloop.Conn); ok && c.Attach(ready) {
//		return
//	}
//	go serve(nc)
//
// There are as many loops as GOMAXPROCS, and a connection goes to the loop with the fewest. A loop
// waits for its epoll instance in the poller of the Go runtime, as a goroutine waits for a
// connection. A loop that blocks a thread in epoll_wait has to hand its processor over each time,
// which costs about as much as a goroutine for each connection. That is one reason why this package
// is not a library such as gnet. The other is that gnet keeps any amount of unsent bytes for a client
// that does not read.
//
// On other systems than Linux, Listen does nothing.
package eventloop

import "net"

// A Conn is a connection that a loop can serve. Close is safe for concurrent use; one goroutine
// at a time may use the rest.
type Conn interface {
	net.Conn
	// Attach has a loop call ready whenever the client has sent something, or the
	// connection has ended. It returns false if that is not possible. Otherwise, the
	// connection belongs to ready, which may be called before Attach returns. If ready
	// returns false, the connection is closed; it must be closed already, or have been read
	// to its end, if it is still in use elsewhere. If the connection is attached already,
	// Attach returns true and does nothing else.
	//
	// Deadlines hold only for calls that block. If the connection is closed while it is
	// attached, ready is called, and reads the end.
	Attach(ready func() bool) bool
	// Detach ends the effect of Attach. It is for ready, which should call it before it
	// does anything that blocks or takes long: the goroutine belongs to the connection from
	// then on, and what ready returns has no effect. If the connection is not attached,
	// Detach does nothing.
	Detach()
}
