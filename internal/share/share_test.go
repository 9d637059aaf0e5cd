package share

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
)

func TestTightest(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		lines   []string
		clients int
		want    gcra.Quota // zero: none
	}{
		{"one policy", []string{`"a";q=100;w=60`}, 1, gcra.Per(100, time.Minute, 100)},
		{"a share of it", []string{`"a";q=100;w=10`}, 4, gcra.Per(25, 10*time.Second, 25)},
		{"nothing of less than a token each", []string{`"a";q=3;w=3`}, 4, gcra.PerSecond(0.25, 0)},
		{"one token each", []string{`"a";q=49;w=49`}, 49, gcra.PerSecond(1.0/49, 1)},
		{"the lowest rate, and the least burst", []string{`"a";q=10;w=1, "b";q=100;w=100`}, 1, gcra.PerSecond(1, 10)},
		{"of all lines", []string{`"a";q=10;w=1`, `"b";q=5;w=1;pk=:cHJn:`}, 1, gcra.PerSecond(5, 5)},
		{"units of its own are passed over", []string{`"a";q=10;w=1, "b";q=5;w=1;qu="content-bytes"`}, 1, gcra.PerSecond(10, 10)},
		{"without a window nothing comes back", []string{`"a";q=10;w=1, "b";q=5`}, 1, gcra.PerSecond(0, 5)},
		{"a share of what does not come back", []string{`"b";q=5`}, 2, gcra.PerSecond(0, 2)},
		{"none", nil, 1, gcra.Quota{}},
		{"none that counts", []string{`"b";q=5;w=1;qu="content-bytes"`}, 1, gcra.Quota{}},
		{"malformed", []string{`"a";q=10;w=1, q=`}, 1, gcra.Quota{}},
		{"an inner list", []string{`("a");q=10;w=1`}, 1, gcra.Quota{}},
		{"no quota", []string{`"a";w=1`}, 1, gcra.Quota{}},
		{"a fraction", []string{`"a";q=1.5;w=1`}, 1, gcra.Quota{}},
		{"a window of nothing", []string{`"a";q=1;w=0`}, 1, gcra.Quota{}},
		{"too long", []string{`"` + strings.Repeat("a", 4<<10) + `";q=1;w=1`}, 1, gcra.Quota{}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			got, ok := tightest(tt.lines, tt.clients)
			if ok != (tt.want != gcra.Quota{}) || got.Burst() != tt.want.Burst() || math.Abs(got.Rate()-tt.want.Rate()) > 1e-9 {
				t.Errorf("got %v/s, burst %d; want %v/s, burst %d", got.Rate(), got.Burst(), tt.want.Rate(), tt.want.Burst())
			}
		})
	}
}

// limits returns Limits of the only client.
func limits(t *testing.T) *Limits {
	t.Helper()
	l, err := New(1, gcra.Unlimited())
	testrig.Must(t, err)
	return l
}

// The number of keys is bounded, and an unchanged rate keeps its tokens.
func TestLimitsAreBounded(t *testing.T) {
	l := limits(t)
	now := time.Unix(0, 0)
	hourly := []string{`"a";q=1;w=3600`}
	for i := range maxKeys + 100 {
		l.Learn(now, strconv.Itoa(i), hourly, nil)
	}
	if len(l.keys) != maxKeys {
		t.Errorf("%d keys", len(l.keys))
	}
	limited := 0
	for i := range maxKeys + 100 {
		if burst := l.For(strconv.Itoa(i)).Burst(); burst != math.MaxInt {
			limited++
		}
	}
	if limited != maxKeys {
		t.Errorf("%d keys have a limit", limited)
	}
	l.Learn(now, "a key", hourly, nil)
	l.Take("a key", 1)
	if l.Learn(now, "a key", hourly, nil); l.Allow("a key") {
		t.Error("the same rate, other tokens")
	}
	if l.Learn(now, "a key", nil, nil); !l.Allow("a key") {
		t.Error("there is no limit any more, and yet a denial")
	}
	for i := range maxKeys + 100 {
		l.Granted(strconv.Itoa(i), 1, 1)
		l.Leave(strconv.Itoa(i), 1)
	}
	if len(l.keys) != maxKeys || len(l.units) != 0 {
		t.Errorf("%d keys, and %d of them in use", len(l.keys), len(l.units))
	}
}

// What an answer tells of a key.
func TestLearn(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		policy []string
		err    error
		want   bool // a second token
	}{
		{"a limit", []string{`"a";q=1;w=3600`}, nil, false},
		{"a limit in a denial", []string{`"a";q=1;w=3600`}, weir.Reject(weir.OverRate, time.Second), false},
		{"no limit", nil, nil, true},
		{"no limit in a denial for a while", nil, weir.Reject(weir.OverRate, time.Second), true},
		{"that no rule matches", nil, weir.Reject(weir.OverRate, 0), false},
		{"nothing", []string{`"a";q=1;w=3600`}, weir.ErrRejected, true},
	} {
		l := limits(t)
		l.Learn(time.Unix(0, 0), "a", tt.policy, tt.err)
		l.Take("a", 1)
		if got := l.Allow("a"); got != tt.want {
			t.Errorf("%s: a second token: %v", tt.rule, got)
		}
	}
}

// A rate is due each 10 ms, one at a time, and that of the same key after a minute.
func TestDue(t *testing.T) {
	l := limits(t)
	now := time.Unix(0, 0)
	for i, step := range []struct {
		after time.Duration
		want  string
		learn bool
	}{
		{0, "a", false}, {time.Minute, "", true}, {9 * time.Millisecond, "", false}, {time.Millisecond, "b", true},
		{time.Second, "", false}, {time.Minute - 1010*time.Millisecond, "", false}, {time.Millisecond, "a", false},
	} {
		now = now.Add(step.after)
		if key, ok := l.Due(now, slices.Values([]string{"a", "b"})); key != step.want || ok != (key != "") {
			t.Errorf("step %d: %q: want %q", i, key, step.want)
		}
		if step.learn {
			l.Learn(now, []string{"a", "b"}[i/3], nil, nil)
		}
	}
}

// A client takes its share of the units, in addition to granted units.
func TestUnits(t *testing.T) {
	l, err := New(2, gcra.Unlimited())
	testrig.Must(t, err)
	l.Granted("a", 3, 10)
	if !l.Enter("a", 2) || l.Enter("a", 1) {
		t.Error("want two more units of ten")
	}
	if l.Leave("a", 3); !l.Enter("a", 3) || l.Enter("a", 1) {
		t.Error("want the units that came back")
	}
	if l.Granted("b", 0, 1); l.Enter("b", 1) {
		t.Error("want no unit: half of one is none")
	}
	if l.Enter("c", 1) {
		t.Error("want no unit of a limit that is not known")
	}
}

func FuzzTightest(f *testing.F) {
	f.Add(`"a";q=10;w=1, "b";q=5;w=1;pk=:cHJn:`, 2)
	f.Add(`"a";q=999999999999999;w=1`, 1)
	f.Fuzz(func(t *testing.T, line string, clients int) {
		if clients < 1 {
			return
		}
		if q, ok := tightest([]string{line}, clients); ok && (q.Burst() < 0 || !(q.Rate() >= 0) || q == gcra.Unlimited()) {
			t.Errorf("%q: %v/s, burst %d", line, q.Rate(), q.Burst())
		}
	})
}
