package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
)

const s, ms = time.Second, time.Millisecond

// One request after the other, as soon as the answer is there: when are they
// sent?
func TestWhenRequestsAreSent(t *testing.T) {
	date := func(d time.Duration) string { // of the bubble's clock, and one that is an hour ahead
		return time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	for _, test := range []struct {
		rule    string
		replies []func() *http.Response
		want    []time.Duration
	}{
		{"units are left", []func() *http.Response{says(200, `RateLimit: "a";r=5;t=10`)}, []time.Duration{0, 0, 0}},
		{"a quota that is used up holds until it is back",
			[]func() *http.Response{says(200, `RateLimit: "a";r=0;t=10`), says(200)}, []time.Duration{0, 10 * s, 10*s + 50*ms}},
		{"at a known rate requests go on, one each w/q, instead of waiting for t, which is in whole seconds",
			[]func() *http.Response{says(200, `RateLimit-Policy: "a";q=100;w=1`, `RateLimit: "a";r=0;t=1`)}, []time.Duration{0, 10 * ms, 20 * ms, 30 * ms}},
		{"a policy that is known from before",
			[]func() *http.Response{says(200, `RateLimit-Policy: "a";q=100;w=1`), says(200, `RateLimit: "a";r=0;t=1`)}, []time.Duration{0, 0, 10 * ms, 20 * ms}},
		{"but a 429 says that it is too much",
			[]func() *http.Response{says(429, `RateLimit-Policy: "a";q=100;w=1`, `RateLimit: "a";r=0;t=1`), says(200)}, []time.Duration{0, s, s + 5*ms}},
		{"and its Retry-After holds",
			[]func() *http.Response{says(429, `RateLimit-Policy: "a";q=100;w=1`, `RateLimit: "a";r=0;t=1`, `Retry-After: 1`), says(200)}, []time.Duration{0, s, s + 50*ms}},
		{"one a second is as good as t",
			[]func() *http.Response{says(200, `RateLimit-Policy: "a";q=60;w=60`, `RateLimit: "a";r=0;t=5`), says(200)}, []time.Duration{0, 5 * s}},
		{"no later than t",
			[]func() *http.Response{says(200, `RateLimit-Policy: "a";q=4;w=3`, `RateLimit: "a";r=0;t=0`)}, []time.Duration{0, 0, 0}},
		{"the slower of two limits binds",
			[]func() *http.Response{says(200, `RateLimit-Policy: "a";q=100;w=1, "b";q=10;w=1`, `RateLimit: "a";r=0;t=1, "b";r=0;t=1`)}, []time.Duration{0, 100 * ms, 200 * ms}},
		{"bytes come back at a rate that is none of requests",
			[]func() *http.Response{says(200, `RateLimit-Policy: "b";q=9;w=1;qu="content-bytes"`, `RateLimit: "b";r=0;t=3`), says(200)}, []time.Duration{0, 3 * s}},
		{"what is sent counts until the next answer that says so",
			[]func() *http.Response{says(200, `RateLimit: "a";r=2;t=10`), says(200)}, []time.Duration{0, 0, 0, 10 * s, 10*s + 50*ms}},
		{"the most restrictive item binds",
			[]func() *http.Response{says(200, `RateLimit: "a";r=0;t=3, "b";r=0;t=7, "c";r=9;t=60`), says(200)}, []time.Duration{0, 7 * s}},
		{"in any order",
			[]func() *http.Response{says(200, `RateLimit: "a";r=0;t=7, "b";r=0;t=3`), says(200)}, []time.Duration{0, 7 * s}},
		{"of two items of one name too",
			[]func() *http.Response{says(200, `RateLimit: "a";r=0;t=7, "a";r=5;t=1`), says(200)}, []time.Duration{0, 7 * s}},
		{"in either order",
			[]func() *http.Response{says(200, `RateLimit: "a";r=5;t=1, "a";r=0;t=7`), says(200)}, []time.Duration{0, 7 * s}},
		{"an answer holds, whatever its status",
			[]func() *http.Response{says(404, `RateLimit: "a";r=0;t=3`), says(200)}, []time.Duration{0, 3 * s}},
		{"without a reset time the wait is not known",
			[]func() *http.Response{says(200, `RateLimit: "a";r=0`)}, []time.Duration{0, 0, 0}},
		{"a reset of zero is over",
			[]func() *http.Response{says(200, `RateLimit: "a";r=0;t=0`)}, []time.Duration{0, 0, 0}},
		{"a response from a cache is about another client",
			[]func() *http.Response{says(429, `Age: 3`, `RateLimit: "a";r=0;t=3`, `Retry-After: 5`)}, []time.Duration{0, 0, 0}},
		{"Retry-After of 429", []func() *http.Response{says(429, `Retry-After: 5`), says(200)}, []time.Duration{0, 5 * s, 5*s + 50*ms}},
		{"Retry-After of 503", []func() *http.Response{says(503, `Retry-After: 5`), says(200)}, []time.Duration{0, 5 * s}},
		{"Retry-After with a fraction", []func() *http.Response{says(429, `Retry-After: 1.5`), says(200)}, []time.Duration{0, 1500 * ms}},
		{"several Retry-After", []func() *http.Response{says(503, `Retry-After: 2`, `Retry-After: 5`), says(200)}, []time.Duration{0, 5 * s}},
		{"the names of a later draft", []func() *http.Response{says(200, `RateLimit: "a";a=0;w=3`), says(200)}, []time.Duration{0, 3 * s}},
		{"draft-07", []func() *http.Response{says(200, `RateLimit: limit=9, remaining=1, reset=3`), says(200)}, []time.Duration{0, 0, 3 * s}},
		{"draft-03", []func() *http.Response{says(200, `RateLimit-Limit: 9`, `RateLimit-Remaining: 0`, `RateLimit-Reset: 3`), says(200)}, []time.Duration{0, 3 * s}},
		{"draft-04 with its policy, one each w/q", []func() *http.Response{says(200, `RateLimit-Policy: 10;w=1, 100;w=60`, `RateLimit-Limit: 10`, `RateLimit-Remaining: 0`, `RateLimit-Reset: 1`), says(200)}, []time.Duration{0, 100 * ms}},
		{"a reset since 1970", []func() *http.Response{says(200, `Date: `+date(0), `RateLimit-Remaining: 0`, `RateLimit-Reset: `+strconv.FormatInt(time.Date(2000, 1, 1, 1, 0, 3, 0, time.UTC).Unix(), 10)), says(200)}, []time.Duration{0, 3 * s}},
		{"Retry-After as a date", []func() *http.Response{says(429, `Retry-After: `+date(-time.Hour+4*s)), says(200)}, []time.Duration{0, 4 * s}},
		{"Retry-After as a date, beside the server's clock",
			[]func() *http.Response{says(503, `Date: `+date(0), `Retry-After: `+date(4*s)), says(200)}, []time.Duration{0, 4 * s}},
		{"Retry-After of a redirect is no limit", []func() *http.Response{says(301, `Retry-After: 5`)}, []time.Duration{0, 0, 0}},
		{"Retry-After of a good answer is none", []func() *http.Response{says(200, `Retry-After: 5`)}, []time.Duration{0, 0}},
		{"Retry-After that is malformed is none", []func() *http.Response{says(429, `Retry-After: soon`)}, []time.Duration{0, 0}},
		{"Retry-After wins over a longer reset",
			[]func() *http.Response{says(429, `Retry-After: 2`, `RateLimit: "a";r=0;t=9`), says(200)}, []time.Duration{0, 2 * s}},
		{"Retry-After wins over a shorter reset",
			[]func() *http.Response{says(503, `Retry-After: 9`, `RateLimit: "a";r=0;t=2`), says(200)}, []time.Duration{0, 9 * s}},
		{"Retry-After of zero wins over a reset",
			[]func() *http.Response{says(429, `Retry-After: 0`, `RateLimit: "a";r=0;t=2`)}, []time.Duration{0, 0}},
		{"Retry-After wins over what an earlier answer said of the limit",
			[]func() *http.Response{says(200, `RateLimit: "a";r=1;t=9`), says(429, `Retry-After: 2`, `RateLimit: "a";r=0;t=9`), says(200)}, []time.Duration{0, 0, 2 * s}},
		{"a limit in concurrent requests does not pace",
			[]func() *http.Response{says(200, `RateLimit-Policy: "c";q=9;qu="concurrent-requests"`, `RateLimit: "c";r=0;t=9`)}, []time.Duration{0, 0}},
		{"also if that is not known at first",
			[]func() *http.Response{says(200, `RateLimit: "c";r=1;t=9`), says(200, `RateLimit-Policy: "c";q=9;qu="concurrent-requests"`, `RateLimit: "c";r=0;t=9`)}, []time.Duration{0, 0, 0}},
		{"bytes are not counted in requests",
			[]func() *http.Response{says(200, `RateLimit-Policy: "b";q=9;qu="content-bytes"`, `RateLimit: "b";r=1;t=9`)}, []time.Duration{0, 0, 0}},
		{"bytes that are used up hold",
			[]func() *http.Response{says(200, `RateLimit-Policy: "b";q=9;qu="content-bytes"`, `RateLimit: "b";r=0;t=9`), says(200)}, []time.Duration{0, 9 * s}},
		{"a policy is remembered",
			[]func() *http.Response{says(200, `RateLimit-Policy: "c";q=9;qu="concurrent-requests"`), says(200, `RateLimit: "c";r=0;t=9`)}, []time.Duration{0, 0, 0}},
		{"one that is malformed is ignored",
			[]func() *http.Response{says(200, `RateLimit-Policy: "c";q=9;qu="concurrent-requests"`), says(200, `RateLimit-Policy: "c"`, `RateLimit: "c";r=0;t=9`)}, []time.Duration{0, 0, 0}},
		{"partitions that change do not pace",
			[]func() *http.Response{says(200, `RateLimit: "u";r=5;t=9;pk=:YQ==:`), says(200, `RateLimit: "u";r=0;t=9;pk=:Yg==:`)}, []time.Duration{0, 0, 0}},
		{"not even if the last two are the same",
			[]func() *http.Response{says(200, `RateLimit: "u";r=5;t=9;pk=:YQ==:`), says(200, `RateLimit: "u";r=5;t=9;pk=:Yg==:`), says(200, `RateLimit: "u";r=0;t=9;pk=:Yg==:`)}, []time.Duration{0, 0, 0, 0}},
		{"two partitions in one answer do not pace",
			[]func() *http.Response{says(200, `RateLimit: "u";r=0;t=9;pk=:YQ==:, "u";r=5;t=9;pk=:Yg==:`)}, []time.Duration{0, 0}},
		{"one partition holds",
			[]func() *http.Response{says(200, `RateLimit: "u";r=5;t=9;pk=:YQ==:`), says(200, `RateLimit: "u";r=0;t=9;pk=:YQ==:`)}, []time.Duration{0, 0, 9 * s}},
		{"a host that is not available",
			[]func() *http.Response{says(503, `Retry-After: 9`), says(200)}, []time.Duration{0, 9 * s}},
		{"a route whose limit is used up",
			[]func() *http.Response{says(503, `Retry-After: 9`, `Weir-Reason: queue_full`), says(200)}, []time.Duration{0, 0}},
		{"a weir that is closing",
			[]func() *http.Response{says(503, `Retry-After: 9`, `Weir-Reason: closed`), says(200)}, []time.Duration{0, 9 * s}},
		{"a server is believed for no longer than MaxHold",
			[]func() *http.Response{says(429, `Retry-After: 31536000`), says(200)}, []time.Duration{0, time.Minute}},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, srv := newClient(t, Config{Retry: noRetry, MaxWait: -1, MaxHold: time.Minute}, script(test.replies...))
			for range test.want {
				if _, err := fetch(tr, host1); err != nil {
					t.Fatalf("%s: %v", test.rule, err)
				}
			}
			srv.want(t, test.rule, test.want...)
		})
	}
}

func TestMalformedRateLimitNeverPaces(t *testing.T) {
	for _, m := range []struct{ rule, line string }{
		{"nothing", ``},
		{"the form of draft-07, with a text", `limit=100, remaining="0", reset=50`},
		{"a token for a name", `default;r=0;t=30`},
		{"a fraction remaining", `"default";r=0.5;t=30`},
		{"an inner list", `("default");r=0;t=30`},
		{"a good item before a bad one", `"default";r=0;t=30, "other"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, srv := newClient(t, once, script(says(200, "RateLimit: "+m.line)))
			for range 2 {
				if _, err := fetch(tr, host1); err != nil {
					t.Fatalf("%s: %v", m.rule, err)
				}
			}
			srv.want(t, m.rule, 0, 0)
		})
	}
}

// Waiters go in order, a gap apart, which each good answer halves.
func TestWaitingRequestsGoOneAfterTheOther(t *testing.T) {
	for _, test := range []struct {
		rule  string
		first func() *http.Response
		want  []time.Duration
	}{
		{"100 ms if no rate is known", says(429, `Retry-After: 1`),
			[]time.Duration{0, 1000 * ms, 1050 * ms, 1075 * ms, 1087500 * time.Microsecond, 1093750 * time.Microsecond}},
		{"after a 503 too", says(503, `Retry-After: 1`),
			[]time.Duration{0, 1000 * ms, 1050 * ms, 1075 * ms, 1087500 * time.Microsecond, 1093750 * time.Microsecond}},
		{"the rate of the policy", says(429, `RateLimit-Policy: "a";q=100;w=1`, `RateLimit: "a";r=0;t=1`),
			[]time.Duration{0, 1000 * ms, 1005 * ms, 1007500 * time.Microsecond, 1008750 * time.Microsecond, 1009375 * time.Microsecond}},
		{"bytes a second are no rate of requests", says(200, `RateLimit-Policy: "b";q=100;w=1;qu="content-bytes"`, `RateLimit: "b";r=0;t=1`),
			[]time.Duration{0, 1000 * ms, 1050 * ms, 1075 * ms, 1087500 * time.Microsecond, 1093750 * time.Microsecond}},
		{"never more than 100 ms", says(200, `RateLimit-Policy: "a";q=1;w=60`, `RateLimit: "a";r=0;t=1`),
			[]time.Duration{0, 1000 * ms, 1050 * ms, 1075 * ms, 1087500 * time.Microsecond, 1093750 * time.Microsecond}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var order []int
			var mu sync.Mutex
			tr, srv := newClient(t, once, func(n int, r *http.Request) (*http.Response, error) {
				if n == 0 {
					return test.first(), nil
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, len(r.URL.RawQuery))
				return reply(200), nil
			})
			if _, err := fetch(tr, host1); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for i := range len(test.want) - 1 {
				all.Go(func() {
					if _, err := fetch(tr, host1+"?"+fmt.Sprintf("%0*d", i+1, 0)); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			if n := tr.Stats().Waiting; n != len(test.want)-1 {
				t.Errorf("%s: %d wait", test.rule, n)
			}
			all.Wait()
			srv.want(t, test.rule, test.want...)
			if !slices.Equal(order, []int{1, 2, 3, 4, 5}) {
				t.Errorf("%s: order %v", test.rule, order)
			}
		})
	}
}

// Without any answer the gap stays.
func TestGapsAreNoShorterWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, once, func(n int, _ *http.Request) (*http.Response, error) {
			if n > 0 {
				time.Sleep(9 * s)
			}
			return reply(200, `RateLimit: "a";r=1;t=1`), nil
		})
		fetch(tr, host1)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { fetch(tr, host1) })
		}
		all.Wait()
		srv.want(t, "one is left, three wait", 0, 0, s, s+100*ms, s+200*ms)
	})
}

func TestACancelledRequestIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, Config{Throttle: noThrottle}, script(says(200)))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := send(tr, get(ctx, host1)); err != context.Canceled {
			t.Errorf("%v: want the context's own error", err)
		}
		srv.want(t, "left")
	})
}

// After ten good answers all is as it was.
func TestGapsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, once, script(says(429, `Retry-After: 1`), says(200)))
		for range 11 {
			fetch(tr, host1)
		}
		at := time.Since(srv.began)
		for range 100 {
			fetch(tr, host1)
		}
		if d := time.Since(srv.began) - at; d != 0 {
			t.Errorf("a hundred more took %v", d)
		}
	})
}

// What comes before the gap is over waits, so that newcomers are no storm
// either.
func TestNewRequestsQueueBehindWaitingOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, once, script(says(429, `Retry-After: 1`), says(429)))
		fetch(tr, host1)
		go fetch(tr, host1)
		go fetch(tr, host1)
		time.Sleep(1050 * ms)
		fetch(tr, host1)
		srv.want(t, "newcomers", 0, 1000*ms, 1100*ms, 1200*ms)
	})
}

// A later answer with new units ends the wait, and no gap follows.
func TestALaterAnswerEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, once, func(n int, _ *http.Request) (*http.Response, error) {
			switch n {
			case 0:
				return reply(200, `RateLimit: "a";r=2;t=20`), nil
			case 1:
				time.Sleep(3 * s)
				return reply(200, `RateLimit: "a";r=0;t=17`), nil
			case 2:
				time.Sleep(5 * s)
				return reply(200, `RateLimit: "a";r=2;t=20`), nil
			}
			return reply(200), nil
		})
		fetch(tr, host1)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { fetch(tr, host1) })
			synctest.Wait()
		}
		all.Wait()
		srv.want(t, "two are sent, three wait; two more at the third answer, the last when that time is over",
			0, 0, 0, 5*s, 5*s, 25*s)
	})
}

// The answer to an earlier request says less of what is left than the answer to
// a later one.
func TestAnAnswerThatComesLateIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, once, func(n int, _ *http.Request) (*http.Response, error) {
			if n == 0 {
				time.Sleep(s)
				return reply(200, `RateLimit: "a";r=0;t=20`), nil
			}
			return reply(200, `RateLimit: "a";r=5;t=20`), nil
		})
		go fetch(tr, host1)
		synctest.Wait()
		fetch(tr, host1)
		time.Sleep(2 * s)
		fetch(tr, host1)
		srv.want(t, "late", 0, 0, 2*s)
	})
}

// A 503 among good answers closes the host for no longer than the next of them.
func TestAGoodAnswerContradictsA503(t *testing.T) {
	for _, test := range []struct {
		rule     string
		status   int
		other    int
		at, next time.Duration
	}{
		{"a good answer", 503, 200, 1 * s, 1 * s},
		{"one that is no sign of overload", 503, 404, 1 * s, 1 * s},
		{"another sign of overload does not", 503, 502, 9 * s, 9*s + 100*ms},
		{"nor does it contradict a 429", 429, 200, 9 * s, 9*s + 50*ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, srv := newClient(t, once, func(n int, _ *http.Request) (*http.Response, error) {
				switch n {
				case 0:
					time.Sleep(s)
					return reply(test.other), nil
				case 1:
					return reply(test.status, `Retry-After: 9`), nil
				}
				return reply(test.other), nil
			})
			go fetch(tr, host1)
			synctest.Wait()
			fetch(tr, host1)
			fetch(tr, host1)
			fetch(tr, host1)
			srv.want(t, test.rule, 0, 0, test.at, test.next)
		})
	}
}

// That a host is available says nothing about the quota of this client.
func TestAGoodAnswerEndsNoWaitForAQuota(t *testing.T) {
	for _, test := range []struct {
		rule       string
		quota, bad func() *http.Response
	}{
		{"Retry-After", says(429, `Retry-After: 4`), says(503, `Retry-After: 8`)},
		{"r = 0", says(200, `RateLimit: "a";r=0;t=4`), says(503, `Retry-After: 8`)},
		{"a shorter one", says(429, `Retry-After: 4`), says(503, `Retry-After: 1`)},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, srv := newClient(t, once, func(n int, _ *http.Request) (*http.Response, error) {
				time.Sleep(time.Duration(n+1) * s)
				switch n {
				case 0:
					return test.quota(), nil
				case 1:
					return test.bad(), nil
				}
				return reply(200), nil
			})
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { fetch(tr, host1) })
				synctest.Wait()
			}
			all.Wait()
			fetch(tr, host1)
			srv.want(t, test.rule, 0, 0, 0, 5*s)
		})
	}
}

// Of two waits that a host asks for, the longer binds.
func TestAShorterRetryAfterTakesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, once, func(n int, _ *http.Request) (*http.Response, error) {
			switch n {
			case 0:
				time.Sleep(s)
				return reply(429, `Retry-After: 2`), nil
			case 1:
				return reply(429, `Retry-After: 9`), nil
			}
			return reply(200), nil
		})
		go fetch(tr, host1)
		synctest.Wait()
		fetch(tr, host1)
		time.Sleep(2 * s)
		fetch(tr, host1)
		srv.want(t, "9 s and 2 s", 0, 0, 9*s)
	})
}

// Other clients were told the same instant.
func TestTheOpeningIsSpread(t *testing.T) {
	for _, test := range []struct{ after, latest time.Duration }{{4 * s, 4400 * ms}, {20 * s, 21 * s}} {
		synctest.Test(t, func(t *testing.T) {
			tr, srv := newClient(t, once, script(says(429, fmt.Sprint("Retry-After: ", int(test.after/s))), says(200)))
			tr.chance = func() float64 { return 1 }
			fetch(tr, host1)
			fetch(tr, host1)
			srv.want(t, "chance is 1", 0, test.latest)
		})
	}
}

func TestAWaitThatIsTooLongFailsAtOnce(t *testing.T) {
	for _, test := range []struct {
		rule     string
		cfg      Config
		reply    func() *http.Response
		deadline time.Duration
		why      weir.Reason
		after    time.Duration
	}{
		{"beyond MaxWait, after 429", Config{MaxWait: 4 * s}, says(429, `Retry-After: 5`), 0, weir.OverRate, 5 * s},
		{"beyond MaxWait, after 503", Config{MaxWait: 4 * s}, says(503, `Retry-After: 5`), 0, weir.Throttled, 5 * s},
		{"beyond MaxWait, for a quota", Config{MaxWait: 4 * s}, says(200, `RateLimit: "a";r=0;t=5`), 0, weir.OverRate, 5 * s},
		{"the longest of several", Config{MaxWait: 4 * s}, says(200, `RateLimit: "a";r=0;t=5, "b";r=0;t=2`), 0, weir.OverRate, 5 * s},
		{"the default of MaxWait", Config{}, says(429, `Retry-After: 32`), 0, weir.OverRate, 32 * s},
		{"at the deadline", Config{}, says(429, `Retry-After: 5`), 5 * s, weir.TooLate, 5 * s},
		{"no request may wait", Config{Queue: -1}, says(429, `Retry-After: 5`), 0, weir.QueueFull, 5 * s},
	} {
		synctest.Test(t, func(t *testing.T) {
			test.cfg.Retry = noRetry
			tr, srv := newClient(t, test.cfg, script(test.reply, says(200)))
			fetch(tr, host1)
			ctx, cancel := context.Background(), context.CancelFunc(func() {})
			if test.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, test.deadline)
			}
			defer cancel()
			_, err := send(tr, get(ctx, host1))
			rejected(t, test.rule, err, test.why, test.after)
			if time.Since(srv.began) != 0 {
				t.Errorf("%s: it took %v", test.rule, time.Since(srv.began))
			}
			if errors.Is(err, context.DeadlineExceeded) != (test.why == weir.TooLate) {
				t.Errorf("%s: is it a missed deadline?", test.rule)
			}
			srv.want(t, test.rule, 0)
			if st := tr.Stats(); st.Refused["paced"] != 1 || waits(st) != 0 || st.Sent != 1 {
				t.Errorf("%s: %+v", test.rule, st)
			}
		})
	}
}

func TestAServerIsBelievedForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, Config{Retry: noRetry, MaxWait: -1}, script(says(429, `Retry-After: 86400`)))
		for range 3 {
			fetch(tr, host1)
		}
		srv.want(t, "a day", 0, time.Minute, 2*time.Minute)
	})
}

// A waiting request fails at once when an answer makes its wait too long.
func TestAWaiterThatIsPutOffFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, once, func(n int, _ *http.Request) (*http.Response, error) {
			if n == 0 {
				time.Sleep(2 * s)
				return reply(429, `Retry-After: 60`), nil
			}
			return reply(429, `Retry-After: 5`), nil
		})
		go fetch(tr, host1)
		synctest.Wait()
		fetch(tr, host1)
		_, err := fetch(tr, host1)
		rejected(t, "put off", err, weir.OverRate, 64*s)
		if d := time.Since(srv.began); d != 2*s {
			t.Errorf("after %v", d)
		}
	})
}

// A request that does not get its turn within MaxWait fails with the reason of the
// wait.
func TestAWaitEndsAfterMaxWait(t *testing.T) {
	for status, why := range map[int]weir.Reason{429: weir.OverRate, 503: weir.Throttled} {
		synctest.Test(t, func(t *testing.T) {
			tr, srv := newClient(t, Config{Retry: noRetry, MaxWait: 1050 * ms}, script(says(status, `Retry-After: 1`), says(502)))
			fetch(tr, host1)
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					if _, err := fetch(tr, host1); err != nil {
						if r, ok := errors.AsType[*weir.Rejection](err); !ok || r.Reason != why {
							t.Errorf("%d: %v: want %v", status, err, why)
						}
					}
				})
			}
			all.Wait()
			if d := time.Since(srv.began); d != 1050*ms {
				t.Errorf("after %v", d)
			}
			srv.want(t, "one of three", 0, s)
			if st := tr.Stats(); st.Refused["paced"] != 2 || waits(st) != 3 || st.Waiting != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestACancelledRequestLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, once, script(says(429, `Retry-After: 5`), says(429)))
		fetch(tr, host1)
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error)
		go func() {
			_, err := send(tr, get(ctx, host1))
			failed <- err
		}()
		synctest.Wait()
		go fetch(tr, host1)
		time.Sleep(s)
		cancel()
		if err := <-failed; err != context.Canceled {
			t.Errorf("%v: want the context's own error", err)
		}
		time.Sleep(9 * s)
		srv.want(t, "the one behind goes first", 0, 5*s)
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, _ := newClient(t, Config{Retry: noRetry, Queue: 2}, script(says(429, `Retry-After: 5`), says(200)))
		fetch(tr, host1)
		go fetch(tr, host1)
		go fetch(tr, host1)
		synctest.Wait()
		_, err := fetch(tr, host1)
		rejected(t, "the third", err, weir.QueueFull, 5*s)
		time.Sleep(6 * s)
	})
}

func TestPaceCanBeTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, srv := newClient(t, Config{Retry: noRetry, MaxHold: -1},
			script(says(429, `Retry-After: 5`, `RateLimit: "a";r=0;t=10`)))
		fetch(tr, host1)
		fetch(tr, host1)
		srv.want(t, "off", 0, 0)
	})
}
