package peer_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

var secret = []byte("a secret of the whole fleet")

// quota is n tokens in a period.
func quota(n int, period time.Duration, a config.Algorithm) config.Quota {
	return config.Quota{Rate: config.Rate{Count: n, Period: period}, Algorithm: a}
}

// one is a rule for every key.
func one(name string, q config.Quota) config.Rule {
	return config.Rule{Name: name, Glob: "*", Quota: q}
}

func newServer(t testing.TB, cfg server.Config, rules ...config.Rule) *server.Server {
	t.Helper()
	if cfg.Rules == nil {
		cfg.Rules = &config.Rules{Rules: rules}
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newHandler(t testing.TB, cfg peer.HandlerConfig) *peer.Handler {
	t.Helper()
	h, err := peer.NewHandler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A site is an instance in the bubble of a test, behind a network of pipes.
type site struct {
	*peer.Handler
	t     *testing.T
	pipes *pipenet.Listener
	http  *http.Server

	mu     sync.Mutex // guards what follows
	cables []*cable
	cut    bool // no new connections
}

// newSite serves until the test ends.
func newSite(t *testing.T, cfg peer.HandlerConfig) *site {
	t.Helper()
	s := &site{t: t, pipes: pipenet.Listen()}
	if cfg.Decider == nil {
		cfg.Decider = newServer(t, server.Config{}, one("all", quota(10, time.Second, config.GCRA)))
	}
	s.Handler = newHandler(t, cfg)
	mux := http.NewServeMux()
	mux.Handle(peer.Path, s.Handler)
	s.http = &http.Server{Handler: mux}
	var served sync.WaitGroup
	served.Go(func() { _ = s.http.Serve(s.pipes) })
	t.Cleanup(func() {
		_ = s.http.Close()
		served.Wait()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ended)
		synctest.Wait()
	})
	return s
}

// dial returns a Client of the site, which is closed before the site.
func (s *site) dial(cfg peer.Config) *peer.Client {
	s.t.Helper()
	cfg.URL = "http://weir"
	cfg.Dial = s.connect
	c, err := peer.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	synctest.Wait()
	return c
}

// connect makes a connection.
func (s *site) connect(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	cut := s.cut
	s.mu.Unlock()
	if cut {
		return nil, net.ErrClosed
	}
	conn, err := s.pipes.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &cable{Conn: conn}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cables = append(s.cables, c)
	return c, nil
}

// A cable is the client's end of a connection, which a test can disturb.
type cable struct {
	net.Conn
	mu     sync.Mutex // guards what follows
	silent bool
	held   chan struct{} // writes wait for its end; nil if they do not
}

// hold lets writes of the client wait until release is called.
func (s *site) hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	for _, c := range s.cables {
		c.mu.Lock()
		c.held = held
		c.mu.Unlock()
	}
	return func() { close(held) }
}

// silence loses all that is sent from now on, in both directions, without a sign.
func (s *site) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cables {
		c.mu.Lock()
		c.silent = true
		c.mu.Unlock()
	}
}

// breaks breaks all connections, and allows no new ones.
func (s *site) breaks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	for _, c := range s.cables {
		_ = c.Close()
	}
}

// repair allows new connections.
func (s *site) repair() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = false
}

func (c *cable) isSilent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.silent
}

func (c *cable) Write(b []byte) (int, error) {
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	if held != nil {
		<-held
	}
	if c.isSilent() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *cable) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.isSilent() {
			return n, err
		}
	}
}

// serve serves a Handler on loopback, and returns its URL.
func serve(t testing.TB, h *peer.Handler) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(peer.Path, h)
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = h.Shutdown(ctx)
		srv.Close()
	})
	return srv.URL
}

// dial returns a Client of a server on loopback that is up.
func dial(t testing.TB, cfg peer.Config) *peer.Client {
	t.Helper()
	up := make(chan struct{})
	var once sync.Once
	cfg.OnState = func(s peer.State) {
		if s.Up {
			once.Do(func() { close(up) })
		}
	}
	c, err := peer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	select {
	case <-up:
	case <-time.After(10 * time.Second):
		t.Fatalf("not up: %+v", c.State())
	}
	return c
}

// decide decides about a key.
func decide(d decider.Decider, key string, n int) (v decider.Verdict, err error) {
	err = d.Decide(context.Background(), &decider.Request{Key: key, N: n}, &v)
	return v, err
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
