// Package pipenet connects clients and servers within a process by pipes. Tests of them can run in
// a bubble of package testing/synctest.
package pipenet

import (
	"context"
	"net"
	"sync"
)

// A Listener accepts the pipes that Dial makes.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

// Listen returns a Listener. A bubble must make its own.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept returns the server's end of the next pipe.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr returns an address on loopback.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// Dial returns the client's end of a new pipe, when the server has accepted the other.
// It suits http.Transport.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	return client, l.Connect(ctx, server)
}

// Connect lets the server accept a connection.
func (l *Listener) Connect(ctx context.Context, server net.Conn) error {
	select {
	case l.conns <- server:
		return nil
	case <-l.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}
