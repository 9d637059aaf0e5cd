package httpclient

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/throttle"
)

// Which requests are tried again, after which answers?
func TestRetryable(t *testing.T) {
	refusedErr := &net.OpError{Op: "dial", Err: fmt.Errorf("connect: %w", syscall.ECONNREFUSED)}
	resetErr := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	fails := func(err error) any { return err }
	for _, test := range []struct {
		rule   string
		method string
		answer any // a reply, or an error
		header string
		want   bool
	}{
		{"429, any method", "POST", says(429), "", true},
		{"503 with Retry-After, idempotent", "GET", says(503, "Retry-After: 0"), "", true},
		{"503 with Retry-After, not idempotent: it may have been carried out", "POST", says(503, "Retry-After: 0"), "", false},
		{"503 of weir, any method", "POST", says(503, "Weir-Reason: queue_full", "Retry-After: 1"), "", true},
		{"503 that says nothing, idempotent", "GET", says(503), "", true},
		{"503 that says nothing, not idempotent", "POST", says(503), "", false},
		{"503 that says nothing, with a key", "POST", says(503), "Idempotency-Key", true},
		{"502, idempotent", "PUT", says(502), "", true},
		{"504, idempotent", "DELETE", says(504), "", true},
		{"502, not idempotent", "PATCH", says(502), "", false},
		{"504 of weir, idempotent", "GET", says(504, "Weir-Reason: timeout"), "", true},
		{"weir says that to wait is in vain", "GET", says(429, "Weir-Reason: over_burst"), "", false},
		{"weir is itself a client that keeps back", "GET", says(503, "Weir-Reason: throttled", "Retry-After: 1"), "", false},
		{"an answer is an answer", "GET", says(200), "", false},
		{"500 is no overload", "GET", says(500), "", false},
		{"404 is no overload", "GET", says(404, "Retry-After: 1"), "", false},
		{"a connection refused, any method", "POST", fails(refusedErr), "", true},
		{"a connection that breaks, idempotent", "HEAD", fails(resetErr), "", true},
		{"a connection that breaks, not idempotent", "POST", fails(resetErr), "", false},
		{"a connection that ends", "OPTIONS", fails(fmt.Errorf("reading: %w", io.EOF)), "", true},
		{"a connection that ends within an answer", "TRACE", fails(io.ErrUnexpectedEOF), "", true},
		{"a connection that takes too long", "GET", fails(&net.OpError{Op: "dial", Err: tooSlow{}}), "", true},
		{"an answer that takes too long", "GET", fails(tooSlow{}), "", true},
		{"a stream of HTTP/2 that is reset, idempotent", "GET", fails(fmt.Errorf("reading: %w", resetStream{})), "", true},
		{"a stream of HTTP/2 that is reset, not idempotent", "POST", fails(resetStream{}), "", false},
		{"a name that is not known", "GET", fails(&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}), "", false},
		{"a certificate that is not accepted", "GET", fails(x509.UnknownAuthorityError{}), "", false},
		{"an alert of TLS", "GET", fails(&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}), "", false},
		{"another limiter's rejection", "GET", fails(&url.Error{Op: "Get", Err: weir.Reject(weir.OverRate, 0)}), "", false},
		{"an error of any other kind", "GET", fails(errors.New("unsupported protocol scheme")), "", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, srv := newClient(t, Config{MaxHold: -1}, func(n int, _ *http.Request) (*http.Response, error) {
				switch a := test.answer.(type) {
				case func() *http.Response:
					if n == 0 {
						return a(), nil
					}
				case error:
					if n == 0 {
						return nil, a
					}
				}
				return reply(204), nil
			})
			r, _ := http.NewRequest(test.method, host1, strings.NewReader("question"))
			if test.header != "" {
				r.Header.Set(test.header, "1")
			}
			status, err := send(tr, r)
			if sent := len(srv.asked); (sent == 2) != test.want || sent > 2 {
				t.Errorf("%s: sent %d times", test.rule, sent)
			}
			if test.want && (status != 204 || err != nil) {
				t.Errorf("%s: the second answer is not returned: %d, %v", test.rule, status, err)
			}
			if e, ok := test.answer.(error); ok && !test.want && err != e {
				t.Errorf("%s: %v: want Base's own error", test.rule, err)
			}
			synctest.Wait()
			for _, b := range srv.bodies {
				if b != "question" {
					t.Errorf("%s: body %q", test.rule, b)
				}
			}
			if n := srv.open.Load(); n != 0 {
				t.Errorf("%s: %d bodies are open", test.rule, n)
			}
		})
	}
}

// resetStream has the As method of the HTTP/2 stream error in net/http.
type resetStream struct{}

func (resetStream) Error() string { return "stream error: stream ID 1; INTERNAL_ERROR" }

func (resetStream) As(target any) bool {
	_, ok := target.(*streamError)
	return ok
}

type tooSlow struct{}

func (tooSlow) Error() string   { return "timeout" }
func (tooSlow) Timeout() bool   { return true }
func (tooSlow) Temporary() bool { return true }

func TestABodyWithoutGetBodyIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, Config{}, script(says(429)))
		r, _ := http.NewRequest("PUT", host1, io.NopCloser(strings.NewReader("question")))
		if status, err := send(tr, r); status != 429 || err != nil {
			t.Errorf("%d, %v", status, err)
		}
		srv.want(t, "a stream", 0)

		r, _ = http.NewRequest("PUT", host1, strings.NewReader("question"))
		r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("lost") }
		if status, err := send(tr, r); status != 429 || err != nil {
			t.Errorf("%d, %v", status, err)
		}
		if n := len(srv.asked); n != 2 {
			t.Errorf("sent %d times", n)
		}
	})
}

// The waits between attempts: what the server asks for, and a share of the
// backoff on top.
func TestWhenRetriesAreSent(t *testing.T) {
	for _, test := range []struct {
		rule   string
		cfg    Config
		chance float64
		reply  func() *http.Response
		want   []time.Duration
	}{
		{"three attempts, with no luck", Config{}, 0, says(503), []time.Duration{0, 0, 0}},
		{"backoff is doubled", Config{}, 0.5, says(503), []time.Duration{0, 50 * ms, 150 * ms}},
		{"up to MaxBackoff", Config{Retry: throttle.RetryConfig{Attempts: 4, MaxBackoff: 150 * ms}}, 0.5, says(503), []time.Duration{0, 50 * ms, 125 * ms, 200 * ms}},
		{"Retry-After is the floor", Config{MaxHold: -1}, 0.5, says(503, "Retry-After: 2"), []time.Duration{0, 2050 * ms, 4150 * ms}},
		{"of a 502 too", Config{}, 0, says(502, "Retry-After: 2"), []time.Duration{0, 2 * s, 4 * s}},
		{"pacing adds nothing to it", Config{}, 0, says(429, "Retry-After: 2"), []time.Duration{0, 2 * s, 4 * s}},
		{"two attempts", Config{Retry: throttle.RetryConfig{Attempts: 2}}, 0, says(503), []time.Duration{0, 0}},
		{"retries are off", Config{Retry: noRetry}, 0, says(503), []time.Duration{0}},
		{"a server is believed for no longer than MaxHold", Config{MaxWait: -1, MaxHold: time.Minute, Retry: throttle.RetryConfig{Attempts: 2}}, 0, says(503, "Retry-After: 31536000"), []time.Duration{0, time.Minute}},
		{"more than MaxWait is not waited", Config{MaxWait: 3 * s}, 0, says(503, "Retry-After: 4"), []time.Duration{0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, srv := newClient(t, test.cfg, script(test.reply))
			tr.chance = func() float64 { return test.chance }
			if status, err := fetch(tr, host1); status != test.reply().StatusCode || err != nil {
				t.Errorf("%s: %d, %v: want the last answer", test.rule, status, err)
			}
			srv.want(t, test.rule, test.want...)
			if st := tr.Stats(); st.Retried != uint64(len(test.want)-1) || st.Sent != uint64(len(test.want)) || st.Requests != 1 {
				t.Errorf("%s: %+v", test.rule, st)
			}
		})
	}
}

func TestARetryPastTheDeadlineIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, Config{}, script(says(503, "Retry-After: 2")))
		ctx, cancel := context.WithTimeout(context.Background(), 2*s)
		defer cancel()
		if status, err := send(tr, get(ctx, host1)); status != 503 || err != nil {
			t.Errorf("%d, %v: want the answer", status, err)
		}
		srv.want(t, "deadline", 0)
		if d := time.Since(srv.began); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}

func TestACancelledRequestIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, Config{}, script(says(503, "Retry-After: 9")))
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(s, cancel)
		if _, err := send(tr, get(ctx, host1)); err != context.Canceled {
			t.Errorf("%v: want the context's own error", err)
		}
		srv.want(t, "left", 0)
		if d := time.Since(srv.began); d != s {
			t.Errorf("it took %v", d)
		}

		ctx, cancel = context.WithCancel(context.Background())
		time.AfterFunc(s, cancel)
		tr, srv = newClient(t, Config{}, script(says(503, `RateLimit: "a";r=0;t=9`)))
		if _, err := send(tr, get(ctx, host1)); err != context.Canceled {
			t.Errorf("%v: want the context's own error", err)
		}
		srv.want(t, "left while the retry stood in line", 0)

		ctx, cancel = context.WithCancel(context.Background())
		tr, srv = newClient(t, Config{}, func(int, *http.Request) (*http.Response, error) {
			cancel()
			return nil, &net.OpError{Op: "read", Err: net.ErrClosed}
		})
		if _, err := send(tr, get(ctx, host1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v: want Base's own error", err)
		}
		srv.want(t, "left during the attempt", 0)
	})
}

// A tenth of the requests may be retried, besides the floor of the budget.
func TestRetriesAreBoundedByTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Throttle: noThrottle, Retry: throttle.RetryConfig{MinPerSecond: -1}}
		tr, srv := newClient(t, cfg, script(says(503)))
		for range 1000 {
			if status, _ := fetch(tr, host1); status != 503 {
				t.Fatal(status)
			}
		}
		st := tr.Stats()
		if st.Retried != 100 || len(srv.asked) != 1100 || st.Exhausted == 0 {
			t.Errorf("%d retries, %d sent: want a tenth; %+v", st.Retried, len(srv.asked), st)
		}
		fetch(tr, "http://two.example/")
		if n := tr.Stats().Retried - st.Retried; n != 0 {
			t.Errorf("another host has a budget of its own, of one request: %d retries", n)
		}
	})
}

// The answer that was to be retried stands if the retry is refused here.
func TestALocalRefusalOfARetryHidesNoAnswer(t *testing.T) {
	for _, test := range []struct {
		rule  string
		cfg   Config
		reply func() *http.Response
		want  string
	}{
		{"by the limiter", Config{PerHost: func(string) weir.Limiter {
			return testrig.Rejecting(weir.Reject(weir.OverLimit, 0), 1)
		}}, says(503), "0 rejected, 1 limited"},
		{"by the pace", Config{}, says(503, `RateLimit: "a";r=0;t=60`), "1 rejected, 0 limited"},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, srv := newClient(t, test.cfg, script(test.reply))
			if status, err := fetch(tr, host1); status != 503 || err != nil {
				t.Errorf("%s: %d, %v", test.rule, status, err)
			}
			srv.want(t, test.rule, 0)
			st := tr.Stats()
			if got := fmt.Sprintf("%d rejected, %d limited", st.Refused["paced"], st.Refused["limited"]); got != test.want || st.Retried != 0 {
				t.Errorf("%s: %+v: want %s", test.rule, st, test.want)
			}
		})
	}
}

// A stuck body never ends, and no Read of it returns until it is closed.
type stuck struct {
	closed chan struct{}
	reads  atomic.Int64
}

func (b *stuck) Read([]byte) (int, error) {
	b.reads.Add(1)
	<-b.closed
	return 0, io.ErrClosedPipe
}

func (b *stuck) Close() error { close(b.closed); return nil }

// isStuck answers 503 with a body that does not end.
func isStuck(bodies *[]*stuck) func(int, *http.Request) (*http.Response, error) {
	return func(int, *http.Request) (*http.Response, error) {
		b := &stuck{closed: make(chan struct{})}
		*bodies = append(*bodies, b)
		resp := reply(503)
		resp.ContentLength, resp.Body = -1, b
		return resp, nil
	}
}

// An answer is an answer, wherever its body is: a retry waits for none.
func TestReadingADiscardedBodyDelaysNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []*stuck
		tr, srv := newClient(t, Config{}, isStuck(&bodies))
		resp, err := tr.RoundTrip(get(context.Background(), host1))
		if err != nil || resp.StatusCode != 503 || time.Since(srv.began) != 0 || len(bodies) != 3 {
			t.Fatalf("%v, after %v and %d answers", err, time.Since(srv.began), len(bodies))
		}
		if time.Sleep(s - 1); srv.open.Load() != 3 {
			t.Errorf("%d bodies are open: what is left of them has a second", srv.open.Load())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := srv.open.Load(); n != 1 || bodies[2].reads.Load() != 0 {
			t.Errorf("%d bodies are open, the last was read %d times: want its answer, unread", n, bodies[2].reads.Load())
		}
		resp.Body.Close()
	})
}

// Of an answer that is retried the rest is read, so that its connection is free
// again, if that is little.
func TestADiscardedBodyIsReadUpTo64KB(t *testing.T) {
	for _, test := range []struct {
		rule   string
		size   int
		length bool
		left   int
	}{
		{"64 kB", maxDiscarded, true, 0},
		{"64 kB of unknown length", maxDiscarded, false, 0},
		{"more", maxDiscarded + 1, true, maxDiscarded + 1},
		{"more, of unknown length", 3 * maxDiscarded, false, 2*maxDiscarded - 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			var unread [2]*bytes.Reader
			tr, srv := newClient(t, Config{Retry: throttle.RetryConfig{Attempts: 2}}, func(n int, _ *http.Request) (*http.Response, error) {
				resp := reply(503)
				resp.ContentLength = -1
				if test.length {
					resp.ContentLength = int64(test.size)
				}
				unread[n] = bytes.NewReader(make([]byte, test.size))
				resp.Body = io.NopCloser(unread[n])
				return resp, nil
			})
			resp, err := tr.RoundTrip(get(context.Background(), host1))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if unread[0].Len() != test.left || unread[1].Len() != test.size || srv.open.Load() != 1 {
				t.Errorf("%s: %d bytes left of the first: want %d; %d of the last: want all; %d open",
					test.rule, unread[0].Len(), test.left, unread[1].Len(), srv.open.Load())
			}
			resp.Body.Close()
			srv.want(t, test.rule, 0, 0)
		})
	}
}

// The answer that stands is the one that came, untouched, and what it held is
// free.
func TestAnAnswerThatStandsIsUntouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []*stuck
		lim := testrig.Rejecting(weir.Reject(weir.OverLimit, 0), 1)
		tr, srv := newClient(t, Config{PerHost: limitBy(lim)}, isStuck(&bodies))
		resp, err := tr.RoundTrip(get(context.Background(), host1))
		if err != nil || resp.StatusCode != 503 {
			t.Fatal(err)
		}
		time.Sleep(5 * s)
		if srv.open.Load() != 1 || bodies[0].reads.Load() != 0 {
			t.Errorf("%d open, %d reads", srv.open.Load(), bodies[0].reads.Load())
		}
		if got := state(lim); got != "0 held, [dropped]" {
			t.Error(got)
		}
		resp.Body.Close()
		srv.want(t, "untouched", 0)
	})
}

func TestARetryThatFailsIsTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("lost")
		tr, srv := newClient(t, Config{}, func(n int, _ *http.Request) (*http.Response, error) {
			if n == 0 {
				return reply(503), nil
			}
			return nil, lost
		})
		if _, err := fetch(tr, host1); err != lost {
			t.Errorf("%v: want the error of the retry", err)
		}
		srv.want(t, "failed", 0, 0)
	})
}

// Only a retry that is sent spends budget, and a retry without budget does not wait.
func TestABudgetPaysForWhatIsSent(t *testing.T) {
	one := throttle.RetryConfig{MinPerSecond: 0.1} // in ten seconds
	twice := one
	twice.Attempts = 2
	synctest.Test(t, func(t *testing.T) {
		lim := testrig.Rejecting(weir.Reject(weir.OverLimit, 0), 1)
		tr, srv := newClient(t, Config{Retry: one, Throttle: noThrottle, PerHost: limitBy(lim)}, script(says(503)))
		fetch(tr, host1)
		if st := tr.Stats(); st.Refused["limited"] != 1 || st.Exhausted != 0 {
			t.Fatalf("%+v", st)
		}
		lim.Reject(nil)
		fetch(tr, host1)
		srv.want(t, "the retry that was refused cost nothing", 0, 0, 0)
		if st := tr.Stats(); st.Retried != 1 || st.Exhausted != 1 {
			t.Errorf("%+v", st)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, Config{Retry: twice, Throttle: noThrottle, MaxHold: -1}, script(says(503, "Retry-After: 2")))
		go fetch(tr, host1)
		synctest.Wait()
		if fetch(tr, host1); time.Since(srv.began) != 0 {
			t.Errorf("it waited %v, for what another will spend", time.Since(srv.began))
		}
		time.Sleep(3 * s)
		srv.want(t, "one of two", 0, 0, 2*s)
	})
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, Config{Retry: one, Throttle: noThrottle, MaxHold: -1}, script(says(503, "Retry-After: 2")))
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(s, cancel)
		send(tr, get(ctx, host1))
		fetch(tr, host1)
		srv.want(t, "a cancelled retry spends nothing", 0, s, 3*s)
	})
}
