package flight_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/flight"
)

// A storm is many callers at random. Its instants are few, so that much happens
// at each of them, in whatever order the scheduler likes.
type storm struct {
	t     *testing.T
	group flight.Group[int, *record]
	calls atomic.Int64
	nap   func(instants int, heeds <-chan struct{})

	bubble bool

	runs    [8]atomic.Int64 // of each key
	running [8]atomic.Int32
	told    atomic.Int64 // callers that got the result of the run they began
}

// free is the key that is forgotten now and then.
const free = 0

// A record is a run, and its value, error or panic.
type record struct {
	key        int
	nth, owner int64 // of the key's runs; the call that began it
	begin, end time.Time
	abandoned  bool
}

func (r *record) Error() string { return fmt.Sprintf("%+v", *r) }

// A call is the request of one caller, and when it began.
type call struct {
	id    int64
	key   int
	after int64 // runs of key that had begun
	begin time.Time
	ctx   context.Context
}

// work is the function that a call brings: deaf or not, it ends in any way.
func (st *storm) work(rnd *rand.Rand, c call) func(context.Context) (*record, error) {
	takes, deaf, how := instants(rnd), rnd.IntN(3) == 0, rnd.IntN(16)
	return func(ctx context.Context) (*record, error) {
		r := &record{key: c.key, nth: st.runs[c.key].Add(1), owner: c.id, begin: time.Now()}
		if n := st.running[c.key].Add(1); n != 1 && c.key != free {
			st.t.Errorf("%d runs of key %d at a time", n, c.key)
		}
		defer func() {
			r.end = time.Now()
			st.running[c.key].Add(-1)
		}()
		heeds := ctx.Done()
		if deaf {
			heeds = nil
		}
		st.nap(takes, heeds)
		switch r.abandoned = ctx.Err() == context.Canceled; {
		case ctx.Err() != nil && !deaf, how < 2:
			return nil, r
		case how < 4:
			panic(r)
		case how == 4:
			runtime.Goexit()
		}
		return r, nil
	}
}

func instants(rnd *rand.Rand) int { return rnd.IntN(4) }

// sleep passes time in a bubble.
func sleep(instants int, heeds <-chan struct{}) {
	select {
	case <-time.After(time.Duration(instants) * s):
	case <-heeds:
	}
}

// yield passes turns of the scheduler.
func yield(instants int, heeds <-chan struct{}) {
	for range instants * 20 {
		select {
		case <-heeds:
			return
		default:
			runtime.Gosched()
		}
	}
}

// check sees that a caller got its own context's error, or what became of a run
// that overlapped its call, and was not abandoned by others.
func (st *storm) check(c call, res flight.Result[*record]) {
	if res.Err == flight.ErrGoexit {
		return // of any run
	}
	if c.ctx.Err() != nil && res.Err == c.ctx.Err() {
		if res.Val != nil || res.Coalesced {
			st.t.Errorf("%+v, %+v: want nothing but the context's error", c, res)
		}
		return
	}
	r := res.Val
	if res.Err != nil && (r != nil || !errors.As(res.Err, &r)) || r == nil {
		st.t.Errorf("%+v, %+v: want a result, or the caller's own context's error", c, res)
		return
	}
	// A run can be joined until the next one of its key begins. In a bubble, no
	// time passes between the end of its function and its own.
	if r.key != c.key || st.bubble && r.end.Before(c.begin) || r.nth < c.after && c.key != free {
		st.t.Errorf("%+v got %+v: want a run that overlapped it", c, r)
	}
	if r.abandoned && res.Err != nil {
		st.t.Errorf("%+v got %+v: want no cancellation that others asked for", c, r)
	}
	if res.Coalesced != (r.owner != c.id) {
		st.t.Errorf("%+v got %+v, coalesced: %v", c, r, res.Coalesced)
	}
	if !res.Coalesced {
		st.told.Add(1)
	}
}

// caller makes calls, of all kinds.
func (st *storm) caller(rnd *rand.Rand, calls int) {
	for range calls {
		st.nap(instants(rnd), nil)
		key := rnd.IntN(len(st.running))
		if key == free && rnd.IntN(4) == 0 {
			st.group.Forget(key)
		}
		ctx, cancel := context.WithCancel(context.Background())
		switch rnd.IntN(3) {
		case 0:
			ctx = context.Background()
		case 1:
			d := instants(rnd)
			go func() { st.nap(d, nil); cancel() }()
		}
		c := call{st.calls.Add(1), key, st.runs[key].Load(), time.Now(), ctx}
		work := st.work(rnd, c)
		if rnd.IntN(4) == 0 {
			ch := flight.Begin(&st.group, ctx, key, work)
			if rnd.IntN(4) != 0 {
				st.check(c, <-ch)
			}
		} else {
			st.ask(c, work)
		}
		cancel()
	}
}

// ask calls Do on a goroutine that may end.
func (st *storm) ask(c call, work func(context.Context) (*record, error)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, coalesced, err := st.group.Do(c.ctx, c.key, work)
		st.check(c, flight.Result[*record]{Val: v, Coalesced: coalesced, Err: err})
	}()
	<-done
}

// Whatever callers do, a key has one run at a time, each caller gets the result of
// a run that was in progress during its call, or its own context's error, and at
// the end there is no run left and, by the bubble, no goroutine.
//
// This storm is not in a bubble: the number of its timers upsets the race
// detector of Go 1.26 (a failed CHECK in tsan_rtl.cpp, without this package,
// too). Those of norace_test.go are.
func TestStorm(t *testing.T) { rage(&storm{t: t, nap: yield}) }

func rage(st *storm) {
	t := st.t
	const callers, calls = 64, 100
	var wg sync.WaitGroup
	for id := range callers {
		wg.Go(func() { st.caller(rand.New(rand.NewPCG(uint64(id), 1)), calls) })
	}
	wg.Wait()
	for st.group.Stats().Inflight != 0 { // abandoned runs
		st.nap(1, nil)
	}
	got, runs := st.group.Stats(), int64(0)
	for i := range st.runs {
		runs += st.runs[i].Load()
	}
	if got.Inflight != 0 || int64(got.Runs) != runs || flight.Listed(&st.group) != 0 {
		t.Errorf("%+v, %d listed: want %d runs, and none left", got, flight.Listed(&st.group), runs)
	}
	if all := got.Runs + got.Coalesced; all > callers*calls || int64(got.Runs) < st.told.Load() {
		t.Errorf("%+v: that is too much for %d calls", got, callers*calls)
	}
	if got.Coalesced == 0 || got.Abandoned == 0 || got.Panics == 0 {
		t.Errorf("%+v: want a storm", got)
	}
}

// The same without work that takes time, so that the order of the calls decides.
func TestRush(t *testing.T) {
	var g flight.Group[int, int64]
	var began, running atomic.Int64
	fn := func(ctx context.Context) (int64, error) {
		n := began.Add(1)
		if running.Add(1) != 1 {
			t.Error("two runs at a time")
		}
		runtime.Gosched()
		running.Add(-1)
		return n, ctx.Err()
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 2000 {
				ctx, cancel := context.WithCancel(context.Background())
				if i%4 == 0 {
					ctx = context.Background()
				} else if i%4 != 1 {
					go cancel()
				}
				before := began.Load()
				v, coalesced, err := g.Do(ctx, 0, fn)
				switch {
				case err == nil && v < before || err == nil && !coalesced && v == before:
					t.Errorf("run %d: want none that ended before the %dth", v, before)
				case err != nil && (v != 0 && !errors.Is(err, context.Canceled) || ctx.Err() == nil):
					t.Errorf("%v, %v: want no cancellation but one's own", v, err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}
