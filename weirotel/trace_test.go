package weirotel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/internal/wrappedtest"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/weirotel"
	"github.com/weir-go/weir/weirotel/internal/oteltest"
)

func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		perKey, err := keyed.New[string](gcra.Per(1, time.Minute, 1), keyed.Config{})
		testrig.Must(t, err)
		lim := oteltest.One(t)
		m, err := httplimit.New(httplimit.Config{
			Limiter: lim, Rules: []httplimit.Rule{httplimit.PerKey("per-key", perKey, httplimit.Header("X-Api-Key"))}, Refuse: weirotel.Refuse(nil),
		})
		testrig.Must(t, err)
		h := weirotel.Handler(m, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
		tr := oteltest.NewTracer()
		ask := func(ctx context.Context, key string, code int) string {
			t.Helper()
			return tr.Within(ctx, func(ctx context.Context) {
				r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
				r.Header.Set("X-Api-Key", key)
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != code {
					t.Errorf("%s: %d: want %d", key, w.Code, code)
				}
			})
		}
		expect := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: want %s", got, want)
			}
		}
		expect(ask(t.Context(), "a", 503), "decision=admit") // the handler's own 503
		if got := ask(t.Context(), "a", 429); !strings.HasPrefix(got, "decision=reject reason=over_rate retry_after=6") || !strings.HasSuffix(got, " rule=per-key") {
			t.Errorf("denied: %s", got)
		}
		oteltest.Hold(t, lim, time.Second)
		expect(ask(t.Context(), "b", 503), "waited=1s decision=admit")
		oteltest.Hold(t, lim, time.Minute)
		expect(ask(t.Context(), "c", 503), "waited=2s decision=reject reason=overdue")
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, leave)
		expect(ask(ctx, "d", 499), "waited=500ms decision=cancel reason=client_gone")
		time.Sleep(time.Hour)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil)) // without a span
		if w.Code != 503 {
			t.Errorf("without a span: %d", w.Code)
		}
	})
}

// An own answer to a refusal is used.
func TestRefuse(t *testing.T) {
	called := 0
	refuse := weirotel.Refuse(func(_ http.ResponseWriter, _ *http.Request, status int, rule string, err error) { called += status })
	refuse(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), 429, "a", weir.Reject(weir.OverRate, 0))
	if called != 429 {
		t.Errorf("the own answer got %d", called)
	}
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, tr := oteltest.One(t), oteltest.NewTracer()
		chain := weir.Chain(weirotel.Limiter("bucket", rate.NewLimiter(1, 2)), weirotel.Limiter("database", lim))
		acquire := func(ctx context.Context) string {
			return tr.Within(ctx, func(ctx context.Context) {
				if p, err := chain.Acquire(ctx, 1); err == nil {
					p.Release(weir.Success)
				}
			})
		}
		for i, want := range []string{
			"weir.decision: decision=admit,limiter=bucket weir.decision: decision=admit,limiter=database",
			"waited=2s weir.decision: decision=admit,limiter=bucket weir.decision: decision=reject,limiter=database,reason=overdue",
			"waited=2s weir.decision: decision=admit,limiter=bucket weir.decision: decision=reject,limiter=database,reason=overdue",
		} {
			if i == 1 {
				oteltest.Hold(t, lim, time.Minute)
			}
			if got := acquire(t.Context()); got != want {
				t.Errorf("%d: %s: want %s", i, got, want)
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if got := acquire(ctx); !strings.HasPrefix(got, "weir.decision: decision=cancel,limiter=bucket") {
			t.Errorf("cancelled: %s", got)
		}
		if p, err := chain.Acquire(ctx, 1); err == nil { // without a span
			p.Release(weir.Success)
			t.Error("a cancelled request is admitted")
		}
		time.Sleep(time.Hour)
	})
}

// A roundTripper answers like a server.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuses := true
		transport, err := httpclient.New(httpclient.Config{MaxWait: time.Minute, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/broken" {
				return nil, errors.New("broken")
			}
			answer := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}
			if refuses {
				answer.StatusCode, answer.Header = 429, http.Header{"Retry-After": {"5"}}
			}
			return answer, nil
		})})
		testrig.Must(t, err)
		tr, client := oteltest.NewTracer(), weirotel.Transport(transport)
		get := func(path string, most time.Duration) string {
			return tr.Within(t.Context(), func(ctx context.Context) {
				ctx, cancel := context.WithTimeout(ctx, most)
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, "POST", "http://example.com"+path, io.NopCloser(strings.NewReader("x")))
				testrig.Must(t, err)
				if resp, err := client.RoundTrip(r); err == nil {
					resp.Body.Close()
				}
			})
		}
		if got := get("/", time.Minute); got != "decision=admit" {
			t.Errorf("first: %s", got)
		}
		if got := get("/", time.Second); !strings.HasPrefix(got, "decision=reject reason=too_late") {
			t.Errorf("paced: %s", got)
		}
		refuses = false
		if got := get("/", time.Minute); !strings.HasPrefix(got, "waited=") || !strings.HasSuffix(got, "decision=admit") {
			t.Errorf("after the wait: %s", got)
		}
		if got := get("/broken", time.Minute); strings.Contains(got, "decision") {
			t.Errorf("an error of the network: %s", got)
		}
		time.Sleep(time.Hour)
	})
}

// A Limiter whose decisions are recorded changes none of them.
func TestLimiterChangesNoDecision(t *testing.T) {
	wrappedtest.ChangesNoDecision(t, func(l weir.Limiter) weir.Limiter { return weirotel.Limiter("database", l) })
}
