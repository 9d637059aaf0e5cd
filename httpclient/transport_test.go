package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/outgoing"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/throttle"
)

// state returns the units that requests hold, and the outcomes of others.
func state(l *testrig.Limiter) string { return fmt.Sprint(l.Held(), " held, ", l.Outcomes()) }

func limitBy(l weir.Limiter) func(string) weir.Limiter {
	return func(string) weir.Limiter { return l }
}

// When is a request no longer in flight, and how did it go?
func TestThePermitIsHeldUntilTheBodyEnds(t *testing.T) {
	cut := func() *http.Response {
		resp := reply(200)
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{io.ErrUnexpectedEOF}))
		return resp
	}
	empty := func() *http.Response {
		return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody}
	}
	read := func(b io.ReadCloser) { io.ReadAll(b) }
	copied := func(b io.ReadCloser) { io.Copy(io.Discard, b) }
	closed := func(b io.ReadCloser) { b.Close() }
	both := func(b io.ReadCloser) { read(b); closed(b); closed(b) }
	for _, test := range []struct {
		rule  string
		reply func() *http.Response
		do    func(io.ReadCloser)
		ctx   string
		first string // before do
		last  string
	}{
		{"read to its end", says(200), read, "", "1 held, []", "0 held, [success]"},
		{"copied to its end", says(200), copied, "", "1 held, []", "0 held, [success]"},
		{"closed unread", says(200), closed, "", "1 held, []", "0 held, [success]"},
		{"read and closed twice", says(200), both, "", "1 held, []", "0 held, [success]"},
		{"no body", empty, closed, "", "0 held, [success]", "0 held, [success]"},
		{"a redirect", says(302), closed, "", "1 held, []", "0 held, [success]"},
		{"not found", says(404), read, "", "1 held, []", "0 held, [ignored]"},
		{"an error of the server's", says(500), read, "", "1 held, []", "0 held, [ignored]"},
		{"overload", says(503), read, "", "1 held, []", "0 held, [dropped]"},
		{"a body that breaks off", cut, read, "", "1 held, []", "0 held, [ignored]"},
		{"copied until it breaks off, and closed", cut, func(b io.ReadCloser) { copied(b); closed(b) }, "", "1 held, []", "0 held, [ignored]"},
		{"the caller leaves", says(200), closed, "cancel", "1 held, []", "0 held, [left]"},
		{"the deadline passes", says(200), closed, "timeout", "1 held, []", "0 held, [timed_out]"},
		{"the deadline passes while it is read", cut, read, "timeout", "1 held, []", "0 held, [timed_out]"},
		{"the caller leaves, and forgets the body", says(200), func(io.ReadCloser) {}, "cancel", "1 held, []", "0 held, [left]"},
		{"the deadline passes, and the body is forgotten", says(200), func(io.ReadCloser) {}, "timeout", "1 held, []", "0 held, [timed_out]"},
		{"a connection that has changed its protocol", says(101), func(io.ReadCloser) {}, "cancel", "1 held, []", "1 held, []"},
		{"overload stays overload", says(503), closed, "cancel", "1 held, []", "0 held, [dropped]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			lim := new(testrig.Limiter)
			tr, _ := newClient(t, Config{Retry: noRetry, PerHost: limitBy(lim)}, script(test.reply))
			defer func() {
				if h := tr.hosts.find(hostKey{scheme: "http", host: "one.example"}); int(h.users.Load()) != lim.Held() {
					t.Errorf("%s: %d users", test.rule, h.users.Load())
				}
			}()
			ctx, cancel := context.WithTimeout(context.Background(), s)
			defer cancel()
			resp, err := tr.RoundTrip(get(ctx, host1))
			testrig.Must(t, err)
			if got := state(lim); got != test.first {
				t.Errorf("%s: %s: want %s", test.rule, got, test.first)
			}
			switch test.ctx {
			case "cancel":
				cancel()
			case "timeout":
				time.Sleep(2 * s)
			}
			test.do(resp.Body)
			synctest.Wait()
			if got := state(lim); got != test.last {
				t.Errorf("%s: at last %s: want %s", test.rule, got, test.last)
			}
		})
	}
}

func TestTheOutcomeOfAnError(t *testing.T) {
	for _, test := range []struct {
		rule string
		err  error
		wait time.Duration
		want weir.Outcome
	}{
		{"a connection refused", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, 0, weir.Dropped},
		{"a time-out of Base's", tooSlow{}, 0, weir.Dropped},
		{"a limit on work in flight further down", weir.Reject(weir.QueueFull, 0), 0, weir.Dropped},
		{"a quota further down", weir.Reject(weir.OverRate, 0), 0, weir.Ignored},
		{"anything else", errors.New("bad request"), 0, weir.Ignored},
		{"the deadline has passed", errors.New("cancelled"), 2 * s, outcome.TimedOut},
	} {
		synctest.Test(t, func(t *testing.T) {
			lim := new(testrig.Limiter)
			tr, _ := newClient(t, Config{Retry: noRetry, PerHost: limitBy(lim)}, func(int, *http.Request) (*http.Response, error) {
				time.Sleep(test.wait)
				return nil, test.err
			})
			ctx, cancel := context.WithTimeout(context.Background(), s)
			defer cancel()
			if _, err := send(tr, get(ctx, host1)); err != test.err {
				t.Errorf("%s: %v", test.rule, err)
			}
			if got, want := state(lim), fmt.Sprintf("0 held, [%v]", test.want); got != want {
				t.Errorf("%s: %s: want %s", test.rule, got, want)
			}
		})
	}
}

func TestAPanicOfBaseGivesThePermitBack(t *testing.T) {
	lim := new(testrig.Limiter)
	tr, _ := newClient(t, Config{PerHost: limitBy(lim)}, func(int, *http.Request) (*http.Response, error) { panic("base") })
	func() {
		defer func() { recover() }()
		fetch(tr, host1)
	}()
	if got := state(lim); got != "0 held, [ignored]" {
		t.Error(got)
	}
	if h := tr.hosts.find(hostKey{scheme: "http", host: "one.example"}); h == nil || h.users.Load() != 0 {
		t.Errorf("%+v: want no user", h)
	}
}

func TestABaseThatReturnsNothingIsAnError(t *testing.T) {
	tr, _ := newClient(t, Config{}, func(int, *http.Request) (*http.Response, error) { return nil, nil })
	if _, err := fetch(tr, host1); err != errNothing {
		t.Error(err)
	}
}

// What does not go out must not count as if it had.
func TestARefusalOfTheLimiterCostsNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := testrig.Rejecting(weir.Reject(weir.OverLimit, 0), 1)
		tr, srv := newClient(t, Config{PerHost: limitBy(lim)}, script(says(200, `RateLimit: "a";r=1;t=9`), says(200)))
		fetch(tr, host1)
		for range 3 {
			_, err := fetch(tr, host1)
			rejected(t, "by the limiter", err, weir.OverLimit, 0)
		}
		lim.Reject(nil)
		fetch(tr, host1)
		fetch(tr, host1)
		srv.want(t, "the unit is still there", 0, 0, 9*s)
	})
}

// A host that refuses everything gets fewer requests. Errors of the client do not
// count.
func TestTheThrottleSendsLessToAHostThatRefuses(t *testing.T) {
	for _, test := range []struct {
		rule   string
		cfg    Config
		status int
		want   bool
	}{
		{"it refuses", Config{Retry: noRetry}, 503, true},
		{"it is turned off", Config{Retry: noRetry, Throttle: noThrottle}, 503, false},
		{"it answers", Config{Retry: noRetry}, 500, false},
		{"it limits this caller, which is no overload", Config{Retry: noRetry}, 429, false},
		{"with more grace", Config{Retry: noRetry, Throttle: throttle.Config{Grace: 1000}}, 503, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, srv := newClient(t, test.cfg, script(says(test.status)))
			for range 1000 {
				if _, err := fetch(tr, host1); err != nil {
					rejected(t, test.rule, err, weir.Throttled, 0)
				}
			}
			st := tr.Stats()
			if got := len(srv.asked) < 700; got != test.want || st.Refused["throttled"] != uint64(1000-len(srv.asked)) {
				t.Errorf("%s: %d of 1000 sent; %+v", test.rule, len(srv.asked), st)
			}
			if _, err := fetch(tr, "http://two.example"); err != nil {
				t.Errorf("%s: another host: %v", test.rule, err)
			}
		})
	}
}

// Nor does a refusal of the throttle.
func TestARefusalOfTheThrottleCostsNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eager := throttle.Config{Grace: -1, K: 1}
		tr, srv := newClient(t, Config{Retry: noRetry, Throttle: eager}, script(says(503, `RateLimit: "a";r=5;t=9`), says(503)))
		for range 1000 { // nine of ten are refused
			if fetch(tr, host1); len(srv.asked) == 6 {
				break
			}
		}
		srv.want(t, "five units", 0, 0, 0, 0, 0, 0)
	})
}

// What the limiter refuses, the host was not asked.
func TestTheThrottleDoesNotCountRefusalsOfTheLimiter(t *testing.T) {
	lim := testrig.Rejecting(weir.Reject(weir.OverLimit, 0), 0)
	tr, _ := newClient(t, Config{Retry: noRetry, PerHost: limitBy(lim)}, script(says(200)))
	for range 1000 {
		fetch(tr, host1)
	}
	if st := tr.Stats(); st.Refused["throttled"] != 0 || st.Refused["limited"] != 1000 {
		t.Errorf("%+v", st)
	}
}

// Which requests share what is remembered?
func TestHostKeys(t *testing.T) {
	byUser := func(r *http.Request) string { return r.Header.Get("Authorization") }
	for _, test := range []struct {
		rule     string
		one, two string
		key      func(*http.Request) string
		same     bool
	}{
		{"paths", "http://a.example/1", "http://a.example/2", nil, true},
		{"the port of the scheme", "http://a.example", "http://a.example:80", nil, true},
		{"the port of https", "https://a.example:443", "https://a.example", nil, true},
		{"capitals", "http://A.example", "http://a.EXAMPLE", nil, true},
		{"schemes", "http://a.example", "https://a.example", nil, false},
		{"ports", "http://a.example:80", "http://a.example:443", nil, false},
		{"names", "http://a.example", "http://b.example", nil, false},
		{"keys", "http://a.example", "http://a.example", byUser, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, _ := newClient(t, Config{Retry: noRetry, Key: test.key, MaxWait: s}, script(says(429, "Retry-After: 5")))
			for user, url := range []string{test.one, test.two} {
				r := get(context.Background(), url)
				r.Header.Set("Authorization", fmt.Sprint(user))
				_, err := send(tr, r)
				if held := errors.Is(err, weir.ErrRejected); held != (user == 1 && test.same) {
					t.Errorf("%s: %s: %v", test.rule, url, err)
				}
			}
		})
	}
}

func TestHostsAreBounded(t *testing.T) {
	url := func(n int) string { return fmt.Sprintf("http://%d.example", n) }
	synctest.Test(t, func(t *testing.T) {
		var made []string
		cfg := Config{Retry: noRetry, MaxWait: s, PerHost: func(host string) weir.Limiter {
			made = append(made, host)
			return nil
		}}
		tr, _ := newClient(t, cfg, func(n int, r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/limit" {
				return reply(429, "Retry-After: 5"), nil
			}
			return reply(200), nil
		})
		tr.hosts.most = 10
		for i := range 25 {
			fetch(tr, url(i))
		}
		if st := tr.Stats(); st.Hosts != 10 || st.Evicted != 15 || st.Shared != 0 {
			t.Errorf("who is idle makes place: %+v", st)
		}
		fetch(tr, url(15)) // the oldest is now the newest
		fetch(tr, url(99))
		before := len(made)
		if fetch(tr, url(15)); len(made) != before {
			t.Error("the last used was forgotten")
		}
		if fetch(tr, url(16)); len(made) != before+1 {
			t.Error("the least recently used was not forgotten")
		}

		for i := range 10 {
			fetch(tr, url(i)+"/limit")
		}
		for range 3 {
			if _, err := fetch(tr, url(50)+"/limit"); err != nil {
				t.Errorf("those who share a state wait for each other: %v", err)
			}
		}
		if st := tr.Stats(); st.Hosts != 10 || st.Shared != 3 || made[len(made)-1] != "" {
			t.Errorf("all owe a wait, so others share: %+v, %q", st, made)
		}
		_, err := fetch(tr, url(3))
		rejected(t, "who owes a wait is not forgotten", err, weir.OverRate, 5*s)
		time.Sleep(5 * s)
		if fetch(tr, url(50)); tr.Stats().Shared != 3 {
			t.Error("the wait is over, and nobody makes place")
		}
	})
}

// Hosts with a wait to heed are examined once, and not for each new host.
func TestHostsOnHoldDoNotBlockEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, _ := newClient(t, Config{Retry: noRetry}, func(n int, _ *http.Request) (*http.Response, error) {
			if n < 8 {
				return reply(429, "Retry-After: 3600"), nil
			}
			return reply(200), nil
		})
		tr.hosts.most = 20
		for i := range 100 {
			fetch(tr, fmt.Sprintf("http://%d.example", i))
		}
		if st := tr.Stats(); st.Shared > 10 || st.Hosts != 20 {
			t.Errorf("%+v", st)
		}
	})
}

// However many come at once, they hold to one limit.
func TestPerHostIsCalledOnceForAHost(t *testing.T) {
	var made atomic.Int64
	lim := new(testrig.Limiter)
	cfg := Config{PerHost: func(string) weir.Limiter {
		for range 100 {
			runtime.Gosched()
		}
		made.Add(1)
		return lim
	}}
	tr, _ := newClient(t, cfg, script(says(200)))
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { fetch(tr, host1) })
	}
	all.Wait()
	if made.Load() != 1 || len(lim.Asked()) != 50 {
		t.Errorf("made %d, asked %d times", made.Load(), len(lim.Asked()))
	}
}

// If PerHost panics, no request of the host is sent without a limit.
func TestAPanicOfPerHostIsNoMissingLimit(t *testing.T) {
	tr, srv := newClient(t, Config{PerHost: func(string) weir.Limiter { panic("limit") }}, script(says(200)))
	for range 2 {
		func() {
			defer func() { _ = recover() }()
			fetch(tr, host1)
			t.Error("want a panic")
		}()
	}
	if n := len(srv.asked); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// A queue is a limiter of one unit with an unbounded queue.
type queue struct {
	turn  chan struct{}
	owner weir.Owner
	used  []int
}

func (q *queue) Acquire(context.Context, int) (weir.Permit, error) {
	q.turn <- struct{}{}
	return weir.OwnedPermit(&q.owner, weir.Grant{N: 1}), nil
}

func (q *queue) Use(_ weir.Grant, n int) int { q.used = append(q.used, n); return n }

func (q *queue) Release(weir.Grant, weir.Outcome) { <-q.turn }

// A request that waits in the limiter when the host asks for a wait also waits for
// the host, without a unit of the limiter.
func TestARequestInTheLimiterHeedsTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := &queue{turn: make(chan struct{}, 1)}
		lim.owner = lim
		tr, srv := newClient(t, Config{Retry: noRetry, PerHost: limitBy(lim)}, func(n int, _ *http.Request) (*http.Response, error) {
			time.Sleep(20 * ms)
			if n == 0 {
				return reply(429, "Retry-After: 3"), nil
			}
			return reply(200), nil
		})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { fetch(tr, host1) })
			synctest.Wait()
		}
		time.Sleep(s)
		if len(lim.turn) != 0 || tr.Stats().Waiting != 2 {
			t.Errorf("%d hold a unit, %+v", len(lim.turn), tr.Stats())
		}
		all.Wait()
		srv.want(t, "after the hold", 0, 3020*ms, 3070*ms)
		if fmt.Sprint(lim.used) != "[0 0]" {
			t.Errorf("units used of those given back: %v", lim.used)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		lim := &queue{turn: make(chan struct{}, 1)}
		lim.owner = lim
		tr, srv := newClient(t, Config{Retry: noRetry, PerHost: limitBy(lim)}, script(says(200, `RateLimit: "a";r=1;t=9`), says(200)))
		fetch(tr, host1)
		fetch(tr, host1)
		srv.want(t, "the last unit is one's own", 0, 0)
		if len(lim.used) != 0 {
			t.Error("it was given back")
		}
	})
}

// A host that has something in flight, be it a body, stays: its limiter knows.
func TestAHostInUseIsNotForgotten(t *testing.T) {
	lim := new(testrig.Limiter)
	tr, _ := newClient(t, Config{PerHost: limitBy(lim)}, script(says(200)))
	tr.hosts.most = 1
	resp, err := tr.RoundTrip(get(context.Background(), host1))
	testrig.Must(t, err)
	if fetch(tr, "http://two.example"); tr.Stats().Shared != 1 {
		t.Errorf("%+v", tr.Stats())
	}
	resp.Body.Close()
	if fetch(tr, "http://two.example"); tr.Stats().Shared != 1 || tr.Stats().Evicted != 1 {
		t.Errorf("%+v", tr.Stats())
	}
}

func TestHeadersTellTheServer(t *testing.T) {
	const deadline, level = "X-Request-Timeout", "X-Criticality"
	both := Config{Retry: throttle.RetryConfig{Attempts: 2}, Deadline: strings.ToLower(deadline), Criticality: level}
	for _, test := range []struct {
		rule     string
		cfg      Config
		left     time.Duration // 0 is no deadline
		priority weir.Priority
		header   http.Header
		want     []string // of both headers, for each attempt
	}{
		{"neither is named", Config{Retry: throttle.RetryConfig{Attempts: 2}}, 5 * s, weir.Sheddable, nil, []string{"", "", "", ""}},
		{"both", both, 5 * s, weir.Sheddable, nil, []string{"5000", "sheddable", "3000", "sheddable"}},
		{"milliseconds are rounded down", both, 2100*ms + 999*time.Microsecond, weir.CriticalPlus, nil, []string{"2100", "critical_plus", "100", "critical_plus"}},
		{"there is one millisecond at least", both, 2*s + 1, weir.SheddablePlus, nil, []string{"2000", "sheddable_plus", "1", "sheddable_plus"}},
		{"no deadline", both, 0, weir.Critical, nil, []string{"", "critical", "", "critical"}},
		{"levels of one's own", both, 0, -100, nil, []string{"", "sheddable", "", "sheddable"}},
		{"and above", both, 0, 100, nil, []string{"", "critical_plus", "", "critical_plus"}},
		{"other headers stay", both, 0, weir.Critical, http.Header{"X-Other": {"1"}}, []string{"", "critical", "", "critical"}},
		{"what is there stays", both, 5 * s, weir.Sheddable, http.Header{deadline: {"7"}, level: {"x"}}, []string{"7", "x", "7", "x"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			tr, srv := newClient(t, test.cfg, func(_ int, r *http.Request) (*http.Response, error) {
				got = append(got, r.Header.Get(deadline), r.Header.Get(level))
				return reply(429, "Retry-After: 2"), nil
			})
			ctx := weir.WithClass(context.Background(), weir.Class{Priority: test.priority})
			if test.left > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.left)
				defer cancel()
			}
			r := get(ctx, host1)
			r.Header = test.header
			headers := len(r.Header)
			resp, err := tr.RoundTrip(r)
			testrig.Must(t, err)
			resp.Body.Close()
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("%s: %q: want %q", test.rule, got, test.want)
			}
			if len(r.Header) != headers || resp.Request != r {
				t.Errorf("%s: the caller's request is another: %v", test.rule, r.Header)
			}
			srv.want(t, test.rule, 0, 2*s)
		})
	}
}

func TestTheBodyOfARequestIsClosedIfItIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, _ := newClient(t, Config{Retry: noRetry, MaxWait: s}, script(says(429, "Retry-After: 5")))
		fetch(tr, host1)
		closed := make(chan bool, 1)
		r, _ := http.NewRequest("POST", host1, &lastBody{closed: closed})
		if _, err := tr.RoundTrip(r); err == nil {
			t.Fatal("it was sent")
		}
		if len(closed) != 1 {
			t.Error("it is open")
		}
	})
}

type lastBody struct {
	io.Reader
	closed chan bool
}

func (b *lastBody) Close() error { b.closed <- true; return nil }

func TestTheLogHasOneLineForAHostAndInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		tr, _ := newClient(t, Config{Retry: noRetry, MaxWait: 5 * s, Log: log}, script(
			says(429, "Retry-After: 5"), says(429, "Retry-After: 40"), says(429, "Retry-After: 3"), says(200)))
		fetch(tr, host1)
		time.Sleep(s)
		fetch(tr, host1) // held for 4 s
		for range 7 {
			fetch(tr, host1) // rejected
		}
		time.Sleep(36 * s)
		fetch(tr, host1)
		time.Sleep(60 * s)
		fetch(tr, host1)
		if out.Len() == 0 {
			t.Fatal("no line")
		}
		tr.admitted(tr.shared(), -1, outgoing.ByLimiter, weir.ErrRejected)
		want := `level=WARN msg="requests held back" host=http://one.example held=1 longest=4s rejected=0 throttled=0 limited=0
level=WARN msg="requests held back" host="" held=0 longest=0s rejected=0 throttled=0 limited=1
`
		if out.String() != want {
			t.Errorf("got:\n%swant:\n%s", &out, want)
		}
		tr.admitted(tr.enter(get(context.Background(), host1)), -1, outgoing.ByThrottle, weir.ErrRejected)
		if line := "held=1 longest=4s rejected=7 throttled=1 limited=0\n"; !strings.HasSuffix(out.String(), line) {
			t.Errorf("got:\n%swant at the end:\n%s", &out, line)
		}
	})
}

func TestWaitsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, _ := newClient(t, once, script(says(429, "Retry-After: 2"), says(429, "Retry-After: 7"), says(200)))
		for range 3 {
			fetch(tr, host1)
		}
		st := tr.Stats()
		var want [14]uint64
		want[9], want[11] = 1, 1
		if st.Waits != want || st.Waited != 9*s || waits(st) != 2 || st.Requests != 3 || st.Sent != 3 {
			t.Errorf("%+v", st)
		}
	})
	var c counters
	for _, bound := range WaitBounds {
		c.addWait(bound)
	}
	c.addWait(time.Hour)
	for i := range c.waits {
		if n := c.waits[i].Load(); n != 1 {
			t.Errorf("bucket %d: %d", i, n)
		}
	}
}

func TestConfigurationsThatMakeNoSense(t *testing.T) {
	for want, cfg := range map[string]Config{
		"httpclient: Retry: throttle: Attempts = -1: must be >= 0":                        {Retry: throttle.RetryConfig{Attempts: -1}},
		`httpclient: Deadline = "a b": must be the name of a header`:                      {Deadline: "a b"},
		`httpclient: Criticality = ":": must be the name of a header`:                     {Criticality: ":"},
		`httpclient: Deadline = "host": net/http sets that header itself`:                 {Deadline: "host"},
		`httpclient: Criticality = "Content-Length": net/http sets that header itself`:    {Criticality: "Content-Length"},
		`httpclient: Criticality = "transfer-encoding": net/http sets that header itself`: {Criticality: "transfer-encoding"},
		`httpclient: Deadline = "Trailer": net/http sets that header itself`:              {Deadline: "Trailer"},
		`httpclient: Deadline = "Connection": net/http sets that header itself`:           {Deadline: "Connection"},
		`httpclient: Criticality = "x-a": must differ from Deadline`:                      {Deadline: "X-A", Criticality: "x-a"},
		"httpclient: Retry: throttle: Ratio = 2: must be in (0, 1]":                       {Retry: throttle.RetryConfig{Ratio: 2}},
		"httpclient: Throttle: throttle: K = 0.5: must be >= 1 and finite":                {Throttle: throttle.Config{K: 0.5}},
	} {
		if tr, err := New(cfg); tr != nil || fmt.Sprint(err) != want {
			t.Errorf("%v: want %s", err, want)
		}
	}
}

type closer struct {
	http.RoundTripper
	n int
}

func (c *closer) CloseIdleConnections() { c.n++ }

func TestCloseIdleConnectionsIsPassedOn(t *testing.T) {
	c := &closer{}
	tr, err := New(Config{Base: c})
	testrig.Must(t, err)
	(&http.Client{Transport: tr}).CloseIdleConnections()
	if c.n != 1 {
		t.Error(c.n)
	}
	tr, _ = newClient(t, Config{}, nil)
	tr.CloseIdleConnections() // of a Base that has none
}

func TestARequestWithoutAURLGoesToBase(t *testing.T) {
	tr, err := New(Config{})
	testrig.Must(t, err)
	if _, err := tr.RoundTrip(&http.Request{}); err == nil || !strings.Contains(err.Error(), "nil Request.URL") {
		t.Error(err)
	}
}

// What a limiter learns of a response ends with its header.
func TestTheLimitLearnsUntilTheHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1)})
		testrig.Must(t, err)
		tr, _ := newClient(t, Config{Retry: noRetry, PerHost: limitBy(lim)}, func(int, *http.Request) (*http.Response, error) {
			time.Sleep(s)
			resp := reply(200)
			resp.Body = io.NopCloser(strings.NewReader("a body"))
			return resp, nil
		})
		resp, err := tr.RoundTrip(get(t.Context(), host1))
		testrig.Must(t, err)
		time.Sleep(time.Hour)
		if st := lim.Stats(); st.Inflight != 1 || lim.Usual() != 2*s {
			t.Errorf("%+v, at most %v: want the unit held, and one second learnt", st, lim.Usual())
		}
		resp.Body.Close()
		if st := lim.Stats(); st.Inflight != 0 || st.Outcomes[weir.Success] != 1 || lim.Usual() != 2*s {
			t.Errorf("%+v, at most %v: want one success, and nothing more learnt", st, lim.Usual())
		}
	})
}
