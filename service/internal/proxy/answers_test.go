package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/proxy"
)

// Only signs of load count as dropped: what a client can cause at will does not.
func TestSignsOfLoad(t *testing.T) {
	status := func(code int) origin { return answers(code, s/10) }
	fails := func(err error) origin {
		return func(*http.Request) (*http.Response, error) {
			time.Sleep(s / 10)
			return nil, err
		}
	}
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, tt := range []struct {
		name   string
		origin origin
		status int
		reason string
		want   weir.Outcome
	}{
		{"success", status(200), 200, "", weir.Success},
		{"not modified", status(304), 304, "", weir.Success},
		{"bad request", status(400), 400, "", weir.Ignored},
		{"not found", status(404), 404, "", weir.Ignored},
		{"a bug", status(500), 500, "", weir.Ignored},
		{"not implemented", status(501), 501, "", weir.Ignored},
		{"a client's quota", status(429), 429, "", weir.Ignored},
		{"bad gateway", status(502), 502, "", weir.Ignored},
		{"a status below 100", status(42), 502, "origin_failed", weir.Ignored},
		{"a status above 999", status(1000), 502, "origin_failed", weir.Ignored},
		{"unavailable", status(503), 503, "", weir.Dropped},
		{"gateway timeout", status(504), 504, "", weir.Dropped},
		{"connection refused", fails(refused), 502, "origin_refused", weir.Dropped},
		{"dial timeout", fails(&net.OpError{Op: "dial", Err: context.DeadlineExceeded}), 504, "origin_timeout", weir.Dropped},
		{"connection reset", fails(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), 502, "origin_failed", weir.Ignored},
		{"closed without an answer", fails(io.EOF), 502, "origin_failed", weir.Ignored},
		{"no such host", fails(&net.DNSError{Err: "no such host", IsNotFound: true}), 502, "origin_unreachable", weir.Ignored},
		{"anything else", fails(errors.New("a bug")), 502, "origin_failed", weir.Ignored},
		{"no answer in time", answers(200, 9*s), 504, "origin_timeout", weir.Dropped}, // Late, which Stats counts as Dropped
		{"a refusal, and not even that in time", answers(503, 9*s), 504, "origin_timeout", weir.Dropped},
		{"no answer at all", answers(200, time.Hour), 504, "origin_timeout", weir.Dropped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProxy(t, proxy.Config{Transport: tt.origin, Timeout: 5 * s, Limit: proxy.FixedLimit(10)})
				for range 3 {
					w := ask(t.Context(), p)
					if w.Code != tt.status || w.Header().Get(proxy.ReasonHeader) != tt.reason {
						t.Errorf("status %d, %q: want %d, %q", w.Code, w.Header().Get(proxy.ReasonHeader), tt.status, tt.reason)
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				st := p.Stats()
				got := map[weir.Outcome]uint64{weir.Success: st.Outcomes[weir.Success], weir.Dropped: st.Outcomes[weir.Dropped], weir.Ignored: st.Outcomes[weir.Ignored]}
				for o, n := range got {
					if o == tt.want && n != 3 || o != tt.want && n != 0 {
						t.Errorf("outcomes %v: want 3 %v", got, tt.want)
						break
					}
				}
				want(t, p, 0, 0)
			})
		})
	}
}

// A client that leaves sooner than others does not lower the limit.
func TestClientThatLeavesDoesNotLowerTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{Transport: answers(200, 4*s), Timeout: 5 * s, Auto: limit.Config{Initial: 10}})
		for i := range 30 {
			stays := 10 * s
			if i%3 == 0 {
				stays = s
			}
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(stays, leave)
			ask(ctx, p)
			time.Sleep(5 * s)
		}
		if st := p.Stats(); st.Limit != 10 || st.Outcomes[weir.Success] != 20 || st.Outcomes[weir.Ignored] != 10 {
			t.Errorf("%+v: want a limit of 10", st)
		}
	})
}

func TestRejections(t *testing.T) {
	const overload = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := newProxy(t, proxy.Config{
			Transport: origin(func(r *http.Request) (*http.Response, error) {
				asked++
				return answers(200, time.Hour)(r)
			}),
			Timeout: -1, Queue: 1, MaxWait: 3 * s,
		})
		go ask(t.Context(), p)
		synctest.Wait()
		check := func(reason string, after time.Duration) {
			t.Helper()
			began := time.Now()
			w := ask(t.Context(), p)
			var problem struct {
				Type, Title, Detail, Reason string
				Status                      int
			}
			if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
				t.Errorf("%s: %v", w.Body, err)
			}
			h := w.Header()
			if w.Code != 503 || h.Get("Content-Type") != "application/problem+json" || h.Get("Retry-After") != "1" ||
				h.Get(proxy.ReasonHeader) != reason {
				t.Errorf("status %d, %v: want 503, %s", w.Code, h, reason)
			}
			if problem.Type != overload || problem.Status != 503 || problem.Reason != reason || problem.Title == "" || problem.Detail == "" {
				t.Errorf("%+v", problem)
			}
			if waited := time.Since(began); waited != after {
				t.Errorf("%s after %v: want %v", reason, waited, after)
			}
		}
		check("overdue", 3*s)
		go ask(t.Context(), p)
		synctest.Wait()
		check("queue_full", 0)
		time.Sleep(5 * s)
		if err := p.Set(proxy.Change{Queue: new(int)}); err != nil {
			t.Error(err)
		}
		check("over_limit", 0)
		if asked != 1 {
			t.Errorf("the origin was asked %d times: want once", asked)
		}
		time.Sleep(2 * time.Hour)
	})
}

// A request with a deadline that cannot be met is refused, and so is one that
// leaves its place in the queue to a more important request.
func TestRejectionsOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{Transport: answers(200, 3*s), Queue: 1, MaxWait: -1})
		check := func(ctx context.Context, status int, reason string) {
			t.Helper()
			w := ask(ctx, p)
			if w.Code != status || w.Header().Get(proxy.ReasonHeader) != reason {
				t.Errorf("status %d, %v: want %d, %q", w.Code, w.Header(), status, reason)
			}
		}
		check(t.Context(), 200, "") // shows how long it takes
		go check(t.Context(), 200, "")
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), s)
		defer leave()
		check(ctx, 503, "too_late")
		go check(t.Context(), 503, "queue_full")
		synctest.Wait()
		check(weir.WithClass(t.Context(), weir.Class{Priority: weir.CriticalPlus}), 200, "")
		synctest.Wait()
		st := p.Stats()
		if st.Rejected[weir.TooLate] != 1 || st.Rejected[weir.QueueFull] != 1 {
			t.Errorf("%+v: want one too late, one evicted", st)
		}
		metrics := fetch(p.Admin(), "/metrics").Body.String()
		for _, reason := range []string{"too_late", "queue_full"} {
			if line := `weir_proxy_decisions_total{decision="reject",reason="` + reason + `"} 1`; !strings.Contains(metrics, line) {
				t.Errorf("the metrics have no %s", line)
			}
		}
	})
}

// To refuse is cheap: it allocates nothing.
func TestRejectionAllocatesNothing(t *testing.T) {
	p := newProxy(t, proxy.Config{Limit: proxy.FixedLimit(0)})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	w := discard{http.Header{}}
	if n := testing.AllocsPerRun(100, func() { p.ServeHTTP(w, r) }); n != 0 {
		t.Errorf("%v allocations: want none", n)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, tt := range []struct {
		cfg  proxy.Config
		want string
	}{
		{proxy.Config{}, `Origins: there are 0: must be 1 to 1000`},
		{proxy.Config{Origins: []string{""}}, `Origins = "": must begin with a scheme`},
		{proxy.Config{Origins: []string{"127.0.0.1:80"}}, `Origins = "127.0.0.1:80": must begin with a scheme, as in "http://127.0.0.1:80"`},
		{proxy.Config{Origins: []string{"http://a:65536"}}, `Origins = "http://a:65536": must have a port from 1 to 65535`},
		{proxy.Config{Origins: []string{"http://a:0"}}, `Origins = "http://a:0": must have a port`},
		{proxy.Config{Origins: []string{"http://a:b@c"}}, `Origins = "http://a:xxxxx@c": must have no user`},
		{proxy.Config{Origins: []string{"http://a", "http://a"}}, `Origins = "http://a": is there twice`},
		{proxy.Config{Origins: []string{"ftp://a"}}, `Origins = "ftp://a"`},
		{proxy.Config{Origins: []string{"http://"}}, `Origins = "http://"`},
		{proxy.Config{Origins: []string{"http://a"}, Auto: limit.Config{Min: -1}}, "Min = -1"},
	} {
		if _, err := proxy.New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v: want %q", tt.cfg, err, tt.want)
		}
	}
}
