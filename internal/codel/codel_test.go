package codel_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/codel"
)

func ms(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// A queue plays dequeues on a law, in milliseconds, with the RFC's parameters.
type queue struct {
	t   *testing.T
	law codel.Law
}

func play(t *testing.T) *queue { return &queue{t: t, law: codel.New(codel.Config{})} }

// out takes a waiter out at an instant; verdict is "in" or "drop".
func (q *queue) out(at, sojourn float64, left int, want string) *queue {
	q.t.Helper()
	got := "in"
	if q.law.Drop(ms(at), ms(sojourn), left) {
		got = "drop"
	}
	if got != want {
		q.t.Errorf("at %v ms, one that waited for %v ms with %d behind it: %s: want %s", at, sojourn, left, got, want)
	}
	return q
}

// above plays a queue until it has been above the target for an interval: the
// next is dropped.
func above(t *testing.T) *queue {
	return play(t).out(1000, 5, 9, "in").out(1099, 50, 9, "in")
}

func TestLaw(t *testing.T) {
	t.Run("went below - stay below for at least INTERVAL", func(t *testing.T) {
		above(t).out(1099.5, 4.9, 9, "in").out(1100, 5, 9, "in").out(1199, 5, 9, "in").out(1200, 5, 9, "drop")
	})
	t.Run("just went above from below. if still above at first_above_time, will say it's ok to drop.", func(t *testing.T) {
		above(t).out(1100, 50, 9, "drop")
	})
	t.Run("the target itself is above", func(t *testing.T) {
		play(t).out(1000, 5, 9, "in").out(1100, 5, 9, "drop")
	})
	t.Run("the 2nd term: never less than a packet in the queue", func(t *testing.T) {
		above(t).out(1100, 500, 1, "in").out(1100, 500, 9, "in").out(1199, 500, 9, "in").out(1200, 500, 9, "drop")
	})
	t.Run("drop current packet and dequeue next: one drop to enter", func(t *testing.T) {
		above(t).out(1100, 500, 9, "drop").out(1100, 500, 9, "in").out(1199, 500, 9, "in")
	})
	t.Run("the next drops come closer and closer, from drop_next and not from now", func(t *testing.T) {
		above(t).out(1100, 500, 99, "drop").out(1100, 500, 99, "in"). // next at 1200
										out(1250, 500, 99, "drop").out(1250, 500, 99, "in"). // late; next at 1200 + 100/√2 = 1270.7
										out(1270, 500, 99, "in").
										out(1271, 500, 99, "drop").out(1271, 500, 99, "in"). // next at 1270.7 + 100/√3 = 1328.4
										out(1328, 500, 99, "in").out(1329, 500, 99, "drop")
	})
	t.Run("a large backlog might result in drop rates so high that the next drop should happen now", func(t *testing.T) {
		above(t).out(1100, 500, 99, "drop").out(1100, 500, 99, "in").
			out(1330, 500, 99, "drop").out(1330, 500, 99, "drop").out(1330, 500, 99, "drop").out(1330, 500, 99, "in")
	})
	t.Run("sojourn time below TARGET - leave drop state", func(t *testing.T) {
		above(t).out(1100, 500, 9, "drop").out(1100, 500, 9, "in").
			out(1200, 4, 9, "in").out(1201, 500, 9, "in").out(1300, 500, 9, "in").out(1301, 500, 9, "drop")
	})
	t.Run("if the dequeue takes us out of dropping state, the next drop is not scheduled", func(t *testing.T) {
		above(t).out(1100, 500, 9, "drop").out(1100, 500, 9, "in").
			out(1200, 500, 9, "drop").out(1200, 1, 9, "in").out(1400, 500, 9, "in")
	})
	t.Run("empty: leave the dropping state", func(t *testing.T) {
		q := above(t).out(1100, 500, 9, "drop").out(1100, 500, 9, "in")
		q.law.Empty()
		q.out(1200, 500, 9, "in").out(1299, 500, 9, "in").out(1300, 500, 9, "drop")
	})
}

// dropping has dropped four and let the queue get short: at 1330 ms.
func dropping(t *testing.T) *queue {
	return above(t).out(1100, 500, 99, "drop").out(1100, 500, 99, "in").
		out(1330, 500, 99, "drop").out(1330, 500, 99, "drop").out(1330, 500, 99, "drop").out(1330, 500, 99, "in").
		out(1340, 1, 99, "in") // count 4, drop_next 1378.4
}

// "If min went above TARGET close to when it last went below, assume that the
// drop rate that controlled the queue on the last cycle is a good starting
// point to control it now."
func TestReentry(t *testing.T) {
	t.Run("within 16 intervals: as many as there were", func(t *testing.T) {
		dropping(t).out(2000, 50, 9, "in").out(2100, 50, 9, "drop").out(2100, 50, 9, "in").
			out(2157, 50, 9, "in").out(2158, 50, 9, "drop") // 100/√3 = 57.7
	})
	t.Run("after that: from one", func(t *testing.T) {
		dropping(t).out(2900, 50, 9, "in").out(3000, 50, 9, "drop").out(3000, 50, 9, "in").
			out(3099, 50, 9, "in").out(3100, 50, 9, "drop")
	})
	t.Run("a single drop is not remembered", func(t *testing.T) {
		above(t).out(1100, 50, 9, "drop").out(1100, 50, 9, "in").out(1110, 1, 9, "in").
			out(1200, 50, 9, "in").out(1300, 50, 9, "drop").out(1300, 50, 9, "in").out(1399, 50, 9, "in").out(1400, 50, 9, "drop")
	})
}

// Where the work hangs, nothing is taken out. The law says when to ask, and
// then drops where they stand, at the same pace.
func TestStalled(t *testing.T) {
	law := codel.New(codel.Config{})
	ask := func(at, since float64, left int, want bool) {
		t.Helper()
		if got := law.Stalled(ms(at), ms(at-since), left); got != want {
			t.Errorf("at %v ms, the head since %v ms, %d behind it: %v: want %v", at, since, left, got, want)
		}
	}
	deadline := func(since float64, left int, want float64) {
		t.Helper()
		at, ok := law.Deadline(ms(since), left)
		if ok != (want > 0) || ok && (at-ms(want)).Abs() > time.Microsecond {
			t.Errorf("deadline %v, %v: want %v ms", at, ok, want)
		}
	}
	law.Drop(ms(1000), 0, 0)
	deadline(1000, 9, 1105)
	ask(1104, 1000, 9, false)
	ask(1105, 1000, 9, true)
	deadline(1000, 8, 1205)
	deadline(1150, 8, 1255) // one that came later has its own interval
	ask(1204, 1000, 8, false)
	ask(1205, 1000, 8, true)
	deadline(1000, 7, 1275.7107) // 1205 + 100/√2
	ask(1276, 1000, 7, true)
	deadline(1000, 6, 1333.4457) // from drop_next
	law.Drop(ms(1300), ms(300), 6)
	deadline(1000, 5, 1400) // something was taken out: it moves
	deadline(1000, 1, -1)   // the last ones are spared
	ask(9999, 1000, 1, false)
}

func TestParameters(t *testing.T) {
	law := codel.New(codel.Config{Target: time.Second, Interval: time.Minute})
	for _, step := range []struct {
		at, sojourn time.Duration
		want        bool
	}{{0, 999 * time.Millisecond, false}, {1, time.Second, false}, {time.Minute, time.Hour, false}, {time.Minute + 1, time.Hour, true}} {
		if got := law.Drop(step.at, step.sojourn, 9); got != step.want {
			t.Errorf("at %v, %v: %v", step.at, step.sojourn, got)
		}
	}
	endless := codel.New(codel.Config{Target: 1, Interval: 1<<63 - 1})
	for at := range 99 {
		if endless.Drop(time.Duration(at)<<56, time.Hour, 9) {
			t.Error("dropped before the end of time")
		}
	}
	if at, ok := endless.Deadline(1, 9); ok {
		t.Errorf("deadline %v beyond the clock", at)
	}
}

// The paper's memory: overload that returns within 16 intervals resumes two
// drops below the count at which it ended; later, it starts over.
func TestKeepRate(t *testing.T) {
	for _, c := range []struct {
		name  string
		keep  bool
		pause float64 // from the end of the dropping state to the return of the overload
		want  float64 // from the first drop to the second
	}{
		{"the RFC: five drops in the last state, less the first", false, 0, 50},
		{"the paper: five drops, less two", true, 0, 100 / math.Sqrt(3)},
		{"the RFC, after a long pause", false, 2000, 100},
		{"the paper, after a long pause", true, 2000, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := &queue{t: t, law: codel.New(codel.Config{KeepRate: c.keep})}
			q.out(1000, 50, 9, "in").out(1100, 50, 99, "drop").out(1100, 50, 99, "in")
			at := 1200.0
			for i := range 4 {
				q.out(at, 50, 99, "drop").out(at, 50, 99, "in")
				at += 100 / math.Sqrt(float64(i+2))
			}
			q.out(at, 1, 99, "in")
			at += c.pause
			q.out(at, 50, 99, "in").out(at+100, 50, 99, "drop").out(at+100, 50, 99, "in")
			at += 100
			q.out(at+c.want-1, 50, 99, "in").out(at+c.want+1, 50, 99, "drop")
		})
	}
}
