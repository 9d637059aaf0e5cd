package flight_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/flight"
)

const s = time.Second

// A work is the function of the n-th run of a script. Its value is n.
type work struct {
	takes  time.Duration
	deaf   bool // it does not heed its context
	fails  error
	panics any
	exits  bool // by runtime.Goexit
}

// A caller comes at an instant, and waits for at most so long; if zero, for
// ever. It got what is in want, and when.
type caller struct {
	at, patience time.Duration
	want         string
}

// A script is one key's story, from the second 0 on.
type script struct {
	rule    string
	timeout time.Duration
	works   []work // the last one again and again
	forget  time.Duration
	callers []caller
	runs    []string // which, from when to when, and how they ended
	stats   flight.Stats
}

// A stage plays a script.
type stage struct {
	t     *testing.T
	group flight.Group[string, int]
	began time.Time

	mu     sync.Mutex
	works  []work
	runs   []string
	atWork int
}

func (st *stage) now() time.Duration { return time.Since(st.began) }

// run is the function that all callers bring.
func (st *stage) run(ctx context.Context) (v int, err error) {
	st.mu.Lock()
	n := len(st.runs) + 1
	st.runs = append(st.runs, "")
	st.atWork++
	w, from := st.works[min(n, len(st.works))-1], st.now()
	st.mu.Unlock()
	defer func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.atWork--
		how := "ok"
		if ctx.Err() != nil {
			how = ctx.Err().Error()
		}
		st.runs[n-1] = fmt.Sprintf("%d: %v to %v, %s", n, from, st.now(), how)
	}()
	heeds := ctx.Done()
	if w.deaf {
		heeds = nil
	}
	select {
	case <-time.After(w.takes):
	case <-heeds:
		return 0, fmt.Errorf("run %d: %w", n, ctx.Err())
	}
	switch {
	case w.panics != nil:
		panic(w.panics)
	case w.exits:
		runtime.Goexit()
	}
	if w.fails != nil && w.fails != errWith {
		return 0, w.fails
	}
	return n, w.fails
}

// told says what a caller got, and when.
func (st *stage) told(r flight.Result[int]) string {
	what := fmt.Sprint(r.Val)
	if r.Err != nil {
		what = r.Err.Error()
	}
	if r.Coalesced {
		what += ", coalesced"
	}
	if (r.Val == 0) != (r.Err != nil) && r.Err != errWith {
		st.t.Errorf("%v, %v: a value or an error", r.Val, r.Err)
	}
	return fmt.Sprintf("%s, at %v", what, st.now())
}

// A way is how callers call, which makes no difference.
type way struct {
	name  string
	call  func(*stage, context.Context) flight.Result[int]
	stays bool // those with endless patience could not even leave
}

func do(st *stage, ctx context.Context) (r flight.Result[int]) {
	r.Val, r.Coalesced, r.Err = st.group.Do(ctx, "key", st.run)
	return r
}

func begin(st *stage, ctx context.Context) flight.Result[int] {
	return <-flight.Begin(&st.group, ctx, "key", st.run)
}

var ways = []way{
	{"Do, stays", do, true},
	{"Do, may leave", do, false},
	{"Begin, stays", begin, true},
	{"Begin, may leave", begin, false},
}

// play plays sc. The bubble reports goroutines that are left at its end.
func (sc script) play(t *testing.T, w way) {
	st := &stage{t: t, began: time.Now(), works: sc.works}
	st.group.Timeout = sc.timeout
	got := make([]string, len(sc.callers))
	var wg sync.WaitGroup
	for i, c := range sc.callers {
		wg.Go(func() {
			time.Sleep(c.at)
			ctx, cancel := context.WithCancel(context.Background())
			if c.patience != 0 {
				ctx, cancel = context.WithTimeout(ctx, c.patience)
			} else if w.stays {
				ctx = context.Background()
			}
			defer cancel()
			got[i] = st.told(w.call(st, ctx))
		})
	}
	if sc.forget != 0 {
		wg.Go(func() { time.Sleep(sc.forget); st.group.Forget("key") })
	}
	wg.Wait()
	time.Sleep(time.Hour) // let the abandoned runs end
	st.mu.Lock()
	defer st.mu.Unlock()
	for i, c := range sc.callers {
		if got[i] != c.want {
			t.Errorf("caller %d: %s: want %s", i+1, got[i], c.want)
		}
	}
	if !slices.Equal(st.runs, sc.runs) {
		t.Errorf("runs %q: want %q", st.runs, sc.runs)
	}
	if stats := st.group.Stats(); stats != sc.stats {
		t.Errorf("%+v: want %+v", stats, sc.stats)
	}
}

func TestScripts(t *testing.T) {
	for _, sc := range scripts {
		t.Run(sc.rule, func(t *testing.T) {
			for _, w := range ways {
				t.Run(w.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { sc.play(t, w) })
				})
			}
		})
	}
}

var (
	errNone = errors.New("no such user")
	errWith = errors.New("with a value")
)
