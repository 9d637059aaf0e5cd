package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/balance"
	"github.com/weir-go/weir/service/internal/proxy"
)

// An origin that a health check has taken out is tried by requests as soon as a reload ends the checks.
func TestReloadEndsHealthChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, "health_path: /live\nhealth_interval: 1s", proxy.Config{Origins: []string{"http://a", "http://b"}, Transport: origin(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/live" && r.URL.Host == "a" {
				return answer(404), nil
			}
			return answer(200), nil
		})})
		go p.CheckOrigins(t.Context())
		time.Sleep(10 * s)
		state(t, p.Proxy, 0, balance.Ejected)
		p.reload("mode: enforce")
		for range 100 {
			time.Sleep(s / 10)
			p.crowd(2, "/")
		}
		state(t, p.Proxy, 0, balance.Starting)
	})
}

// A partsBody is a request's body that comes in ten parts.
type partsBody struct {
	left  int
	pause time.Duration
}

func (b *partsBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(b.pause)
	b.left--
	return copy(p, "part"), nil
}

// Origins that wait for the bodies of requests are not silent.
func TestUploadsAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := defaults(answers(200, s/100))
		cfg.Origins = []string{"http://a", "http://b"}
		a := arrivals{t: t, proxy: newProxy(t, cfg)}
		a.play(10, 5*s, 0, "")
		for range 8 {
			a.all.Go(func() {
				w := httptest.NewRecorder()
				a.proxy.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/", &partsBody{left: 10, pause: s / 2}))
				if w.Code != 200 {
					t.Errorf("status %d", w.Code)
				}
			})
		}
		a.play(2, 7*s, 0, "")
		for i, o := range a.proxy.Stats().Origins {
			if n := o.Ejected[balance.NoAnswers]; n > 0 {
				t.Errorf("origin %d was ejected %d times", i, n)
			}
		}
		a.all.Wait()
		time.Sleep(2 * time.Minute)
		want(t, a.proxy, 0, 0)
	})
}

// Requests at an origin that hangs do not keep a fixed limit for long, also while long-lived exchanges have all places.
func TestHungOriginWhileLongLivedAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, func(c *proxy.Config) {
			c.Limit, c.LongLived, c.Timeout = proxy.FixedLimit(20), 2, 30*s
			serve := c.Transport
			c.Transport = origin(func(r *http.Request) (*http.Response, error) {
				resp, err := serve.RoundTrip(r)
				if err == nil && r.URL.Path == "/events" {
					resp.Header.Set("Content-Type", "text/event-stream")
					out, _ := io.Pipe()
					resp.Body, resp.ContentLength = out, -1
					go func() { <-r.Context().Done(); out.Close() }()
				}
				return resp, err
			})
		}, three()...)
		f.serves("before", 70, 10*s, 1)
		for range 5 {
			f.send("/events", time.Minute)
		}
		time.Sleep(s)
		f.servers[0].hang()
		f.servers[1].hang()
		f.serves("at first", 70, 3*s, 0.6)
		f.serves("from three seconds on", 70, 30*s, 1)
		f.servers[0].goOn()
		f.servers[1].goOn()
		f.all.Wait()
		f.end()
	})
}

// A request goes, while its body has not been read, to another origin if there is no connection to its own.
func TestUnreadUploadsGoElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var whole atomic.Int64
		large := strings.Repeat("x", 100_000)
		cfg := defaults(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "a" {
				r.Body.Close() // as http.Transport does
				return refuses(r)
			}
			if text, err := io.ReadAll(r.Body); err == nil && string(text) == large {
				whole.Add(1)
			}
			return answer(200), nil
		})
		cfg.Origins = []string{"http://a", "http://b"}
		p := newProxy(t, cfg)
		for range 100 {
			if code := call(t, p, "POST", strings.NewReader(large)); code != 200 {
				t.Errorf("status %d", code)
			}
			time.Sleep(s / 10)
		}
		if n := whole.Load(); n != 100 {
			t.Errorf("%d of 100 bodies came whole", n)
		}
	})
}

// An origin that fails at once gets no more than its share for long, although it has the fewest requests in flight.
func TestQuickFailures(t *testing.T) {
	for name, fails := range map[string]func() *http.Response{
		"500": func() *http.Response { return answer(500) },
		"502": func() *http.Response { return answer(502) },
		"503 with Retry-After": func() *http.Response {
			resp := answer(503)
			resp.Header.Set("Retry-After", "1")
			return resp
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bad atomic.Bool
				f := newFleet(t, func(c *proxy.Config) {
					serve := c.Transport
					c.Transport = origin(func(r *http.Request) (*http.Response, error) {
						if bad.Load() && r.URL.Host == "o0" {
							return fails(), nil
						}
						return serve.RoundTrip(r)
					})
				}, three()...)
				f.serves("before", 100, 10*s, 1)
				bad.Store(true)
				f.serves("at first", 100, 3*s, 0.7)
				f.serves("from three seconds on", 100, 30*s, 0.985)
				bad.Store(false)
				f.during(100, 11*s)
				f.serves("afterwards", 100, 10*s, 1)
				f.end()
			})
		})
	}
}

// The connection of the client of such a request serves it, however slow the client is, and further requests.
func TestSlowUnreadUploadGoesElsewhere(t *testing.T) {
	cfg := proxy.Config{
		Origins: []string{"http://a", "http://b"}, ClientTimeout: 10 * s, Timeout: 5 * s, Limit: proxy.FixedLimit(9),
		Transport: origin(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "a" {
				if r.Body != nil {
					r.Body.Close()
				}
				return refuses(r)
			}
			return answers(200, s).RoundTrip(r)
		}),
	}
	overWire(t, cfg, func(t *testing.T, p *proxy.Proxy, w wire) {
		retried := func() uint64 { return p.Stats().Origins[0].Retried }
		for i := 0; i < 5 || i < 100 && retried() == 0; i++ { // chance decides which origin a request goes to first
			w.send("POST / HTTP/1.1\r\nHost: proxy.test\r\nTransfer-Encoding: chunked\r\n\r\n")
			for range 5 {
				time.Sleep(8 * s)
				w.send("2000\r\n" + strings.Repeat("x", 0x2000) + "\r\n")
			}
			w.send("0\r\n\r\n")
			if resp := w.receive(); resp == nil || resp.StatusCode != 200 {
				t.Fatalf("%+v: want 200", resp)
			}
		}
		if retried() == 0 {
			t.Error("none went elsewhere")
		}
	})
}

// A request whose handshake with its origin does not end goes to another one, whatever its method is.
func TestHandshakeThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, well := pipenet.Listen(), pipenet.Listen()
		srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		go func() { _ = srv.Serve(well) }()
		go func() {
			for {
				nc, err := silent.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(io.Discard, nc) }()
			}
		}()
		cfg := defaults(nil)
		cfg.Transport, cfg.Origins = nil, []string{"https://a", "http://b"}
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "a:443" {
				return silent.Dial(ctx, network, addr)
			}
			return well.Dial(ctx, network, addr)
		}
		p := newProxy(t, cfg)
		for range 10 {
			for _, method := range []string{"GET", "POST"} {
				if code := call(t, p, method, strings.NewReader("x")); code != 200 {
					t.Errorf("%s: status %d", method, code)
				}
				time.Sleep(3 * s)
			}
		}
		if p.Stats().Origins[0].Retried == 0 {
			t.Error("none went elsewhere")
		}
		_ = srv.Close()
		_ = silent.Close()
		time.Sleep(time.Minute)
		want(t, p, 0, 0)
	})
}

// A client that leaves, or whose deadline comes, while its request waits for another origin, has left: no origin has failed.
func TestLeavesOnTheWayToAnotherOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := defaults(newGroup(map[string]origin{"a": refuses, "b": answers(200, time.Minute)}).RoundTrip)
		cfg.Origins, cfg.Auto, cfg.MaxWait, cfg.Timeout = []string{"http://a", "http://b"}, limit.Config{Initial: 1, Max: 1}, time.Hour, time.Hour
		p := newProxy(t, cfg)
		go call(t, p, "GET", nil)
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), s)
		defer leave()
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		if w.Code != 499 {
			t.Errorf("status %d: want 499", w.Code)
		}
		time.Sleep(2 * time.Minute)
		st := p.Stats()
		if st.Outcomes[weir.Ignored] != 1 || st.Outcomes[weir.Success] != 1 || st.Wasted != 1 || st.Admitted != 2 {
			t.Errorf("%+v: want a success, and a client that has left", st.Stats)
		}
		text := fetch(p.Admin(), "/metrics").Body.String()
		for _, line := range []string{`weir_proxy_origin_errors_total{`, `weir_proxy_signs_total{sign="connection_refused"} 1`} {
			if strings.Contains(text, line) {
				t.Errorf("/metrics has %s", line)
			}
		}
		want(t, p, 0, 0)
	})
}

// An origin with answers that are no HTTP fails: requests that may be repeated go to another one, and the others soon, too.
func TestAnswersThatAreNoHTTP(t *testing.T) {
	for _, scheme := range []string{"http", "h2c"} {
		t.Run(scheme, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wrong, well := pipenet.Listen(), pipenet.Listen()
				srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(s / 20) })}
				go func() { _ = srv.Serve(well) }()
				go func() {
					for {
						nc, err := wrong.Accept()
						if err != nil {
							return
						}
						go func() {
							_, _ = nc.Read(make([]byte, 4096))
							_, _ = io.WriteString(nc, "220 mail.test ESMTP\r\n\r\n")
							_ = nc.Close()
						}()
					}
				}()
				cfg := defaults(nil)
				cfg.Transport, cfg.Origins = nil, []string{scheme + "://a", "http://b"}
				cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr == "a:80" {
						return wrong.Dial(ctx, network, addr)
					}
					return well.Dial(ctx, network, addr)
				}
				p := newProxy(t, cfg)
				for range 200 {
					go func() {
						if code := call(t, p, "GET", nil); code != 200 {
							t.Errorf("status %d", code)
						}
					}()
					time.Sleep(s / 50)
				}
				time.Sleep(s)
				state(t, p, 0, balance.Ejected)
				_ = srv.Close()
				_ = wrong.Close()
				time.Sleep(time.Minute)
				want(t, p, 0, 0)
			})
		})
	}
}
