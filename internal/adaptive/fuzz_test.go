package adaptive_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/adaptive"
)

// An oracle stores every event, and counts them all each time.
type oracle struct {
	width time.Duration // of a 50th of the window
	seen  [2][]time.Duration
	now   time.Duration
}

// see counts an event: a request, or something else.
func (o *oracle) see(what int, now time.Duration) {
	o.now = max(o.now, now)
	o.seen[what] = append(o.seen[what], o.now)
}

// count returns how many events count at now.
func (o *oracle) count(what int, now time.Duration) (n int) {
	o.now = max(o.now, now)
	for _, at := range o.seen[what] {
		if o.slot(o.now)-o.slot(at) < 50 {
			n++
		}
	}
	return n
}

// slot counts from long before everything.
func (o *oracle) slot(at time.Duration) int { return int((at - early*o.width) / o.width) }

const early = -1 << 30

const (
	request = iota
	other
)

func seeds(f *testing.F) { // so that each run of the tests is a little fuzzing
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		events := make([]byte, 1500)
		for i := range events {
			events[i] = byte(rng.Uint32())
		}
		f.Add(events, uint8(rng.Uint32()), uint8(rng.Uint32()), uint8(rng.Uint32()))
	}
}

// step moves the time as a byte says: mostly not, sometimes on, by hardly
// anything or by a lot, sometimes back.
func step(now *time.Duration, x byte) {
	switch d := time.Duration(x >> 3); x & 7 {
	case 0:
		*now += d
	case 1:
		*now += d * 40
	case 2:
		*now -= d
	}
}

// start is before the epoch, or after it.
func start(x uint8) time.Duration { return 37 * (time.Duration(x) - 128) }

// In any sequence of events, a request is refused exactly if the formula says so for
// the events in the window, computed in integers.
func FuzzThrottle(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, events []byte, k, maxp, grace uint8) {
		events = events[:min(len(events), 1500)] // the oracle is slow
		k8, p8, free := 8+int(k)%24, 1+int(maxp)%8, 1+int(grace)%16
		now := start(k)
		o := oracle{width: 10, now: early}
		a := throttle(t, adaptive.Config{
			K: float64(k8) / 8, Window: 50*o.width - 3, MaxP: float64(p8) / 8, Grace: free,
		})
		sent, throttled := uint64(0), uint64(0)
		for ; len(events) >= 3; events = events[3:] {
			step(&now, events[0])
			switch events[1] % 6 {
			case 0, 1:
				a.Accept(now)
				o.see(request, now)
				o.see(other, now)
				continue
			case 2, 3:
				a.Drop(now)
				o.see(request, now)
				continue
			}
			// u < (n - free - K·m) / (n + 1), and u < MaxP, where u is in 256ths
			n, m, u := o.count(request, now), o.count(other, now), int(events[2])
			refuse := u*8*(n+1) < 256*(8*(n-free)-k8*m) && u*8 < 256*p8
			if got := a.Request(now, float64(u)/256); got == refuse {
				t.Fatalf("at %d: %d requests, %d accepts, u = %d/256: sent: %v", now, n, m, u, got)
			}
			if refuse {
				o.see(request, now)
				throttled++
			} else {
				sent++
			}
			st := a.Stats(now)
			if n, m := o.count(request, now), o.count(other, now); st.Requests != n || st.Accepts != m {
				t.Fatalf("at %d: %+v: want %d requests, %d accepts", now, st, n, m)
			}
			if st.P < 0 || st.P >= 1 || st.P > float64(p8)/8 || st.Sent != sent || st.Throttled != throttled {
				t.Fatalf("at %d: %+v: want %d sent, %d throttled", now, st, sent, throttled)
			}
		}
	})
}

// In any sequence of events, a retry is allowed exactly if the requests and retries
// in the window leave room for it.
func FuzzBudget(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, events []byte, ratio, floor, at uint8) {
		events = events[:min(len(events), 1500)] // the oracle is slow
		r8, fl := 1+int(ratio)%8, int(floor)%6
		now := start(at)
		o := oracle{width: time.Second, now: early}
		b := budget(t, adaptive.BudgetConfig{
			Ratio: float64(r8) / 8, MinPerSecond: float64(fl) / 64, Window: 50 * time.Second,
		})
		if fl == 0 {
			fl, b = -1, budget(t, adaptive.BudgetConfig{Ratio: float64(r8) / 8, MinPerSecond: -1, Window: 50 * time.Second})
		}
		for ; len(events) >= 3; events = events[3:] {
			step(&now, events[0])
			now += time.Duration(events[2]&7) * time.Second / 2
			if events[1]%3 != 0 {
				b.Request(now)
				o.see(request, now)
				continue
			}
			n, m := o.count(request, now), o.count(other, now)
			ok := 64*(m+1) <= 8*r8*n+50*max(fl, 0)
			if got := b.Retry(now); got != ok {
				t.Fatalf("at %v: %d requests, %d retries: another: %v", now, n, m, got)
			}
			if ok {
				o.see(other, now)
			}
			if st := b.Stats(now); st.Requests != n || st.Retries != o.count(other, now) || ok && st.Retries > st.Allowed {
				t.Fatalf("at %v: %+v: want %d requests, %d retries", now, st, n, o.count(other, now))
			}
		}
	})
}
