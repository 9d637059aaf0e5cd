package windowed_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/lab/windowed"
)

const (
	ok       = weir.Success
	dropped  = weir.Dropped
	ignored  = weir.Ignored
	timedOut = outcome.TimedOut
	left     = outcome.Left
)

func at(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
func ms(x float64) time.Duration   { return time.Duration(x * float64(time.Millisecond)) }

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

func TestWindowed(t *testing.T) {
	two := windowed.Config{Samples: 2}
	open := work(1000, 10, 1, ok) // the first sample is a window; the next ends after 2000
	for _, tt := range []struct {
		rule  string
		cfg   windowed.Config
		given []limit.Sample
		shown []limit.Sample
	}{
		{"a window has the average RTT and the most in flight", two,
			[]limit.Sample{open, work(1500, 10, 5, ok), work(1600, 30, 3, ok), work(2001, 20, 4, ok)},
			[]limit.Sample{work(2001, 20, 5, ok)},
		},
		{"it ends after its time, and the next begins", two,
			[]limit.Sample{
				open, work(1999, 10, 1, ok), work(2000, 10, 1, ok), work(2001, 10, 1, ok),
				work(3001, 20, 1, ok), work(3002, 40, 1, ok),
			},
			[]limit.Sample{work(2001, 10, 1, ok), work(3002, 30, 1, ok)},
		},
		{"whatever the clock says at first", windowed.Config{Samples: 1},
			[]limit.Sample{work(-5000, 10, 1, ok), work(-4000, 10, 1, ok), work(-3999, 30, 1, ok)},
			[]limit.Sample{work(-5000, 10, 1, ok), work(-3999, 20, 1, ok)},
		},
		{"one drop drops it", two,
			[]limit.Sample{open, work(1500, 10, 1, dropped), work(2001, 10, 1, ok), work(2002, 10, 1, ok), work(3002, 10, 1, ok)},
			[]limit.Sample{work(2001, 10, 1, dropped), work(3002, 10, 1, ok)},
		},
		{"so does what timed out", two,
			[]limit.Sample{open, work(1500, 10, 1, ok), work(2001, 10, 1, timedOut)},
			[]limit.Sample{work(2001, 10, 1, dropped)},
		},
		{"what says nothing about load neither counts nor ends it", two,
			[]limit.Sample{open, work(1500, 90, 9, ignored), work(1600, 90, 9, left), work(2001, 90, 9, ignored), work(2002, 10, 1, ok), work(2003, 10, 1, ok)},
			nil, // 2002 ends a window of one
		},
		{"too few are thrown away", windowed.Config{Samples: 3},
			[]limit.Sample{
				open, work(1500, 90, 9, dropped), work(2001, 90, 9, ok),
				work(2500, 10, 1, ok), work(2600, 10, 1, ok), work(3002, 10, 1, ok),
			},
			[]limit.Sample{work(3002, 10, 1, ok)},
		},
		{"by default that is fewer than ten", windowed.Config{},
			slices.Concat(
				[]limit.Sample{open}, slices.Repeat([]limit.Sample{work(1500, 10, 1, ok)}, 8), []limit.Sample{work(2001, 10, 1, ok)},
				slices.Repeat([]limit.Sample{work(2500, 10, 1, ok)}, 9), []limit.Sample{work(3002, 10, 1, ok)}),
			[]limit.Sample{work(3002, 10, 1, ok)},
		},
		{"what took less than MinRTT is not seen, a drop or not", two,
			[]limit.Sample{open, work(1500, 0.099, 9, dropped), work(1500, 0.1, 1, ok), work(1500, -1, 9, ok), work(2001, 0.3, 1, ok)},
			[]limit.Sample{work(2001, 0.2, 1, ok)},
		},
		{"unless all is, but what took less than no time", windowed.Config{Samples: 2, MinRTT: -at(1)},
			[]limit.Sample{open, work(1500, 0, 9, dropped), work(1500, -1, 99, ok), work(2001, 20, 1, ok)},
			[]limit.Sample{work(2001, 10, 9, dropped)},
		},
		{"slow work has longer windows, of twice its least RTT", windowed.Config{Samples: 1, MaxWindow: 9 * time.Second},
			[]limit.Sample{
				work(1000, 900, 1, ok),                          // until 2800
				work(2800, 3000, 1, ok), work(2801, 700, 1, ok), // until 4201
				work(4201, 3000, 1, ok), work(4202, 3000, 1, ok), // until 10202
				work(10202, 9000, 1, ok), work(10203, 9000, 1, ok), // until 19203: at most nine seconds
				work(19203, 9000, 1, ok), work(19204, 9000, 1, ok),
			},
			[]limit.Sample{
				work(1000, 900, 1, ok), work(2801, 1850, 1, ok), work(4202, 3000, 1, ok),
				work(10203, 9000, 1, ok), work(19204, 9000, 1, ok),
			},
		},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			var shown tape
			w, err := windowed.New(tt.cfg, &shown)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range tt.given {
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

func TestWindowedValidate(t *testing.T) {
	for _, tt := range []struct {
		cfg  windowed.Config
		want string
	}{
		{windowed.Config{Window: -1}, "Window = -1ns: must be >= 0"},
		{windowed.Config{MaxWindow: time.Millisecond}, "MaxWindow = 1ms: must be >= Window (1s)"},
		{windowed.Config{Samples: -1}, "Samples = -1: must be >= 1"},
	} {
		if _, err := windowed.New(tt.cfg, limit.Fixed(1)); err == nil || !strings.HasPrefix(err.Error(), "windowed: "+tt.want) {
			t.Errorf("%+v: %v: want %q", tt.cfg, err, tt.want)
		}
	}
	if _, err := windowed.New(windowed.Config{}, nil); err == nil {
		t.Error("a window of nothing")
	}
}

// The samples that are shown agree with a list of all samples.
func FuzzWindowed(f *testing.F) {
	for seed := range uint64(20) {
		events := make([]byte, 1000)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(events)
		f.Add(events, uint8(seed))
	}
	f.Fuzz(func(t *testing.T, events []byte, size uint8) {
		cfg := windowed.Config{Window: at(3), MaxWindow: at(9), Samples: 1 + int(size)%8, MinRTT: at(1)}
		var shown tape
		w, err := windowed.New(cfg, &shown)
		if err != nil {
			t.Fatal(err)
		}
		var list, want []limit.Sample
		var now time.Duration
		ends := time.Duration(-1)
		for ; len(events) >= 2; events = events[2:] {
			s := sample(&now, events[0], events[1])
			w.Observe(s)
			if s.Outcome == ignored || s.End-s.Start < at(1) {
				continue
			}
			if list = append(list, s); s.End <= ends {
				continue
			}
			sum, most, outcome := 0.0, 0, ok
			least := at(1000)
			for _, s := range list {
				sum, most, least = sum+(s.End-s.Start).Seconds(), max(most, s.Inflight), min(least, s.End-s.Start)
				if s.Outcome == dropped {
					outcome = dropped
				}
			}
			if len(list) >= cfg.Samples {
				mean := time.Duration(sum / float64(len(list)) * 1e9)
				want = append(want, limit.Sample{Start: s.End - mean, End: s.End, Inflight: most, Outcome: outcome})
			}
			ends, list = s.End+min(max(2*least, at(3)), at(9)), nil
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

// sample makes a sample of two bytes: mostly successes, of work that mostly
// started after the last sample ended.
func sample(now *time.Duration, x, y byte) limit.Sample {
	*now += at(int(x & 3))
	outcome := weir.Success
	switch x >> 2 & 15 {
	case 0:
		outcome = dropped
	case 1:
		outcome = ignored
	}
	return limit.Sample{Start: max(*now-at(int(y&15)>>(x>>6)), 0), End: *now, Inflight: 1 + int(y>>4), Outcome: outcome}
}
