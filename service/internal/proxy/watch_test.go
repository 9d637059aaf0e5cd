package proxy_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/condition"
)

// messages returns those of the lines of a log, in order.
func messages(log *testrig.Buffer) (all []string) {
	for line := range strings.Lines(log.String()) {
		var l struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			panic(err)
		}
		all = append(all, l.Msg)
	}
	return all
}

// The proxy says what it sees when that changes, and never a line per request.
func TestStatus(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	every := func(n int64, status int) func(int64) (*http.Response, error) {
		return func(i int64) (*http.Response, error) {
			if i%n == 0 {
				return answer(status), nil
			}
			return answer(200), nil
		}
	}
	for _, tt := range []struct {
		name      string
		origin    func(i int64) (*http.Response, error)
		condition condition.Condition
		message   string
	}{
		{"down", func(int64) (*http.Response, error) { return nil, refused }, condition.Refuses,
			"the origin is down, or starts: it refuses all connections, although the limit is not used up"},
		{"without an address", func(int64) (*http.Response, error) { return nil, &net.DNSError{Err: "no such host", IsNotFound: true} }, condition.Unreachable,
			"the origin cannot be reached: no address, no route, a Unix socket that cannot be opened, or a failed TLS handshake for all requests, although the limit is not used up"},
		{"one in ten unavailable", every(10, 503), condition.Unavailable,
			"the origin answers 503 to 10 % of requests, although the limit is not used up"},
		{"a gateway before it", every(2, 504), condition.GatewayLate,
			"the origin answers 504 to 50 % of requests, although the limit is not used up"},
		{"silent", func(int64) (*http.Response, error) { return nil, context.DeadlineExceeded }, condition.Silent,
			"the origin does not answer all requests in time, although the limit is not used up"},
		{"a quota, and bugs", every(2, 429), condition.Well, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bad atomic.Bool
				var count atomic.Int64
				j := new(testrig.Buffer)
				p := newProxy(t, proxy.Config{
					Limit: proxy.FixedLimit(10), Logger: slog.New(slog.NewJSONHandler(j, nil)),
					Transport: origin(func(*http.Request) (*http.Response, error) {
						time.Sleep(s / 100)
						if bad.Load() {
							return tt.origin(count.Add(1))
						}
						return answer(200), nil
					}),
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go p.Watch(ctx)
				serve := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); {
						ask(t.Context(), p)
					}
				}
				serve(20 * s)
				bad.Store(true)
				serve(20 * s)
				number := regexp.MustCompile(`\d+ % of|all`)
				plain := func(s string) string { return number.ReplaceAllString(s, "N") }
				if st := p.Status(); st.Condition != tt.condition || !st.Ready || tt.message != "" && plain(st.Message) != plain(tt.message) {
					t.Errorf("%+v: want %s, %q", st, tt.condition, tt.message)
				}
				bad.Store(false)
				serve(20 * s)
				want := []string{tt.message, "the origin shows no sign of overload"}
				if tt.message == "" {
					want = nil
				}
				// The first look may see a moment before.
				got := strings.Join(messages(j), "; ")
				if w := strings.Join(want, "; "); plain(got) != plain(w) {
					t.Errorf("the log says %q: want %q", got, w)
				}
				if st := p.Status(); st.Condition != condition.Well {
					t.Errorf("%+v: want it well again", st)
				}
			})
		})
	}
}

// An origin that has become silent is silent until it answers, although abandoned work
// holds the whole limit, and nothing more can time out.
func TestSilentUntilItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		p := newProxy(t, proxy.Config{
			Limit: proxy.FixedLimit(4), Timeout: s, AbandonedHold: 30 * s,
			Transport: origin(func(r *http.Request) (*http.Response, error) {
				if hangs.Load() {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return answer(200), nil
			}),
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.Watch(ctx)
		hangs.Store(true)
		for range 80 {
			go ask(t.Context(), p)
			time.Sleep(s / 4)
		}
		if st := p.Status(); st.Condition != condition.Silent {
			t.Errorf("after 20 s: %+v: want it silent", st)
		}
		hangs.Store(false)
		for range 200 {
			ask(t.Context(), p)
			time.Sleep(s / 4)
		}
		if st := p.Status(); st.Condition != condition.Well {
			t.Errorf("when it answers again: %+v: want it well", st)
		}
	})
}

// A few answers are enough for an origin to be well again, also if no requests follow them. A limit
// that no request asks for is not used up.
func TestWellWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		p := newProxy(t, proxy.Config{
			Limit: proxy.FixedLimit(1), Queue: -1,
			Transport: origin(func(r *http.Request) (*http.Response, error) {
				if down.Load() {
					return nil, syscall.ECONNREFUSED
				}
				time.Sleep(s / 10)
				return answer(200), nil
			}),
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.Watch(ctx)
		is := func(when string, want condition.Condition) {
			t.Helper()
			if st := p.Status(); st.Condition != want {
				t.Errorf("%s: %+v: want %s", when, st, want)
			}
		}
		down.Store(true)
		for range 8 {
			ask(t.Context(), p)
			time.Sleep(s / 4)
		}
		is("down", condition.Refuses)
		time.Sleep(time.Minute)
		is("a minute later, without requests", condition.Refuses)
		for range 4 {
			ask(t.Context(), p)
			time.Sleep(s / 4)
		}
		down.Store(false)
		ask(t.Context(), p)
		time.Sleep(5 * s)
		is("after one answer", condition.Well)

		for range 20 {
			go ask(t.Context(), p)
			go ask(t.Context(), p)
			time.Sleep(s / 4)
		}
		is("busy", condition.LimitUsed)
		time.Sleep(5 * s)
		is("without requests", condition.Well)
	})
}

// However often the condition changes, there are few lines.
func TestTheLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(testrig.Buffer)
		p := newProxy(t, proxy.Config{
			Limit: proxy.FixedLimit(10), Logger: slog.New(slog.NewJSONHandler(j, nil)),
			Transport: origin(func(*http.Request) (*http.Response, error) {
				time.Sleep(s / 100)
				if time.Now().Second()/5%2 == 0 {
					return answer(503), nil
				}
				return answer(200), nil
			}),
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.Watch(ctx)
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
			ask(t.Context(), p)
		}
		if n := len(messages(j)); n < 5 || n > 30 {
			t.Errorf("%d lines in five minutes: want at most one in ten seconds", n)
		}
	})
}

// /-/ready and /metrics tell it, too.
func TestReadyTellsTheCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{Transport: answers(503, s/100)})
		p.Status()
		for range 200 {
			ask(t.Context(), p)
		}
		w := fetch(p.Admin(), "/-/ready")
		var st condition.Status
		if err := json.Unmarshal(w.Body.Bytes(), &st); err != nil || w.Code != 200 || st.Condition != condition.Unavailable || !st.Ready || st.Share != 1 {
			t.Errorf("%d, %s, %v", w.Code, w.Body, err)
		}
		if body := fetch(p.Admin(), "/metrics").Body.String(); !strings.Contains(body, `weir_proxy_condition{condition="unavailable"} 1`) ||
			!strings.Contains(body, `weir_proxy_signs_total{sign="unavailable"} 200`) {
			t.Errorf("%s", body)
		}
		p.Drain()
		if w := fetch(p.Admin(), "/-/ready"); w.Code != 503 || !strings.Contains(w.Body.String(), `"ready":false`) {
			t.Errorf("%d, %s: want it not ready", w.Code, w.Body)
		}
	})
}
