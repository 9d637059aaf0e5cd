package redistest

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// A Proxy forwards connections to a server, with faults.
type Proxy struct {
	Addr string

	target string
	delay  atomic.Int64 // of each chunk of a reply
	silent atomic.Bool
	done   chan struct{}
}

// NewProxy starts a proxy of the server, and stops it when the test ends.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: ln.Addr().String(), target: s.Addr, done: make(chan struct{})}
	t.Cleanup(func() { close(p.done); _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

// Delay delays what the server sends.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Silence loses what the server sends from now on, or forwards it again. Connections stay
// open.
func (p *Proxy) Silence(on bool) { p.silent.Store(on) }

// serve forwards one connection.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		<-p.done
		_ = client.Close()
		_ = server.Close()
	}()
	go p.pipe(server, client, false)
	p.pipe(client, server, true)
}

// pipe forwards one direction; replies have the faults.
func (p *Proxy) pipe(to, from net.Conn, replies bool) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if replies {
			time.Sleep(time.Duration(p.delay.Load()))
			if p.silent.Load() {
				continue
			}
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
