package eventloop

import (
	"net"
	"runtime"
)

// A listener has the loops of its connections.
type listener struct {
	net.Listener
	loops []*loop
}

// Listen returns a listener. Its TCP connections are a Conn. It must be closed. Its loops end
// with the last connection that is attached.
func Listen(ln net.Listener) (net.Listener, error) {
	l := &listener{Listener: ln}
	for range runtime.GOMAXPROCS(0) {
		loop, err := newLoop()
		if err != nil {
			l.end()
			return nil, err
		}
		l.loops = append(l.loops, loop)
	}
	return l, nil
}

func (l *listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nc, err
	}
	return &conn{listener: l, local: tcp.LocalAddr(), remote: tcp.RemoteAddr(), stream: tcp}, err
}

// Close ends Accept. Connections that are attached stay so.
func (l *listener) Close() error {
	l.end()
	return l.Listener.Close()
}

func (l *listener) end() {
	for _, loop := range l.loops {
		loop.close()
	}
}

// least returns the loop with the fewest connections.
func (l *listener) least() *loop {
	best, fewest := l.loops[0], l.loops[0].size()
	for _, loop := range l.loops[1:] {
		if n := loop.size(); n < fewest {
			best, fewest = loop, n
		}
	}
	return best
}
