package sla

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

// The upstream of the tests.
var (
	workers = Tuned().Concurrency
	mean    = Tuned().Work.Mean
	timeout = Tuned().Timeout
)

func upstream(abandoned bool, slow Slowdown) *Upstream {
	return Config{Setting: Tuned(), Abandoned: abandoned, Seed: 1}.upstream(slow)
}

// An answer is how a call ended, and when.
type answer struct {
	at  time.Duration
	err error
}

// call makes n calls at once, and returns their answers in order of time.
func call(u *Upstream, n int) []answer {
	all := make(chan answer, n)
	for range n {
		go func() {
			err := u.Call(context.Background())
			all <- answer{time.Since(u.epoch), err}
		}()
		synctest.Wait() // so that they come in order
	}
	answers := make([]answer, n)
	for i := range answers {
		answers[i] = <-all
	}
	slices.SortFunc(answers, func(a, b answer) int { return int(a.at - b.at) })
	return answers
}

// Ten calls are processed at once, the others begin when a worker is free, and calls
// without a worker in time end at their time-out.
func TestUpstreamQueues(t *testing.T) {
	for _, abandoned := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			u := upstream(abandoned, Slowdown{})
			answers := call(u, 300)
			for i, a := range answers {
				turn := time.Duration(i/workers) * mean
				switch {
				case a.err != nil && (a.err != ErrTimeout || a.at != timeout || turn < timeout-2*mean):
					t.Errorf("answer %d: %+v: want a time-out of those who come last", i, a)
				case a.err == nil && (a.at < turn/2 || a.at > turn+3*mean || a.at > timeout):
					t.Errorf("answer %d at %v: want about %v", i, a.at, turn)
				}
			}
			done := 0
			for _, a := range answers {
				if a.err == nil {
					done++
				}
			}
			if want := int(timeout/mean) * workers; done < want-10 || done > want+3 {
				t.Errorf("%d done in half a second: want about %d", done, want)
			}
		})
	}
}

// An upstream that drops abandoned calls is free at once; one that continues them is
// not.
func TestUpstreamAbandoned(t *testing.T) {
	for abandoned, want := range map[bool]time.Duration{false: 50 * ms, true: 400 * ms} {
		synctest.Test(t, func(t *testing.T) {
			u := upstream(abandoned, Slowdown{})
			call(u, 400) // 920 ms of work
			a := call(u, 1)
			if took := a[0].at - timeout; a[0].err != nil || took < want-40*ms || took > want+40*ms {
				t.Errorf("abandoned %v: %v, after %v: want it done after about %v", abandoned, a[0].err, took, want)
			}
		})
	}
}

// Work that begins in the slow-down takes twice as long.
func TestUpstreamSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := upstream(false, Slowdown{time.Second, 2 * time.Second})
		for _, want := range []time.Duration{mean, 2 * mean, mean} {
			sum := time.Duration(0)
			began := time.Since(u.epoch)
			for _, a := range call(u, workers) {
				sum += a.at - began
			}
			if took := sum / time.Duration(workers); took < want*9/10 || took > want*11/10 {
				t.Errorf("%v on average: want about %v", took, want)
			}
			time.Sleep(time.Second - time.Since(u.epoch)%time.Second)
		}
	})
}

// Call returns at once when its context ends.
func TestUpstreamCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := upstream(false, Slowdown{})
		ctx, leave := context.WithTimeout(t.Context(), ms)
		defer leave()
		if err := u.Call(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(u.epoch) != ms {
			t.Errorf("%v after %v: want the context's own after 1ms", err, time.Since(u.epoch))
		}
	})
}
