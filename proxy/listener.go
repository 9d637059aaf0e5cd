package proxy

import (
	"net"
	"time"
)

// Listener bounds each write to an accepted connection: a client that does not
// take what it is sent holds a permit no longer than that. A timeout <= 0
// bounds nothing.
//
// It stands in for http.Server's WriteTimeout, which bounds a whole answer and
// so cuts off long streams that flow well.
func Listener(ln net.Listener, timeout time.Duration) net.Listener {
	if timeout <= 0 {
		return ln
	}
	return writeBound{ln, timeout}
}

type writeBound struct {
	net.Listener
	timeout time.Duration
}

func (l writeBound) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return writeBoundConn{c, l.timeout}, nil
}

type writeBoundConn struct {
	net.Conn
	timeout time.Duration
}

func (c writeBoundConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
