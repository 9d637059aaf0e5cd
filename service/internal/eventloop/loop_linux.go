package eventloop

import (
	"encoding/binary"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// batch is how many connections a loop learns of at a time.
	batch = 128
	// turn is how many connections a loop serves before it lets other goroutines run.
	turn = 256
)

// A loop calls the functions of its connections. Its goroutine is replaced when one of them
// detaches its connection.
type loop struct {
	epoll *os.File // in nonblocking mode, so that the Go runtime polls it
	raw   syscall.RawConn
	fd    int // of epoll
	yield int // an eventfd, which makes epoll ready

	// Of the loop's goroutine.
	look   func(fd uintptr) bool // l.poll, made once
	events [batch]unix.EpollEvent
	found  int // events
	served int // connections, since other goroutines ran
	room   [batch]*conn
	ready  []*conn // the part of room that is served next
	left   *bool   // of the goroutine's run: a connection has detached, and another goroutine runs the loop

	mu     sync.Mutex // guards what follows
	conns  map[int32]*conn
	closed bool // it ends with its last connection
}

func newLoop() (*loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	_ = unix.SetNonblock(fd, true) // cannot fail
	l := &loop{epoll: os.NewFile(uintptr(fd), "epoll"), fd: fd, conns: map[int32]*conn{}}
	l.look = l.poll
	if l.yield, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = l.epoll.Close()
		return nil, os.NewSyscallError("eventfd", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(l.yield)}
	err = unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, l.yield, &event)
	if err == nil {
		l.raw, err = l.epoll.SyscallConn()
	}
	if err != nil {
		_ = l.epoll.Close()
		_ = unix.Close(l.yield)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	go l.run()
	return l, nil
}

// run serves connections until the loop is closed, or until one of them detaches: conn.Detach starts
// another goroutine with the loop, and this one returns when the function of the connection does. Each
// run has a left of its own, because the next one sets l.left before this one looks.
func (l *loop) run() {
	left := false
	l.left = &left
	for len(l.ready) > 0 || l.wait() {
		c := l.ready[0]
		l.ready[0], l.ready = nil, l.ready[1:]
		open := c.ready()
		if left { // nothing of the loop may be used here
			return
		}
		if !open {
			c.drop()
		}
	}
	_ = unix.Close(l.yield)
}

// wait waits until connections are ready. It returns false when the loop is closed.
func (l *loop) wait() bool {
	for len(l.ready) == 0 {
		if err := l.raw.Read(l.look); err != nil {
			return false
		}
		l.collect()
	}
	return true
}

// poll asks for events. If it returns false, the goroutine lets others run, until the Go runtime
// has learned of more events.
func (l *loop) poll(uintptr) bool {
	l.found, _ = ready(l.fd, l.events[:]) // it fails only when the process is being killed
	if l.served += l.found; l.found > 0 && l.served < turn {
		return true
	}
	l.served = 0
	if l.found == 0 {
		return false
	}
	// The events stay, but the runtime does not learn of them again without a new one.
	_, err := write(l.yield, one)
	return err != nil
}

// one is the number that a write adds to an eventfd.
var one = binary.NativeEndian.AppendUint64(nil, 1)

// collect finds the connections of the events.
func (l *loop) collect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = l.room[:0]
	for i := range l.events[:l.found] {
		if c := l.conns[l.events[i].Fd]; c != nil {
			l.ready = append(l.ready, c)
		}
	}
}

// add adds a connection. Its function may be called before add returns.
func (l *loop) add(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return os.ErrClosed
	}
	l.conns[int32(c.fd)] = c
	err := unix.EpollCtl(l.fd, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.fd)})
	if err != nil {
		delete(l.conns, int32(c.fd))
	}
	return err
}

// remove removes a connection. Only the loop's goroutine calls it, so no event of the
// connection is left.
func (l *loop) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = unix.EpollCtl(l.fd, unix.EPOLL_CTL_DEL, c.fd, nil) // it is there
	delete(l.conns, int32(c.fd))
	l.endLocked()
}

// size returns the number of connections.
func (l *loop) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// close ends the loop when it has no connection.
func (l *loop) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.endLocked()
}

func (l *loop) endLocked() {
	if l.closed && len(l.conns) == 0 {
		_ = l.epoll.Close()
	}
}
