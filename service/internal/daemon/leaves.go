package daemon

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/token"
)

// leafLinks serves the links of leaves, at peer.LeafPath. With tokens, a leaf needs one that
// allows to decide and to lease for all keys. A link ends with the validity of its token.
type leafLinks struct {
	*serve.Handler
	guard *token.Guard

	mu    sync.Mutex // guards conns
	conns map[*leafConn]struct{}
}

// A leafConn is the connection of a link.
type leafConn struct {
	net.Conn
	secret string // the bearer token, or ""
	links  *leafLinks
}

// newLeafLinks returns the links of leaves of the Daemon.
func (d *Daemon) newLeafLinks() (*leafLinks, error) {
	l := &leafLinks{guard: &d.guard, conns: map[*leafConn]struct{}{}}
	var err error
	l.Handler, err = serve.New(serve.Config{
		Decider: d.asked, Blocking: d.blocking(), Self: wire.Info{Node: d.node, Version: d.cfg.Version}, Others: true,
		Rules: d.server.Rules, Now: d.server.Now, MaxConns: max(d.most/2, 1),
		Calls: map[string]func(context.Context, wire.Info, []byte) ([]byte, error){tiersCall: d.onTiers},
		Allow: func(r *http.Request) error {
			secret, _ := token.Bearer(r.Header.Get("Authorization"))
			return l.allow(secret)
		},
		OnRefused: d.logRefused("a leaf was refused"),
	})
	return l, err
}

// allow returns an error unless a secret allows a link.
func (l *leafLinks) allow(secret string) error {
	s := l.guard.Identify(secret)
	s.Count()
	if err := s.Authorize(token.Decide, ""); err != nil {
		return err
	}
	return s.Authorize(token.Lease, "")
}

// around returns a handler that serves the links before next.
func (l *leafLinks) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wire.LeafPath {
			next.ServeHTTP(w, r)
			return
		}
		secret, _ := token.Bearer(r.Header.Get("Authorization"))
		l.ServeHTTP(&leafWriter{w, l, secret}, r)
	})
}

// A leafWriter remembers the connection that is taken over.
type leafWriter struct {
	http.ResponseWriter
	links  *leafLinks
	secret string
}

// Hijack takes the connection over: see http.Hijacker.
func (w *leafWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c := &leafConn{Conn: conn, secret: w.secret, links: w.links}
	w.links.mu.Lock()
	defer w.links.mu.Unlock()
	w.links.conns[c] = struct{}{}
	return c, both, nil
}

// Close closes the connection.
func (c *leafConn) Close() error {
	c.links.mu.Lock()
	delete(c.links.conns, c)
	c.links.mu.Unlock()
	return c.Conn.Close()
}

// recheck ends the links with withdrawn tokens, or all links.
func (l *leafLinks) recheck(all bool) {
	l.mu.Lock()
	var ended []*leafConn
	for c := range l.conns {
		if all || l.allow(c.secret) != nil {
			ended = append(ended, c)
		}
	}
	l.mu.Unlock()
	for _, c := range ended {
		_ = c.Close()
	}
}
