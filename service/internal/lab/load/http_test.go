package load_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/lab/load"
	"github.com/weir-go/weir/service/internal/lab/report"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

// An httpServer is a real server that records the protocols and the connections of
// requests.
type httpServer struct {
	*httptest.Server
	mu     sync.Mutex
	protos map[string]int
	addrs  map[string]bool
}

func newHTTPServer(t *testing.T, encrypted bool) *httpServer {
	s := &httpServer{protos: map[string]int{}, addrs: map[string]bool{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.protos[r.Proto]++
		s.addrs[r.RemoteAddr] = true
		s.mu.Unlock()
		_, _ = io.Copy(w, r.Body)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetHTTP2(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	if s.EnableHTTP2 = true; encrypted {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// sends sends 20 requests, one after the other, and returns their statuses.
func (s *httpServer) sends(t *testing.T, cfg load.Config) map[string]int {
	t.Helper()
	c := report.NewCollector(10 * time.Second)
	cfg.Target, cfg.Workers, cfg.Requests, cfg.Record = s.URL, 1, 20, func(r trace.Record) { c.Add(r) }
	if _, err := load.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return c.Report(time.Second).ByStatus
}

// Both protocols, encrypted and not, with and without keep-alive.
func TestHTTPVersions(t *testing.T) {
	for _, tt := range []struct {
		encrypted, http2, noKeepAlive bool
		proto                         string
		connections                   int
	}{
		{false, false, false, "HTTP/1.1", 1}, {true, false, false, "HTTP/1.1", 1},
		{false, true, false, "HTTP/2.0", 1}, {true, true, false, "HTTP/2.0", 1},
		{false, false, true, "HTTP/1.1", 20}, {true, true, true, "HTTP/2.0", 20},
	} {
		srv := newHTTPServer(t, tt.encrypted)
		counters := &load.Counters{}
		got := srv.sends(t, load.Config{HTTP2: tt.http2, NoKeepAlive: tt.noKeepAlive, Body: "body", Counters: counters,
			TLS: &tls.Config{InsecureSkipVerify: true}})
		if got["200"] != 20 || srv.protos[tt.proto] != 20 || len(srv.addrs) != tt.connections {
			t.Errorf("%+v: %v, %v, %d connections", tt, got, srv.protos, len(srv.addrs))
		}
		// On a busy machine, a request that finds the first connection not yet open has another opened.
		if c := counters; c.Connections.Load() < int64(tt.connections) || c.Connections.Load() > 20 || c.Started.Load() != 20 || c.Ended.Load() != 20 ||
			c.Sent.Load() < 20*int64(len("body")) || c.Received.Load() < 20*int64(len("body")) {
			t.Errorf("%+v: %d connections, %d sent, %d received", tt, c.Connections.Load(), c.Sent.Load(), c.Received.Load())
		}
	}
}

// A server without HTTP/2, and one with an unknown certificate, are told by the reason and
// by the first error.
func TestHTTPRefusals(t *testing.T) {
	srv := newHTTPServer(t, true)
	var first error
	got := srv.sends(t, load.Config{OnFailure: func(err error) { first = err }})
	if _, ok := errors.AsType[x509.UnknownAuthorityError](first); got["untrusted"] != 20 || !ok {
		t.Errorf("%v, %v: want an unknown authority", got, first)
	}
	plain := newHTTPServer(t, false)
	plain.URL = "https" + plain.URL[len("http"):]
	if got := plain.sends(t, load.Config{}); got["untrusted"] != 20 {
		t.Errorf("%v: want a target that does not speak TLS", got)
	}
	old := httptest.NewServer(http.NotFoundHandler())
	defer old.Close()
	plain.URL, first = old.URL, nil
	if got := plain.sends(t, load.Config{HTTP2: true, OnFailure: func(err error) { first = err }}); got["200"] > 0 || got["404"] > 0 {
		t.Errorf("%v, %v: want errors: the target has no HTTP/2", got, first)
	}
}
