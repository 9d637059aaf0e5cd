package ratelimitfield

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
)

const s = time.Second

func TestPolicy(t *testing.T) {
	bucket := func(count int, period time.Duration, burst int) Policy {
		q := gcra.Per(count, period, burst)
		return OfBucket(q.Burst(), q.Rate())
	}
	for _, tt := range []struct {
		name string
		got  Policy
		want string
	}{
		{"a bucket that is filled in whole seconds", bucket(10, s, 20), `;q=20;w=2`},
		{"the seconds are rounded up, and what comes in meanwhile counts", bucket(10, s, 5), `;q=10;w=1`},
		{"a bucket that is never refilled has no window", bucket(0, s, 5), `;q=5`},
		{"a number of units in flight has no window", Policy{Quota: 10, Concurrent: true}, `;q=10;qu="concurrent-requests"`},
		{"a window is a window", OfWindow(100, s), `;q=100;w=1`},
		{"of an hour", OfWindow(1000, time.Hour), `;q=1000;w=3600`},
		{"as many short windows as a second has room for", OfWindow(5, 300*time.Millisecond), `;q=15;w=1`},
		{"a window longer than a second, rounded up", OfWindow(5, 1500*time.Millisecond), `;q=5;w=2`},
		{"a window that lets nothing pass", OfWindow(0, s), `;q=0;w=1`},
		{"no number is too great for the field", OfWindow(1<<60, time.Millisecond), `;q=999999999999999;w=1`},
	} {
		got := string(tt.got.Append(nil, `"x"`))
		if got != `"x"`+tt.want {
			t.Errorf("%s: %s: want %s", tt.name, got, tt.want)
		}
		parse(t, got)
	}
}

func TestAppendLeft(t *testing.T) {
	var b []byte
	for _, more := range []time.Duration{0, 1, s, s + 1, weir.Never, weir.Never - 1} {
		b = Draft.AppendLeft(b, `"x"`, 3, more)
	}
	const want = `"x";r=3, "x";r=3;t=1, "x";r=3;t=1, "x";r=3;t=2, "x";r=3, "x";r=3;t=9223372037`
	if string(b) != want {
		t.Errorf("%s: want %s", b, want)
	}
	parse(t, string(b))
	if got := string(Next.AppendLeft(nil, `"x"`, 3, s)); got != `"x";a=3;w=1` {
		t.Errorf("of a later draft: %s", got)
	}
}

func TestQuote(t *testing.T) {
	for name, want := range map[string]string{`plain`: `"plain"`, `a"b\c`: `"a\"b\\c"`, ``: `""`} {
		if got := Quote(name); got != want {
			t.Errorf("%s: %s: want %s", name, got, want)
		} else if list := parse(t, got); list[0].value != name {
			t.Errorf("%s is read as %v", got, list)
		}
	}
}

// What is left, and until when, of a bucket of 10 that gets one a second.
func TestUntilMore(t *testing.T) {
	q := gcra.PerSecond(1, 10)
	never := gcra.Per(0, s, 10)
	for _, tt := range []struct {
		name string
		q    gcra.Quota
		left int
		d    weir.Decision
		want time.Duration
	}{
		{"a full bucket gets no more", q, 10, weir.Decision{OK: true, Remaining: 10}, weir.Never},
		{"the next token comes before the others", q, 7, weir.Decision{OK: true, Remaining: 7, ResetAfter: 2500 * time.Millisecond}, 500 * time.Millisecond},
		{"who was denied is told when to come back", q, 2, weir.Decision{RetryAfter: 3 * s, Remaining: 2, ResetAfter: 8 * s}, 3 * s},
		{"nothing comes into a bucket without a rate", never, 7, weir.Decision{OK: true, Remaining: 7, ResetAfter: weir.Never}, weir.Never},
	} {
		if got := UntilMore(tt.q.Burst(), tt.q.Rate(), tt.left, &tt.d); got != tt.want {
			t.Errorf("%s: %v: want %v", tt.name, got, tt.want)
		}
	}
}

// parse fails the test unless text is a List of RFC 9651.
func parse(t *testing.T, text string) []item {
	t.Helper()
	list, ok := parseList([]string{text})
	if !ok || len(list) != strings.Count(text, ", ")+1 {
		t.Errorf("%s: %v, %v", text, list, ok)
	}
	return list
}
