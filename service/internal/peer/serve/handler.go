// Package serve serves the Decider of this instance of weir serve to the Clients of package peer in
// other instances.
//
//	h, err := serve.New(serve.Config{Decider: srv, Self: wire.Info{Node: node}, Secret: secret})
//	mux.Handle(wire.Path, h)
//
// The Decider at wire.Path must be that of the process alone, so that no request is forwarded twice.
// When a connection ends, the Handler cancels the requests that wait on it, so that they leave their
// queues.
package serve

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/peer/wire"
)

const (
	// maxWorking bounds the requests that take long, on all connections, in parts: of a batch one
	// for each batchPart requests, of others workParts.
	maxWorking = 512
	batchPart  = 200
	workParts  = 8
	// handshakeTime bounds a handshake.
	handshakeTime = 5 * time.Second
)

// A Handler serves a decider.Decider to the Clients of other instances, at Path. It is safe for
// concurrent use.
type Handler struct {
	cfg       Config
	greetings greetings

	waiting, working              atomic.Int64
	requests, busy, refused, slow atomic.Uint64

	ctx  context.Context // ends with Shutdown
	stop context.CancelFunc
	wg   sync.WaitGroup // of connections

	mu       sync.Mutex // guards what follows
	sessions map[*session]struct{}
	leaving  bool
}

// New returns a Handler, or an error about the Config.
func New(cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.MaxWaiting = cmp.Or(cfg.MaxWaiting, DefaultMaxWaiting)
	cfg.MaxConns = cmp.Or(cfg.MaxConns, DefaultMaxConns)
	h := &Handler{cfg: cfg, sessions: map[*session]struct{}{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h, nil
}

// Stats returns the counts.
func (h *Handler) Stats() Stats {
	h.mu.Lock()
	conns := len(h.sessions)
	h.mu.Unlock()
	return Stats{
		Conns: conns, Waiting: int(h.waiting.Load()), Requests: h.requests.Load(), Busy: h.busy.Load(),
		Refused: h.refused.Load(), Slow: h.slow.Load(),
	}
}

// ServeHTTP upgrades a connection, and serves it until it ends.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, err := h.check(r); err != nil {
		if status == http.StatusUpgradeRequired {
			w.Header().Set("Upgrade", wire.Protocol)
		}
		if status != http.StatusServiceUnavailable {
			h.refuse(addr(r.RemoteAddr), err)
		}
		http.Error(w, err.Error(), status)
		return
	}
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "the connection cannot be upgraded: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	own := h.greetings.add(conn, connlimit.ClientOf(r.Context()))
	s, err := h.greet(conn, both)
	if h.greetings.end(own) {
		err = errReplaced
	}
	if s != nil {
		defer h.remove(s)
	}
	if err != nil {
		h.refuse(conn.RemoteAddr(), err)
		return
	}
	s.run()
}

// check returns the status and the reason for which a request is refused before its connection is
// upgraded.
func (h *Handler) check(r *http.Request) (status int, err error) {
	switch {
	case r.Method != http.MethodGet:
		return http.StatusMethodNotAllowed, errors.New("want GET")
	case r.ProtoMajor != 1 || !strings.EqualFold(r.Header.Get("Connection"), "Upgrade") || !offers(r, wire.Protocol):
		return http.StatusUpgradeRequired, fmt.Errorf("this instance, of version %s, speaks %s: want it in the header Upgrade, over HTTP/1.1, not %.80q. If that is a later version of the protocol, upgrade this instance first", cmp.Or(h.cfg.Self.Version, "(unknown)"), wire.Protocol, r.Header.Get("Upgrade"))
	}
	h.mu.Lock()
	leaving, full := h.leaving, len(h.sessions) >= h.cfg.MaxConns
	h.mu.Unlock()
	switch {
	case leaving:
		return http.StatusServiceUnavailable, errors.New("this instance is shutting down")
	case full:
		return http.StatusServiceUnavailable, wire.ErrMany
	case h.cfg.Allow != nil:
		return http.StatusForbidden, h.cfg.Allow(r)
	}
	return 0, nil
}

// offers reports whether a request offers a protocol.
func offers(r *http.Request, name string) bool {
	for _, line := range r.Header.Values("Upgrade") {
		for offer := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(offer), name) {
				return true
			}
		}
	}
	return false
}

// An addr is the address of a peer as net/http has it.
type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }

func (h *Handler) refuse(from net.Addr, err error) {
	if h.refused.Add(1); h.cfg.OnRefused != nil {
		h.cfg.OnRefused(from, err)
	}
}

// greet accepts a connection.
func (h *Handler) greet(conn net.Conn, both *bufio.ReadWriter) (*session, error) {
	_ = conn.SetDeadline(time.Now().Add(handshakeTime))
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", wire.Protocol); err != nil {
		return nil, err
	}
	in := wire.NewReader(bufio.NewReaderSize(afterUpgrade{both.Reader, conn}, wire.ReadSize))
	g := wire.Handshake{In: in, Out: wire.NewWriter(conn), Secret: h.cfg.Secret}
	self := h.cfg.Self
	if h.cfg.Others {
		g.Banned = self.Node
	}
	if h.cfg.Rules != nil {
		self.Rules = h.cfg.Rules().Hash
	}
	peer, err := g.GreetClient(wire.NewHello(self, h.cfg.Secret))
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	s := newSession(h, conn, in, g.Out, peer)
	if !h.add(s) {
		return nil, wire.ErrMany
	}
	return s, nil
}

// afterUpgrade reads what came with the request before the rest.
type afterUpgrade struct {
	early *bufio.Reader
	conn  net.Conn
}

func (a afterUpgrade) Read(b []byte) (int, error) {
	if n := a.early.Buffered(); n > 0 {
		return a.early.Read(b[:min(n, len(b))])
	}
	return a.conn.Read(b)
}

func (h *Handler) add(s *session) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leaving || len(h.sessions) >= h.cfg.MaxConns {
		return false
	}
	h.sessions[s] = struct{}{}
	h.wg.Add(1)
	return true
}

func (h *Handler) remove(s *session) {
	h.mu.Lock()
	delete(h.sessions, s)
	h.mu.Unlock()
	h.wg.Done()
}

// Leave asks the Clients to send no more requests, and refuses new connections. Requests that come
// all the same are served.
func (h *Handler) Leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leaving {
		return
	}
	h.leaving = true
	for s := range h.sessions {
		if s.out.Send(0, wire.KindLeave, nil) == nil {
			go s.out.Flush()
		}
	}
}

// Shutdown calls Leave, and waits until all requests are answered and the Clients have closed their
// connections. If ctx ends before, it closes the connections and returns the error of ctx.
// http.Server.Shutdown does not wait for them.
func (h *Handler) Shutdown(ctx context.Context) error {
	h.Leave()
	ended := make(chan struct{})
	go func() { h.wg.Wait(); close(ended) }()
	select {
	case <-ended:
		h.stop()
		return nil
	case <-ctx.Done():
	}
	h.stop()
	h.mu.Lock()
	for s := range h.sessions {
		_ = s.conn.Close()
	}
	h.mu.Unlock()
	return ctx.Err()
}
