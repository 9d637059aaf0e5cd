package main

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bohde/codel"

	"github.com/weir-go/weir"
	dropin "github.com/weir-go/weir/codel"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// These tests are the differences that docs/codel.md lists. Each plays the same
// events on the peer, on the drop-in and on inflight, in virtual time: one caller
// is admitted at a time, a hundred may wait, and the target is 5 ms.

// A side is a lock for one caller, with priorities.
type side interface {
	acquire(ctx context.Context, priority int) error
	release()
}

// plain is a Lock of the peer or of the drop-in.
type plain struct {
	lock interface {
		Acquire(ctx context.Context) error
		Release()
	}
}

func (p plain) acquire(ctx context.Context, _ int) error { return p.lock.Acquire(ctx) }
func (p plain) release()                                 { p.lock.Release() }

// prioritized is a PLock of the peer or of the drop-in.
type prioritized struct {
	lock interface {
		Acquire(ctx context.Context, priority int) error
		Release()
	}
}

func (p prioritized) acquire(ctx context.Context, priority int) error {
	return p.lock.Acquire(ctx, priority)
}
func (p prioritized) release() { p.lock.Release() }

// An inflightSide holds one permit at a time.
type inflightSide struct {
	lim    *inflight.Limiter
	permit weir.Permit
}

func (o *inflightSide) acquire(ctx context.Context, priority int) error {
	p, err := o.lim.Acquire(weir.WithClass(ctx, weir.Class{Priority: weir.Priority(priority)}), 1)
	if err == nil {
		o.permit = p.Move()
	}
	return err
}
func (o *inflightSide) release() { o.permit.Release(weir.Success) }

var options = codel.Options{MaxPending: 100, MaxOutstanding: 1, TargetLatency: target}

func lock() side  { return plain{codel.New(options)} }
func plock() side { return prioritized{codel.NewPriority(options)} }

// ours are the sides without and with priorities.
var (
	ourLocks  = map[string]func() side{"weir/codel": dropInLock, "inflight": limiter}
	ourPLocks = map[string]func() side{"weir/codel": dropInPLock, "inflight": limiter}
)

func dropInLock() side  { return plain{dropin.New(dropin.Options(options))} }
func dropInPLock() side { return prioritized{dropin.NewPriority(dropin.Options(options))} }

func limiter() side {
	lim, err := inflight.New(inflight.Config{
		Algorithm: limit.Fixed(1), Queue: 100, MaxWait: -1,
		Discipline: inflight.CoDel, Target: target, Interval: interval,
	})
	if err != nil {
		panic(err)
	}
	return &inflightSide{lim: lim}
}

// A story records the callers that were admitted and rejected, by name, in order.
type story struct {
	mu       sync.Mutex // guards in and out
	side     side
	in, out  []int
	quitters []context.CancelFunc
}

// tell plays a story in virtual time. Callers that wait at the end leave.
func tell(t *testing.T, on func() side, play func(s *story)) *story {
	t.Helper()
	told := &story{}
	synctest.Test(t, func(t *testing.T) {
		told.side = on()
		play(told)
		in, out := told.in, told.out
		for _, quit := range told.quitters {
			quit()
		}
		synctest.Wait()
		told.in, told.out = in, out
	})
	return told
}

// arrive starts a caller, and returns a function that makes it leave.
func (s *story) arrive(name, priority int) context.CancelFunc {
	ctx, quit := context.WithCancel(context.Background())
	s.quitters = append(s.quitters, quit)
	go func() {
		err := s.side.acquire(ctx, priority)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.out = append(s.out, name)
		} else {
			s.in = append(s.in, name)
		}
	}()
	synctest.Wait()
	return quit
}

func (s *story) after(d time.Duration) *story { time.Sleep(d); synctest.Wait(); return s }
func (s *story) leave()                       { s.side.release(); synctest.Wait() }

func TestOneWhoLeavesCostsTheQueue(t *testing.T) {
	impatient := func(s *story) {
		s.arrive(0, 0)
		for i := range 50 {
			s.after(time.Microsecond).arrive(1+i, 0)
		}
		quit := s.arrive(99, 0)
		s.after(10 * unit).leave() // above the target: the clock of the interval starts
		s.after(5 * unit)
		quit()
		s.after(6 * unit).leave() // an interval later
	}
	if peer := tell(t, lock, impatient); len(peer.out) != 1+48 {
		t.Errorf("peer: %d refused: want, beside the one that left, all but one", len(peer.out))
	}
	for name, on := range ourLocks {
		if weir := tell(t, on, impatient); len(weir.out) != 1+1 {
			t.Errorf("%s: %d refused: want, beside the one that left, one", name, len(weir.out))
		}
	}
}

func TestOneWhoFindsItFullCostsTheQueue(t *testing.T) {
	flood := func(s *story) {
		s.arrive(0, 0)
		for i := range options.MaxPending {
			s.after(time.Microsecond).arrive(1+i, 0)
		}
		s.after(10 * unit).leave()
		s.arrive(998, 0)
		s.arrive(999, 0)
		s.after(11 * unit).leave()
	}
	if peer := tell(t, lock, flood); len(peer.out) != 1+99 {
		t.Errorf("peer: %d refused: want, beside the one that found it full, all but one", len(peer.out))
	}
	for name, on := range ourLocks {
		if weir := tell(t, on, flood); len(weir.out) != 1+1 {
			t.Errorf("%s: %d refused: want, beside the one that found it full, one", name, len(weir.out))
		}
	}
}

func TestWorkThatHangs(t *testing.T) {
	hang := func(s *story) {
		s.arrive(0, 0)
		for i := range 10 {
			s.after(time.Microsecond).arrive(1+i, 0)
		}
		s.after(time.Hour)
	}
	if peer := tell(t, lock, hang); len(peer.out) != 0 {
		t.Errorf("peer: %d refused: want none", len(peer.out))
	}
	for name, on := range ourLocks {
		if weir := tell(t, on, hang); len(weir.out) != 8 {
			t.Errorf("%s: %d refused: want all but the last two", name, len(weir.out))
		}
	}
}

func TestEqualsInOrder(t *testing.T) {
	equals := func(s *story) {
		s.arrive(0, 0)
		for i := range 5 {
			s.after(time.Microsecond).arrive(1+i, 0)
		}
		for range 5 {
			s.leave()
		}
	}
	inOrder := []int{0, 1, 2, 3, 4, 5}
	if peer := tell(t, plock, equals); slices.Equal(peer.in, inOrder) {
		t.Errorf("peer: let in %v: want another order", peer.in)
	}
	for name, on := range ourPLocks {
		if weir := tell(t, on, equals); !slices.Equal(weir.in, inOrder) {
			t.Errorf("%s: let in %v: want %v", name, weir.in, inOrder)
		}
	}
}

func TestTheLessImportantAreTold(t *testing.T) {
	busy := func(s *story) {
		s.arrive(0, 1)
		for i := range 20 {
			s.after(time.Microsecond).arrive(1+i, 0)
		}
		for i := range 500 { // the important take all there is, without waiting long
			s.arrive(100+i, 1)
			s.after(2 * unit).leave()
		}
	}
	if peer := tell(t, plock, busy); len(peer.out) != 0 {
		t.Errorf("peer: %d refused: want none", len(peer.out))
	}
	for name, on := range ourPLocks {
		if weir := tell(t, on, busy); len(weir.out) != 18 {
			t.Errorf("%s: %d refused: want all but the last two", name, len(weir.out))
		}
	}
}

// This they have in common.
func TestTheImportantTakeAPlace(t *testing.T) {
	full := func(s *story) {
		for i := range 1 + options.MaxPending {
			s.after(time.Microsecond).arrive(i, 0)
		}
		s.arrive(998, -1)
		s.arrive(999, 1)
		s.leave()
	}
	for _, on := range []func() side{plock, dropInPLock, limiter} {
		told := tell(t, on, full)
		if len(told.out) != 2 || told.out[0] != 998 || !slices.Equal(told.in, []int{0, 999}) {
			t.Errorf("let in %v, refused %v: want 0 and 999; 998 and whoever made place", told.in, told.out)
		}
	}
}

func TestContextThatHasEnded(t *testing.T) {
	gone := func(s *story) {
		ctx, quit := context.WithCancel(context.Background())
		quit()
		if err := s.side.acquire(ctx, 0); err != nil {
			s.out = append(s.out, 0)
		}
	}
	if peer := tell(t, lock, gone); len(peer.out) != 0 {
		t.Error("peer: want it let in")
	}
	if weir := tell(t, dropInLock, gone); len(weir.out) != 0 {
		t.Error("weir/codel: want it let in")
	}
	if weir := tell(t, limiter, gone); len(weir.out) != 1 {
		t.Error("inflight: want the context's error")
	}
}
