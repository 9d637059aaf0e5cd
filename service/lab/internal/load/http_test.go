package load_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/report"
	"github.com/weir-go/weir/service/lab/internal/trace"
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

// Header fields that net/http does not take from the header are sent too, or refused.
func TestHeaderFieldsArriveAsGiven(t *testing.T) {
	type received struct {
		host    string
		length  int64
		chunked bool
		body    string
	}
	arrived := make(chan received, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived <- received{r.Host, r.ContentLength, len(r.TransferEncoding) > 0, string(body)}
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	defer srv.Close()
	own := srv.Listener.Addr().String()
	for _, tt := range []struct {
		name, value, body string
		http2             bool
		want              received
		err               string
	}{
		{"Host", "shop.example:81", "abc", false, received{"shop.example:81", 3, false, "abc"}, ""},
		{"Host", "shop.example", "abc", true, received{"shop.example", 3, false, "abc"}, ""},
		{"Host", "", "", false, received{}, `load: header: Host = [""]: must be one host, with or without a port`},
		{"Host", "a b", "", false, received{}, `load: header: Host = ["a b"]: must be one host, with or without a port`},
		{"Transfer-Encoding", "chunked", "abc", false, received{own, -1, true, "abc"}, ""},
		{"Transfer-Encoding", "Chunked", "", false, received{own, -1, true, ""}, ""},
		{"Transfer-Encoding", "gzip", "abc", false, received{}, `load: header: Transfer-Encoding = ["gzip"]: must be chunked`},
		{"Transfer-Encoding", "chunked", "abc", true, received{}, `load: header: Transfer-Encoding = ["chunked"]: must be left out: HTTP/2 has no such field`},
		{"Content-Length", "3", "abc", false, received{own, 3, false, "abc"}, ""},
		{"Content-Length", "3", "abc", true, received{own, 3, false, "abc"}, ""},
		{"Content-Length", "4", "abc", false, received{}, `load: header: Content-Length = ["4"]: must be left out: it is the length of the body, 3`},
		{"Content-Length", "3", "{n}", false, received{}, `load: header: Content-Length = ["3"]: must be left out: it is the length of the body, 3`},
		{"Trailer", "X-Sum", "abc", false, received{}, `load: header: Trailer = ["X-Sum"]: must be left out: requests of weirlab load have no trailers`},
		{"Connection", "close", "abc", false, received{own, 3, false, "abc"}, ""},
		{"Connection", "close", "abc", true, received{}, `load: header: Connection = ["close"]: must be left out: HTTP/2 has no such field`},
		{"X Y", "z", "", false, received{}, `load: header: "X Y": must be a name of a header field`},
		{"X", "z\n", "", false, received{}, `load: header: X = ["z\n"]: must have no control characters`},
	} {
		_, err := load.Run(t.Context(), load.Config{Target: srv.URL, Header: http.Header{tt.name: {tt.value}}, Body: tt.body, Method: "POST",
			HTTP2: tt.http2, Workers: 1, Requests: 1, Record: func(trace.Record) {}})
		var got received
		select {
		case got = <-arrived:
		default:
		}
		if said := fmt.Sprint(err); tt.err == "" && err != nil || tt.err != "" && said != tt.err || got != tt.want {
			t.Errorf("%s: %s: %+v, %v: want %+v, %s", tt.name, tt.value, got, err, tt.want, tt.err)
		}
	}
}
