package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/throttle"
)

// A service is a Base that answers by a script, and notes when it was asked.
type service struct {
	mu     sync.Mutex
	began  time.Time
	asked  []time.Duration
	bodies []string
	open   atomic.Int64 // bodies of responses that are not closed
	answer func(n int, r *http.Request) (*http.Response, error)
}

func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	n := len(s.asked)
	s.asked = append(s.asked, time.Since(s.began))
	s.mu.Unlock()
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		s.mu.Lock()
		s.bodies = append(s.bodies, string(b))
		s.mu.Unlock()
	}
	resp, err := s.answer(n, r)
	if resp != nil {
		resp.Request = r
		if resp.Body != http.NoBody {
			s.open.Add(1)
			resp.Body = &counted{resp.Body, &s.open}
		}
	}
	return resp, err
}

type counted struct {
	io.ReadCloser
	open *atomic.Int64
}

func (c *counted) Close() error {
	c.open.Add(-1)
	return c.ReadCloser.Close()
}

// reply is an answer with headers given as "Name: value".
func reply(status int, headers ...string) *http.Response {
	h := http.Header{}
	testrig.AddHeader(h, headers...)
	body := fmt.Sprint("body of ", status)
	return &http.Response{StatusCode: status, Header: h, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body))}
}

// script answers with one response after the other, and the last for ever.
func script(replies ...func() *http.Response) func(int, *http.Request) (*http.Response, error) {
	return func(n int, _ *http.Request) (*http.Response, error) {
		return replies[min(n, len(replies)-1)](), nil
	}
}

func says(status int, headers ...string) func() *http.Response {
	return func() *http.Response { return reply(status, headers...) }
}

// newClient returns a Transport in front of a service. Chance is always 0.
func newClient(t *testing.T, cfg Config, answer func(int, *http.Request) (*http.Response, error)) (*Transport, *service) {
	t.Helper()
	s := &service{began: time.Now(), answer: answer}
	cfg.Base = s
	tr, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	tr.chance = func() float64 { return 0 }
	return tr, s
}

func get(ctx context.Context, url string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		panic(err)
	}
	return r
}

// send sends a request, reads the response and returns its status, 0 if there is
// an error.
func send(tr *Transport, r *http.Request) (int, error) {
	resp, err := tr.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != fmt.Sprint("body of ", resp.StatusCode) {
		return 0, fmt.Errorf("body %q: %w", b, err)
	}
	return resp.StatusCode, nil
}

func fetch(tr *Transport, url string) (int, error) {
	return send(tr, get(context.Background(), url))
}

// want fails the test unless the service was asked at these instants, and all
// bodies are closed.
func (s *service) want(t *testing.T, rule string, at ...time.Duration) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.asked, at) {
		t.Errorf("%s: asked at %v: want %v", rule, s.asked, at)
	}
	if n := s.open.Load(); n != 0 {
		t.Errorf("%s: %d bodies are open", rule, n)
	}
}

// rejected fails the test unless err is a rejection of that kind.
func rejected(t *testing.T, rule string, err error, why weir.Reason, after time.Duration) {
	t.Helper()
	r, ok := errors.AsType[*weir.Rejection](err)
	if !ok || r.Reason != why || r.RetryAfter != after {
		t.Errorf("%s: %v (%+v): want %v after %v", rule, err, r, why, after)
	}
}

const host1 = "http://one.example/"

// noRetry and noThrottle turn a part of the Transport off.
var (
	noRetry    = throttle.RetryConfig{Attempts: 1}
	noThrottle = throttle.Config{MaxP: -1}
)

// once is a configuration without retries.
var once = Config{Retry: noRetry}

// failing is the end of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// waits returns how many attempts waited because of pacing.
func waits(st Stats) (n uint64) {
	for _, w := range st.Waits {
		n += w
	}
	return n
}
