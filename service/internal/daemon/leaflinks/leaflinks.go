// Package leaflinks serves the links of leaves, each for as long as its token is valid.
package leaflinks

import (
	"bufio"
	"net"
	"net/http"
	"sync"

	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/token"
)

// Links serve the links of leaves, at wire.LeafPath. With tokens, a leaf needs one that
// allows to decide and to lease for all keys. A link ends with the validity of its token.
// Links are safe for concurrent use.
type Links struct {
	*serve.Handler
	guard *token.Guard

	mu    sync.Mutex // guards conns
	conns map[*conn]struct{}
}

// A conn is the connection of a link.
type conn struct {
	net.Conn
	secret string // the bearer token, or ""
	links  *Links
}

// New returns Links, which set the Allow of cfg.
func New(cfg serve.Config, guard *token.Guard) (*Links, error) {
	l := &Links{guard: guard, conns: map[*conn]struct{}{}}
	cfg.Allow = func(r *http.Request) error {
		secret, _ := token.Bearer(r.Header.Get("Authorization"))
		return l.allow(secret)
	}
	var err error
	l.Handler, err = serve.New(cfg)
	return l, err
}

// allow returns an error unless a secret allows a link.
func (l *Links) allow(secret string) error {
	s := l.guard.Identify(secret)
	s.Count()
	if err := s.Authorize(token.Decide, ""); err != nil {
		return err
	}
	return s.Authorize(token.Lease, "")
}

// Around returns a handler that serves the links before next.
func (l *Links) Around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wire.LeafPath {
			next.ServeHTTP(w, r)
			return
		}
		secret, _ := token.Bearer(r.Header.Get("Authorization"))
		l.ServeHTTP(&writer{w, l, secret}, r)
	})
}

// A writer remembers the connection that is taken over.
type writer struct {
	http.ResponseWriter
	links  *Links
	secret string
}

// Hijack takes the connection over: see http.Hijacker.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	taken, both, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c := &conn{Conn: taken, secret: w.secret, links: w.links}
	w.links.mu.Lock()
	defer w.links.mu.Unlock()
	w.links.conns[c] = struct{}{}
	return c, both, nil
}

// Close closes the connection.
func (c *conn) Close() error {
	c.links.mu.Lock()
	delete(c.links.conns, c)
	c.links.mu.Unlock()
	return c.Conn.Close()
}

// Recheck ends the links with withdrawn tokens, or all links.
func (l *Links) Recheck(all bool) {
	l.mu.Lock()
	var ended []*conn
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
