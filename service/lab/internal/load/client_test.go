package load_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/pace"
)

// A field that a protocol does not have, or one that it needs, is an error that says so.
func TestProtocolFields(t *testing.T) {
	grpc := load.Config{Target: "grpc://h:1/d?k=v"}
	redis := load.Config{Target: "redis://h:1", Body: "PING"}
	tcp := load.Config{Target: "tcp://h:1", Body: "x"}
	with := func(c load.Config, change func(*load.Config)) load.Config { change(&c); return c }
	target := func(c load.Config, target string) load.Config { c.Target = target; return c }
	method := func(c *load.Config) { c.Method = "PUT" }
	header := func(c *load.Config) { c.Header = http.Header{"Who": {"me"}} }
	for _, tt := range []struct {
		cfg  load.Config
		want string // empty: valid
	}{
		{cfg: grpc}, {cfg: redis}, {cfg: tcp},
		{cfg: with(grpc, header)},
		{cfg: target(grpc, "grpcs://h:1/a/b?k=&k=%25")},
		{cfg: target(redis, "rediss://user:secret@[::1]:6379")},
		{cfg: target(tcp, "udp://h:1")},
		{with(grpc, method), `method = "PUT": must be empty: grpc requests have no method`},
		{with(redis, method), "redis requests have no method"},
		{with(tcp, method), "tcp requests have no method"},
		{with(redis, header), "header = [Who]: must be empty: redis requests have no header"},
		{with(tcp, header), "tcp requests have no header"},
		{with(grpc, func(c *load.Config) { c.Body = "x" }), `body = "x": must be empty: the target has all of a grpc request`},
		{with(redis, func(c *load.Config) { c.Body = " " }), `body = " ": must be what a redis request sends, such as "CL.THROTTLE`},
		{with(tcp, func(c *load.Config) { c.Body = "" }), `body = "": must be what a tcp request sends`},
		{with(grpc, func(c *load.Config) { c.Header = http.Header{"A b": {"c"}} }), `header = "a b": must be a name of metadata`},
		{with(grpc, func(c *load.Config) { c.Header = http.Header{"Grpc-Timeout": {"1S"}} }), `header = "grpc-timeout"`},
		{target(grpc, "grpc://h:1"), "must have a domain and a descriptor"},
		{target(grpc, "grpc://h:1/d"), "must have a domain and a descriptor"},
		{target(grpc, "grpc://h:1/?k=v"), "must have a domain and a descriptor"},
		{target(grpc, "grpc://h:1/d?=v"), "must have a domain and a descriptor"},
		{target(grpc, "grpc://h:1/d?k=%zz"), `invalid URL escape "%zz"`},
		{target(grpc, "grpc://h/d?k=v"), "must have a port"},
		{target(grpc, "grpc://u:p@h:1/d?k=v"), "must have no user or secret"},
		{target(grpc, "grpc://h:1/d?k=v#f"), "must have no fragment"},
		{target(redis, "redis://h:1/0"), "must end after the port"},
		{target(redis, "redis://h:65536"), "must have a port"},
		{target(redis, "redis://secret@h:1"), "must have a colon before the secret"},
		{target(tcp, "tcp://u:p@h:1"), `target = "tcp://u:xxxxx@h:1": must have no user or secret`},
		{target(tcp, "tcp://h:1?x"), "must end after the port"},
		{target(tcp, "tcp://:1"), "must be a URL with a host"},
		{target(tcp, "unix:///a"), "a Unix socket cannot be a target"},
		{target(tcp, "ftp://h:1"), "one of the schemes grpc, grpcs, http, https, redis, rediss, tcp, udp"},
	} {
		tt.cfg.Profile = pace.Constant(1)
		switch err := tt.cfg.Validate(); {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.cfg.Target, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v: want %q", tt.cfg.Target, err, tt.want)
		}
	}
}

// Each protocol tells the same failures apart.
func TestFailures(t *testing.T) {
	closes := func(t *testing.T) dial {
		return listen(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })
	}
	stalls := func(t *testing.T) dial { return listen(t, func(net.Conn) { <-t.Context().Done() }) }
	fails := func(err error) func(*testing.T) dial {
		return func(*testing.T) dial {
			return func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: err}
			}
		}
	}
	silent := func(t *testing.T) dial {
		return func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	for _, protocol := range []load.Config{
		{Target: "http://h:1"},
		{Target: "grpc://h:1/d?k=v"},
		{Target: "redis://h:1", Body: "PING"},
		{Target: "tcp://h:1", Body: "x"},
	} {
		for _, tt := range []struct {
			what string
			dial func(*testing.T) dial
			want string
		}{
			{"it refuses", fails(syscall.ECONNREFUSED), "refused"},
			{"it resets", fails(syscall.ECONNRESET), "reset"},
			{"no route", fails(syscall.EHOSTUNREACH), "failed"},
			{"it accepts nothing", silent, "timeout"},
			{"it reads nothing", stalls, "timeout"},
			{"it closes", closes, "reset"},
		} {
			t.Run(protocol.Target[:4]+"/"+tt.what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := protocol
					cfg.Profile, cfg.Duration, cfg.Timeout, cfg.Dial = pace.Constant(1), s, 2*s, tt.dial(t)
					r, _ := run(t, t.Context(), cfg)
					if r.ByStatus[tt.want] != 1 || r.Requests != 1 {
						t.Errorf("%v: want one %s", r.ByStatus, tt.want)
					}
					if r.Latency.All.Max > 2.01 {
						t.Errorf("it took %v s: the time-out is 2 s", r.Latency.All.Max)
					}
				})
			})
		}
	}
}

// A request ends with a timeout if an earlier request has started to connect, and that
// attempt times out before the request does.
func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := run(t, t.Context(), load.Config{
			Target: "grpc://h:1/d?k=v", Profile: pace.Constant(8), Duration: s, Timeout: 2 * s,
			Dial: listen(t, func(net.Conn) { <-t.Context().Done() }),
		})
		if r.ByStatus["timeout"] != 8 || r.Requests != 8 {
			t.Errorf("%v: want eight timeouts", r.ByStatus)
		}
	})
}

// The end of the run ends writes that the target does not read.
func TestInterruptBlockedWrites(t *testing.T) {
	for _, protocol := range []load.Config{
		{Target: "grpc://h:1/d?k=v"},
		{Target: "redis://h:1", Body: "PING"},
		{Target: "tcp://h:1", Body: "x"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			time.AfterFunc(5500*time.Millisecond, interrupt)
			protocol.Profile, protocol.Timeout = pace.Constant(1), time.Minute
			protocol.Dial = listen(t, func(net.Conn) { <-t.Context().Done() })
			began := time.Now()
			r, _ := run(t, ctx, protocol)
			if took := time.Since(began); took != 5500*time.Millisecond || r.ByStatus["canceled"] != r.Requests {
				t.Errorf("%s: %v, %v: want an end after 5.5s", protocol.Target, took, r.ByStatus)
			}
		})
	}
}

type dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// listen returns a Dial to a server in memory, which closes each connection after serve.
// The server ends with the test.
func listen(t *testing.T, serve func(net.Conn)) dial {
	t.Helper()
	ln := pipenet.Listen()
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				serve(c)
				_ = c.Close()
			}()
		}
	}()
	return ln.Dial
}

// certificate returns the configurations of a server at 127.0.0.1 and of its clients.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	authorities := x509.NewCertPool()
	authorities.AddCert(srv.Certificate())
	return &tls.Config{Certificates: srv.TLS.Certificates}, &tls.Config{RootCAs: authorities}
}
