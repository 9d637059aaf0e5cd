package adaptive_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/adaptive"
)

const s = time.Second

// book is the configuration that is the book's formula, and no more.
var book = adaptive.Config{Window: 2 * time.Minute, Grace: -1, MaxP: 1}

func throttle(t testing.TB, cfg adaptive.Config) *adaptive.Throttle {
	t.Helper()
	a, err := adaptive.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// sure is a chance that is refused by hardly any p.
const sure = 1 - 1.0/(1<<53)

func TestThrottle(t *testing.T) {
	type step struct {
		at      time.Duration
		drops   int
		accepts int
		p       float64 // afterwards
	}
	slow := book
	slow.Window = 50 * s // a slot is a second
	with := func(f func(*adaptive.Config)) adaptive.Config {
		c := slow
		f(&c)
		return c
	}
	for _, tt := range []struct {
		rule  string
		cfg   adaptive.Config
		steps []step
	}{
		// "Under normal conditions, the two values are equal."
		{"a client whose requests are accepted is not throttled", book, []step{{0, 0, 10, 0}, {s, 0, 90, 0}}},
		{"nor is a client without requests", book, []step{{0, 0, 0, 0}}},
		// "Clients can continue to issue requests to the backend until requests
		// is K times as large as accepts."
		{"up to K requests for an accept", book, []step{{0, 10, 10, 0}, {0, 1, 0, 1.0 / 22}}},
		// "Once that cutoff is reached, [...] new requests are rejected locally
		// [...] with the probability calculated in Equation 21-1."
		{"beyond that, by the formula", book, []step{{0, 89, 10, 79.0 / 100}}},
		// "Reducing the multiplier will make adaptive throttling behave more
		// aggressively"
		{"a lower K is harder", adaptive.Config{K: 1.5, Grace: -1, MaxP: 1}, []step{{0, 5, 10, 0}, {0, 84, 0, 84.0 / 100}}},
		{"a higher K is softer", adaptive.Config{K: 4, Grace: -1, MaxP: 1}, []step{{0, 30, 10, 0}, {0, 59, 0, 59.0 / 100}}},
		{"p comes close to 1, and never reaches it", book, []step{{0, 1, 0, 1.0 / 2}, {0, 998, 0, 999.0 / 1000}}},

		// "each client task keeps the following information for the last two
		// minutes of its history"
		{"two minutes count", book, []step{{0, 9, 0, 0.9}, {120*s - 1, 0, 0, 0.9}, {120 * s, 0, 0, 0}}},
		{"by default, half of one", adaptive.Config{Grace: -1}, []step{{0, 4, 0, 0.8}, {30*s - 1, 0, 0, 0.8}, {30 * s, 0, 0, 0}}},
		{"a slot counts as one", slow, []step{{0, 1, 0, 1.0 / 2}, {s - 1, 1, 0, 2.0 / 3}, {50*s - 1, 0, 0, 2.0 / 3}, {50 * s, 0, 0, 0}}},
		{"the next one is another", slow, []step{{s - 1, 1, 0, 1.0 / 2}, {s, 1, 0, 2.0 / 3}, {50 * s, 0, 0, 1.0 / 2}, {51 * s, 0, 0, 0}}},
		{"accepts pass with time, too", slow, []step{{0, 0, 5, 0}, {s, 5, 0, 0}, {50*s - 1, 0, 0, 0}, {50 * s, 0, 0, 5.0 / 6}}},
		{"all is forgotten after a long time", slow, []step{{0, 9, 0, 0.9}, {math.MaxInt64, 1, 0, 1.0 / 2}}},
		{"time may be negative", slow, []step{{-2*s + 1, 1, 0, 1.0 / 2}, {-s, 1, 0, 2.0 / 3}, {48*s - 1, 0, 0, 2.0 / 3}, {48 * s, 0, 0, 1.0 / 2}, {49 * s, 0, 0, 0}}},
		{"as negative as it goes", slow, []step{{math.MinInt64, 1, 0, 1.0 / 2}, {math.MaxInt64, 1, 0, 1.0 / 2}}},
		{"time that goes backwards stands still", slow, []step{{100 * s, 1, 0, 1.0 / 2}, {0, 1, 0, 2.0 / 3}, {149 * s, 0, 0, 2.0 / 3}, {150 * s, 0, 0, 0}}},
		{"a window may be as long as time", with(func(c *adaptive.Config) { c.Window = math.MaxInt64 }),
			[]step{{0, 1, 0, 1.0 / 2}, {math.MaxInt64 - 50, 1, 0, 2.0 / 3}}},
		{"or as short", with(func(c *adaptive.Config) { c.Window = 1 }),
			[]step{{math.MinInt64, 1, 0, 1.0 / 2}, {math.MinInt64 + 49, 0, 0, 1.0 / 2}, {math.MinInt64 + 50, 1, 0, 1.0 / 2}, {math.MaxInt64, 1, 0, 1.0 / 2}}},

		{"by default p is at most 0.9", adaptive.Config{Grace: -1}, []step{{0, 9, 0, 0.9}, {0, 900, 0, 0.9}}},
		{"or at most MaxP", adaptive.Config{Grace: -1, MaxP: 0.5}, []step{{0, 1, 0, 0.5}, {0, 1, 0, 0.5}, {0, 0, 2, 0}}},
		{"and a negative MaxP refuses nothing", adaptive.Config{Grace: -1, MaxP: -1}, []step{{0, 900, 0, 0}}},
		{"by default the first twenty go out without an accept", adaptive.Config{}, []step{{0, 20, 0, 0}, {0, 1, 0, 1.0 / 22}}},
		{"and twenty more than accepts vouch for", adaptive.Config{}, []step{{0, 45, 25, 0}, {0, 29, 0, 29.0 / 100}}},
		{"or as many as Grace", adaptive.Config{Grace: 3}, []step{{0, 3, 0, 0}, {0, 1, 0, 1.0 / 5}}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			a := throttle(t, tt.cfg)
			for i, st := range tt.steps {
				for range st.drops {
					a.Request(st.at, sure)
					a.Drop(st.at)
				}
				for range st.accepts {
					a.Request(st.at, sure)
					a.Accept(st.at)
				}
				if got := a.Stats(st.at).P; got != st.p {
					t.Errorf("step %d: p = %v: want %v", i, got, st.p)
				}
			}
		})
	}
}

func TestThrottleChance(t *testing.T) {
	a := throttle(t, book)
	if !a.Request(0, 0) { // p = 0
		t.Error("the first request is refused")
	}
	a.Drop(0)
	if a.Request(0, math.Nextafter(1.0/2, 0)) { // p = 1/2
		t.Error("sent, with a chance below p")
	}
	if !a.Request(0, 2.0/3) { // refused ones count: p = 2/3
		t.Error("refused, with a chance of p")
	}
	a.Drop(0)
	want := adaptive.Stats{P: 3.0 / 4, Requests: 3, Sent: 2, Throttled: 1}
	if got := a.Stats(0); got != want {
		t.Errorf("%+v: want %+v", got, want)
	}
	want = adaptive.Stats{Sent: 2, Throttled: 1}
	if got := a.Stats(time.Hour); got != want {
		t.Errorf("%+v: want %+v", got, want)
	}
}

// Requests in flight and requests that their callers cancelled do not count: a
// backend that accepts all is never throttled.
func TestThrottleInFlight(t *testing.T) {
	a := throttle(t, book)
	for range 1000 {
		if !a.Request(0, 0) {
			t.Fatal("refused, although the backend has refused nothing")
		}
	}
	if st := a.Stats(0); st != (adaptive.Stats{Sent: 1000}) {
		t.Errorf("%+v: want 1000 sent, and no more", st)
	}
	for range 10 {
		a.Accept(5 * time.Minute) // the answers take that long; the others were left
	}
	if st := a.Stats(5 * time.Minute); st != (adaptive.Stats{Requests: 10, Accepts: 10, Sent: 1000}) {
		t.Errorf("%+v: want 10 requests, all of them accepted", st)
	}
	for range 11 {
		a.Drop(6 * time.Minute)
	}
	if st := a.Stats(6 * time.Minute); st.P != 1.0/22 {
		t.Errorf("%+v: want them to count when they end", st)
	}
}

// "Even in large overload situations, backends end up rejecting one request
// for each request they actually process." And with K = 1.1, "only one request
// will be rejected by the backend for every 10 requests accepted".
func TestThrottleUnderOverload(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		cfg     adaptive.Config
		rejects float64 // by the backend, for each accept
	}{
		{"the book", book, 1},
		{"K = 1.1", adaptive.Config{K: 1.1, Grace: -1, MaxP: 1}, 0.1},
		{"the defaults", adaptive.Config{}, 1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			c := client{Throttle: throttle(t, tt.cfg), rng: rand.New(rand.NewPCG(1, 2))}
			c.run(5*time.Minute, 500, 100) // five times of what the backend can do
			sent, accepted := c.sent, c.accepted
			c.run(10*time.Minute, 500, 100)
			sent, accepted = c.sent-sent, c.accepted-accepted
			if got := float64(sent-accepted) / float64(accepted); math.Abs(got-tt.rejects) > 0.05 {
				t.Errorf("the backend rejects %.3f for each accept: want %v", got, tt.rejects)
			}
		})
	}
}

// A backend that was away for longer than the window is trusted again when fewer
// than one in a hundred is refused locally.
func TestThrottleRecovers(t *testing.T) {
	for _, tt := range []struct {
		rule        string
		cfg         adaptive.Config
		half        time.Duration // within which p is 1/2, or less
		least, most time.Duration
	}{
		{"the book", book, 20 * time.Minute, 10 * time.Minute, 20 * time.Minute},
		{"with the bounds", adaptive.Config{Window: 2 * time.Minute}, 170 * s, 3 * time.Minute, 4 * time.Minute},
		{"the defaults", adaptive.Config{}, 45 * s, 40 * s, 60 * s},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			c := client{Throttle: throttle(t, tt.cfg), rng: rand.New(rand.NewPCG(1, 2))}
			c.run(4*time.Minute, 1000, 1000)
			if c.sent != c.accepted || c.accepted != 4*60*1000 {
				t.Fatalf("%d sent, %d accepted: want all, while all is well", c.sent, c.accepted)
			}
			c.run(6*time.Minute, 1000, 0)
			back, half := c.now, time.Duration(0)
			for before := c.sent; ; before = c.sent {
				if c.run(s, 1000, 1000); c.sent-before >= 990 {
					break
				}
				if c.Stats(c.now).P > 0.5 {
					half = c.now - back
				}
			}
			if half > tt.half {
				t.Errorf("p > 1/2 for %v: want %v", half, tt.half)
			}
			if took := c.now - back; took < tt.least || took > tt.most {
				t.Errorf("it takes %v: want %v to %v", took, tt.least, tt.most)
			}
		})
	}
}

// A client asks a backend that answers at once.
type client struct {
	*adaptive.Throttle
	rng            *rand.Rand
	now            time.Duration
	sent, accepted int
}

// run sends rate requests a second to a backend that accepts capacity a second.
func (c *client) run(d time.Duration, rate, capacity int) {
	for end := c.now + d; c.now < end; c.now += s {
		room := capacity
		for i := range rate {
			now := c.now + s*time.Duration(i)/time.Duration(rate)
			if !c.Request(now, c.rng.Float64()) {
				continue
			}
			c.sent++
			if room > 0 {
				room--
				c.accepted++
				c.Accept(now)
			} else {
				c.Drop(now)
			}
		}
	}
}

func TestConfig(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		cfg  adaptive.Config
		want string // in the error; empty: none
	}{
		{adaptive.Config{}, ""},
		{adaptive.Config{K: 1, Window: 1, Grace: math.MaxInt, MaxP: 1}, ""},
		{adaptive.Config{K: math.MaxFloat64, Window: math.MaxInt64, Grace: math.MinInt, MaxP: 1e-9}, ""},
		{adaptive.Config{MaxP: math.Inf(-1)}, ""},
		{adaptive.Config{K: 0.99}, "throttle: K = 0.99: must be >= 1"},
		{adaptive.Config{K: -1}, "K = -1"},
		{adaptive.Config{K: nan}, "K = NaN"},
		{adaptive.Config{K: inf}, "K = +Inf"},
		{adaptive.Config{Window: -1}, "Window = -1ns: must be >= 0"},
		{adaptive.Config{MaxP: 1.01}, "MaxP = 1.01: must be <= 1"},
		{adaptive.Config{MaxP: nan}, "MaxP = NaN"},
	} {
		a, err := adaptive.New(tt.cfg)
		check(t, tt.want, err, tt.cfg.Validate())
		if (a == nil) != (err != nil) {
			t.Errorf("%+v: %v, %v", tt.cfg, a, err)
		}
		if a != nil && !a.Request(0, sure) {
			t.Errorf("%+v: the first request is refused", tt.cfg)
		}
	}
}

func check(t *testing.T, want string, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}
