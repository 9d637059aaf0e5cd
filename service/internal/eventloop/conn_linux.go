package eventloop

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A stream is a connection that blocks: a *net.TCPConn, or an *os.File of a socket.
type stream interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	SyscallConn() (syscall.RawConn, error)
}

// A conn is a Conn. It has a stream, or it is attached to a loop, or it is closed. Its user
// changes that, and holds the mutex meanwhile. So the user can read these fields without it.
type conn struct {
	listener      *listener
	local, remote net.Addr

	mu              sync.Mutex
	stream          stream
	loop            *loop
	fd              int         // if it is attached
	ready           func() bool // if it is attached
	readBy, writeBy time.Time   // deadlines of a stream to come
}

// Attach implements Conn. The socket leaves the Go runtime's poller, because its events would wake
// processors there: so it gets another descriptor.
func (c *conn) Attach(ready func() bool) bool {
	if c.loop != nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.stream
	fd, err := duplicate(old)
	if err != nil {
		return false
	}
	l := c.listener.least()
	c.stream, c.loop, c.fd, c.ready = nil, l, fd, ready
	if err := l.add(c); err != nil {
		c.stream, c.loop, c.ready = old, nil, nil
		_ = unix.Close(fd)
		return false
	}
	_ = old.Close()
	return true
}

// duplicate returns another descriptor of a socket.
func duplicate(s stream) (fd int, err error) {
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(failed, err)
}

// Detach implements Conn.
func (c *conn) Detach() {
	if c.loop == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.loop
	l.remove(c)
	c.stream, c.loop, c.ready = os.NewFile(uintptr(c.fd), "tcp"), nil, nil
	_ = c.stream.SetReadDeadline(c.readBy) // Read reports what is wrong
	_ = c.stream.SetWriteDeadline(c.writeBy)
	*l.left = true
	go l.run()
}

// drop closes a connection that is attached. The loop calls it.
func (c *conn) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loop.remove(c)
	_ = unix.Close(c.fd)
	c.loop, c.ready = nil, nil
}

// Close closes the connection. If it is attached, the loop closes it after ready has seen the
// end, so that the descriptor is not another connection's meanwhile.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stream != nil:
		return c.stream.Close()
	case c.loop != nil:
		return os.NewSyscallError("shutdown", unix.Shutdown(c.fd, unix.SHUT_RDWR))
	}
	return net.ErrClosed
}

func (c *conn) Read(b []byte) (int, error) {
	if c.loop != nil {
		n, err := read(c.fd, b)
		switch {
		case n > 0 || len(b) == 0:
			return n, nil
		case err == nil:
			return 0, io.EOF
		case !passing(err):
			return 0, os.NewSyscallError("read", err)
		}
		c.Detach()
	}
	if c.stream == nil {
		return 0, net.ErrClosed
	}
	return c.stream.Read(b)
}

func (c *conn) Write(b []byte) (int, error) {
	sent := 0
	if c.loop != nil {
		n, err := write(c.fd, b)
		switch sent = n; {
		case sent == len(b):
			return sent, nil
		case err != nil && !passing(err):
			return sent, os.NewSyscallError("write", err)
		}
		c.Detach()
	}
	if c.stream == nil {
		return 0, net.ErrClosed
	}
	n, err := c.stream.Write(b[sent:])
	return sent + n, err
}

// passing reports whether a call can succeed later.
func passing(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readBy = t; c.stream == nil {
		return nil
	}
	return c.stream.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writeBy = t; c.stream == nil {
		return nil
	}
	return c.stream.SetWriteDeadline(t)
}

// CloseWrite ends what is sent. The connection must not be attached.
func (c *conn) CloseWrite() error {
	raw, err := c.stream.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) })
	return errors.Join(failed, err)
}
