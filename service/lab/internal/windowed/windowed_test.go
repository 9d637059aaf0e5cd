package windowed_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/lab/internal/windowed"
)

const (
	ok       = weir.Success
	dropped  = weir.Dropped
	ignored  = weir.Ignored
	timedOut = outcome.TimedOut
	left     = outcome.Left
)

func ms(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }

// A tape is an algorithm that keeps what it is shown.
type tape []limit.Sample

func (*tape) Limit() int { return 7 }

func (t *tape) Observe(s limit.Sample) limit.Cause {
	*t = append(*t, s)
	return limit.Slow
}

// work ended at an instant, and took so long; both in milliseconds.
func work(end, rtt float64, inflight int, outcome weir.Outcome) limit.Sample {
	return limit.Sample{Start: ms(end) - ms(rtt), End: ms(end), Inflight: inflight, Outcome: outcome}
}

// nine are samples that fill a window with another one.
func nine(s limit.Sample) []limit.Sample { return slices.Repeat([]limit.Sample{s}, 9) }

func TestWindowed(t *testing.T) {
	open := work(1000, 10, 1, ok) // the first sample is a window; the next ends after 2000
	for _, tt := range []struct {
		rule  string
		given [][]limit.Sample
		shown []limit.Sample
	}{
		{"a window has the average RTT and the most in flight",
			[][]limit.Sample{{open}, nine(work(1500, 10, 3, ok)), {work(1600, 30, 5, ok), work(2001, 80, 4, ok)}},
			[]limit.Sample{{Start: ms(2001) - ms(200)/11, End: ms(2001), Inflight: 5, Outcome: ok}},
		},
		{"it ends after its time, and the next begins",
			[][]limit.Sample{
				{open}, nine(work(1999, 10, 1, ok)), {work(2000, 10, 1, ok), work(2001, 10, 1, ok)},
				nine(work(3001, 20, 1, ok)), {work(3002, 40, 1, ok)},
			},
			[]limit.Sample{work(2001, 10, 1, ok), work(3002, 22, 1, ok)},
		},
		{"whatever the clock says at first",
			[][]limit.Sample{nine(work(-5000, 10, 1, ok)), {work(-4000, 10, 1, ok), work(-3999, 120, 1, ok)}},
			[]limit.Sample{work(-3999, 21, 1, ok)},
		},
		{"one drop drops it",
			[][]limit.Sample{{open}, nine(work(1500, 10, 1, ok)), {work(1500, 10, 1, dropped), work(2001, 10, 1, ok)},
				nine(work(2002, 10, 1, ok)), {work(3002, 10, 1, ok)}},
			[]limit.Sample{work(2001, 10, 1, dropped), work(3002, 10, 1, ok)},
		},
		{"so does what timed out",
			[][]limit.Sample{{open}, nine(work(1500, 10, 1, ok)), {work(2001, 10, 1, timedOut)}},
			[]limit.Sample{work(2001, 10, 1, dropped)},
		},
		{"what says nothing about load neither counts nor ends it",
			[][]limit.Sample{{open}, nine(work(1500, 90, 9, ignored)), nine(work(1600, 90, 9, left)), {work(2001, 90, 9, ignored), work(2002, 10, 1, ok), work(2003, 10, 1, ok)}},
			nil, // 2002 ends a window of one
		},
		{"fewer than ten are thrown away",
			[][]limit.Sample{
				{open, work(1500, 90, 9, dropped), work(1500, 90, 9, dropped)}, nine(work(1500, 10, 1, ok))[:6], {work(2001, 90, 9, ok)},
				nine(work(2500, 10, 1, ok)), {work(3002, 10, 1, ok)},
			},
			[]limit.Sample{work(3002, 10, 1, ok)},
		},
		{"what took less than 100 µs is not seen, a drop or not",
			[][]limit.Sample{{open, work(1500, 0.099, 9, dropped)}, nine(work(1500, 0.1, 1, ok)), {work(1500, -1, 9, ok), work(2001, 2.1, 1, ok)}},
			[]limit.Sample{work(2001, 0.3, 1, ok)},
		},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			var shown tape
			w := windowed.New(&shown)
			for i, s := range slices.Concat(tt.given...) {
				before := len(shown)
				cause, want := w.Observe(s), limit.Kept
				if len(shown) > before {
					want = limit.Slow
				}
				if cause != want || w.Limit() != 7 {
					t.Errorf("sample %d, %+v: limit %d, %v: want %v", i, s, w.Limit(), cause, want)
				}
			}
			if !slices.Equal(shown, tt.shown) {
				t.Errorf("shown %+v: want %+v", shown, tt.shown)
			}
		})
	}
}

// The samples that are shown agree with a list of all samples.
func FuzzWindowed(f *testing.F) {
	for seed := range uint64(20) {
		events := make([]byte, 1000)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(events)
		f.Add(events)
	}
	f.Fuzz(func(t *testing.T, events []byte) {
		var shown tape
		w := windowed.New(&shown)
		var list, want []limit.Sample
		var now time.Duration
		ends := time.Duration(-1)
		for ; len(events) >= 2; events = events[2:] {
			s := sample(&now, events[0], events[1])
			w.Observe(s)
			if s.Outcome == ignored || s.End-s.Start < ms(0.1) {
				continue
			}
			if list = append(list, s); s.End <= ends {
				continue
			}
			sum, most, outcome := 0.0, 0, ok
			for _, s := range list {
				sum, most = sum+(s.End-s.Start).Seconds(), max(most, s.Inflight)
				if s.Outcome == dropped {
					outcome = dropped
				}
			}
			if len(list) >= 10 {
				mean := time.Duration(sum / float64(len(list)) * 1e9)
				want = append(want, limit.Sample{Start: s.End - mean, End: s.End, Inflight: most, Outcome: outcome})
			}
			ends, list = s.End+time.Second, nil
		}
		if !slices.EqualFunc(shown, want, func(a, b limit.Sample) bool {
			off := a.Start - b.Start // the list divides with floats
			a.Start = b.Start
			return a == b && off >= -1 && off <= 1
		}) {
			t.Errorf("shown %+v: want %+v", shown, want)
		}
	})
}

// sample makes a sample of two bytes: mostly successes, about ten in a second.
func sample(now *time.Duration, x, y byte) limit.Sample {
	*now += ms(60 * float64(x&3))
	outcome := weir.Success
	switch x >> 2 & 15 {
	case 0:
		outcome = dropped
	case 1:
		outcome = ignored
	}
	return limit.Sample{Start: max(*now-ms(100*float64(y&15>>(x>>6))), 0), End: *now, Inflight: 1 + int(y>>4), Outcome: outcome}
}
