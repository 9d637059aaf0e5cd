package waitq_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/waitq"
)

// A door lets one call through every interval, from the zeroth on.
type door struct {
	epoch    time.Time
	interval time.Duration

	mu     sync.Mutex // guards what follows
	queue  []waitq.Call[time.Duration]
	timer  waitq.Timer
	next   time.Duration
	undone []time.Duration
}

func newDoor(interval time.Duration) *door {
	d := &door{epoch: time.Now(), interval: interval}
	d.timer.Wake = d.wake
	return d
}

func (d *door) now() time.Duration { return time.Since(d.epoch) }

func (d *door) serveLocked() {
	now := d.now()
	for len(d.queue) > 0 && d.next <= now {
		d.queue[0].Answer(now)
		d.queue = d.queue[1:]
		d.next = now + d.interval
	}
	if len(d.queue) == 0 {
		d.timer.Stop()
	} else {
		d.timer.Arm(now, d.next)
	}
}

func (d *door) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.Fired()
	d.serveLocked()
}

func (d *door) undo(at time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undone = append(d.undone, at)
	d.next -= d.interval
	d.serveLocked()
}

func (d *door) leave(c waitq.Call[time.Duration], expired bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if expired {
		d.serveLocked()
	}
	i := slices.Index(d.queue, c)
	if i < 0 {
		return false
	}
	d.queue = slices.Delete(d.queue, i, i+1)
	d.serveLocked()
	return true
}

func (d *door) join() waitq.Call[time.Duration] {
	c := waitq.NewCall[time.Duration]()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = append(d.queue, c)
	return c
}

func (d *door) await(ctx context.Context, c waitq.Call[time.Duration], maxWait time.Duration) (time.Duration, error) {
	return c.Await(ctx, maxWait, func(expired bool) bool { return d.leave(c, expired) }, d.undo)
}

func (d *door) wait(ctx context.Context, maxWait time.Duration) (time.Duration, error) {
	c := d.join()
	d.mu.Lock()
	d.serveLocked()
	d.mu.Unlock()
	return d.await(ctx, c, maxWait)
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(time.Second)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				if at, err := d.wait(t.Context(), 0); err != nil || at != time.Duration(i)*time.Second {
					t.Errorf("call %d: %v at %v", i, err, at)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
	})
}

// A call that leaves brings the calls behind it forward, and gets its own error.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(time.Second)
		_, _ = d.wait(t.Context(), 0)
		cancelled, cancel := context.WithCancel(t.Context())
		late, stop := context.WithTimeout(t.Context(), time.Second/2)
		defer stop()
		var wg sync.WaitGroup
		ends := []struct {
			ctx     context.Context
			maxWait time.Duration
			want    error
			at      time.Duration
		}{
			{cancelled, 0, context.Canceled, time.Second / 4},
			{late, 0, context.DeadlineExceeded, time.Second / 2},
			{t.Context(), 3 * time.Second / 4, waitq.ErrOverdue, 3 * time.Second / 4},
			{t.Context(), 0, nil, time.Second},
		}
		for i, e := range ends {
			wg.Go(func() {
				if _, err := d.wait(e.ctx, e.maxWait); err != e.want || d.now() != e.at {
					t.Errorf("call %d: %v at %v: want %v at %v", i, err, d.now(), e.want, e.at)
				}
			})
			synctest.Wait()
		}
		time.Sleep(time.Second / 4)
		cancel()
		wg.Wait()
	})
}

// A turn that comes at the very end of a wait counts, and so does one that the
// timer of the queue would be late to serve.
func TestTurnAtTheEnd(t *testing.T) {
	for _, maxWait := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d := newDoor(time.Second)
			_, _ = d.wait(t.Context(), 0)
			ctx, stop := context.WithTimeout(t.Context(), time.Second+maxWait)
			defer stop()
			w := d.join() // no timer is armed
			if at, err := d.await(ctx, w, maxWait); err != nil || at != time.Second {
				t.Errorf("%v at %v: want it answered at 1s", err, at)
			}
		})
	}
}

// An answer to a call that was cancelled goes to undo.
func TestUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		undone, served := 0, 0
		for range 100 { // of two events at once, select takes either
			w := waitq.NewCall[int]()
			w.Answer(7)
			switch a, err := w.Await(ctx, 0, func(bool) bool { return false }, func(int) { undone++ }); {
			case err == nil && a == 7:
				served++
			case err != context.Canceled:
				t.Fatalf("%v, %v", a, err)
			}
		}
		if undone == 0 || served == 0 || undone+served != 100 {
			t.Errorf("%d undone, %d served: want 100 together", undone, served)
		}
	})
}

// In a storm of calls that leave at all times, every call ends, in one way, and
// the door is never too late for the first.
func TestStorm(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 1))
			d := newDoor(time.Millisecond)
			var wg sync.WaitGroup
			var served, left atomic.Int64
			for range 500 {
				time.Sleep(time.Duration(chance.Int64N(int64(2 * time.Millisecond))))
				patience, quits := time.Duration(chance.Int64N(int64(20*time.Millisecond))), chance.IntN(2) == 0
				wg.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					maxWait := patience
					if quits {
						maxWait = 0
						time.AfterFunc(patience, cancel)
					}
					switch _, err := d.wait(ctx, maxWait); {
					case err == nil:
						served.Add(1)
					case errors.Is(err, context.Canceled) == quits:
						left.Add(1)
					default:
						t.Errorf("seed %d: %v", seed, err)
					}
				})
			}
			wg.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			if len(d.queue) != 0 || served.Load()+left.Load() != 500 || served.Load() == 0 {
				t.Errorf("seed %d: %d wait, %d served, %d left", seed, len(d.queue), served.Load(), left.Load())
			}
		})
	}
}

// A timer fires no later than the earliest instant that was asked for, and an
// early one is not set back.
func TestTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var timer waitq.Timer
		var woken []time.Duration
		began := time.Now()
		timer.Wake = func() {
			mu.Lock()
			defer mu.Unlock()
			timer.Fired()
			woken = append(woken, time.Since(began))
		}
		arm := func(at time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			timer.Arm(time.Since(began), at)
		}
		arm(3 * time.Second)
		arm(5 * time.Second)
		arm(2 * time.Second)
		arm(weir.Never)
		time.Sleep(4 * time.Second)
		arm(7 * time.Second)
		mu.Lock()
		timer.Stop()
		mu.Unlock()
		time.Sleep(4 * time.Second)
		arm(9 * time.Second)
		time.Sleep(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if want := []time.Duration{2 * time.Second, 9 * time.Second}; !slices.Equal(woken, want) {
			t.Errorf("woken at %v: want %v", woken, want)
		}
	})
}

func TestWithin(t *testing.T) {
	epoch := time.Now()
	soon, cancel := context.WithDeadline(t.Context(), epoch.Add(5*time.Second))
	defer cancel()
	for _, tt := range []struct {
		rule    string
		ctx     context.Context
		maxWait time.Duration
		at      time.Duration
		why     weir.Reason
	}{
		{"without a bound, as long as it takes", t.Context(), 0, weir.Never, weir.OverRate},
		{"the context alone", soon, 0, 5 * time.Second, weir.TooLate},
		{"the sooner of both", soon, 2 * time.Second, 3 * time.Second, weir.OverRate},
		{"the context is sooner", soon, 10 * time.Second, 5 * time.Second, weir.TooLate},
		{"negative: no wait", soon, -1, time.Second, weir.OverRate},
		{"the longest wait does not overflow", t.Context(), weir.Never, weir.Never, weir.OverRate},
	} {
		if at, why := waitq.Within(tt.ctx, epoch, time.Second, tt.maxWait); at != tt.at || why != tt.why {
			t.Errorf("%s: %v, %v: want %v, %v", tt.rule, at, why, tt.at, tt.why)
		}
	}
}

func TestBound(t *testing.T) {
	for queue, want := range map[int]int{0: waitq.DefaultQueue, -1: 0, 7: 7} {
		if got := waitq.Bound(queue); got != want {
			t.Errorf("Bound(%d) = %d: want %d", queue, got, want)
		}
	}
}
