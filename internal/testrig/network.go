// Package testrig has what tests of several packages need: connections in memory that a test can
// disturb, a limiter that records requests, requests with header lines, a buffer that goroutines share.
package testrig

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
)

// A Network connects clients to a server by pipes. It is the listener of the server. A test can
// disturb its connections.
type Network struct {
	*pipenet.Listener

	mu      sync.Mutex // guards what follows
	refuses bool
	wires   []*wire
}

// Listen returns a Network. A bubble must make its own.
func Listen() *Network { return &Network{Listener: pipenet.Listen()} }

// Serve serves HTTP/1.1 and HTTP/2 without TLS in a bubble, until the test ends.
func Serve(t testing.TB, srv *http.Server) *Network {
	n := Listen()
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = srv.Serve(n) }()
	t.Cleanup(func() {
		_ = srv.Close()
		time.Sleep(time.Minute) // the server lingers
	})
	return n
}

// Dial returns the client's end of a new connection, when the server has accepted the other. It
// suits http.Transport.
func (n *Network) Dial(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx, "") }

// Conn returns the client's end of a new connection. It is closed when the test ends.
func (n *Network) Conn(t testing.TB) net.Conn {
	t.Helper()
	return n.DialFrom(t, "")
}

// DialFrom returns the client's end of a new connection from an address, such as 192.0.2.1:4711. It is
// closed when the test ends.
func (n *Network) DialFrom(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := n.dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (n *Network) dial(ctx context.Context, from string) (net.Conn, error) {
	n.mu.Lock()
	refuses := n.refuses
	n.mu.Unlock()
	if refuses {
		return nil, syscall.ECONNREFUSED
	}
	client, server := net.Pipe()
	if from != "" {
		server = From(server, from)
	}
	if err := n.Connect(ctx, server); err != nil {
		return nil, err
	}
	w := &wire{Conn: client}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wires = append(n.wires, w)
	return w, nil
}

// From gives a connection a remote address, such as 192.0.2.1:4711.
func From(conn net.Conn, address string) net.Conn {
	return remote{conn, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}
}

type remote struct {
	net.Conn
	address net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.address }

// Client returns a client of the server for version 1 or 2 of HTTP.
func (n *Network) Client(t testing.TB, version int) *http.Client { return Client(t, version, n.Dial) }

// Client returns a client for version 1 or 2 of HTTP without TLS. If dial is nil, it connects over
// the network of the system.
func Client(t testing.TB, version int, dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	tr := &http.Transport{DialContext: dial, DisableCompression: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(version == 1)
	tr.Protocols.SetUnencryptedHTTP2(version == 2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// Refuse refuses new connections until Repair is called.
func (n *Network) Refuse() { n.setRefuses(true) }

// Repair allows new connections again.
func (n *Network) Repair() { n.setRefuses(false) }

func (n *Network) setRefuses(refuses bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuses = refuses
}

// Conns returns the clients' ends of all connections so far, in the order in which Dial returned
// them.
func (n *Network) Conns() []net.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []net.Conn
	for _, w := range n.wires {
		all = append(all, w)
	}
	return all
}

// Silence loses the bytes of all present connections from now on, in both directions. Neither end
// gets an error.
func (n *Network) Silence() { n.disturb(func(w *wire) { w.silent = true }) }

// Hold lets the writes of the clients of all present connections wait until release is called.
func (n *Network) Hold() (release func()) {
	held := make(chan struct{})
	n.disturb(func(w *wire) { w.held = held })
	return func() { close(held) }
}

func (n *Network) disturb(change func(*wire)) {
	n.mu.Lock()
	wires := slices.Clone(n.wires)
	n.mu.Unlock()
	for _, w := range wires {
		w.mu.Lock()
		change(w)
		w.mu.Unlock()
	}
}

// A wire is the client's end of a connection.
type wire struct {
	net.Conn
	mu     sync.Mutex // guards what follows
	silent bool
	held   chan struct{} // writes wait for its end; nil: they do not wait
}

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	held := w.held
	w.mu.Unlock()
	if held != nil {
		<-held
	}
	if w.isSilent() {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

func (w *wire) Read(b []byte) (int, error) {
	for {
		n, err := w.Conn.Read(b)
		if err != nil || !w.isSilent() {
			return n, err
		}
	}
}

func (w *wire) isSilent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.silent
}
