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

// A work is what the n-th run of a script does. Its value is n.
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

func doChan(st *stage, ctx context.Context) flight.Result[int] {
	return <-st.group.DoChan(ctx, "key", st.run)
}

var ways = []way{
	{"Do, stays", do, true},
	{"Do, may leave", do, false},
	{"DoChan, stays", doChan, true},
	{"DoChan, may leave", doChan, false},
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
	time.Sleep(time.Hour) // let the runs end that nobody waits for
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

const (
	late     = "context deadline exceeded, at "
	canceled = "context canceled"
)

type stats = flight.Stats

var scripts = []script{
	{rule: "one after the other",
		works:   []work{{takes: s}},
		callers: []caller{{0, 0, "1, at 1s"}, {2 * s, 0, "2, at 3s"}},
		runs:    []string{"1: 0s to 1s, ok", "2: 2s to 3s, ok"},
		stats:   stats{Runs: 2}},
	{rule: "together",
		works:   []work{{takes: 3 * s}},
		callers: []caller{{0, 0, "1, at 3s"}, {s, 0, "1, coalesced, at 3s"}, {2 * s, 0, "1, coalesced, at 3s"}},
		runs:    []string{"1: 0s to 3s, ok"},
		stats:   stats{Runs: 1, Coalesced: 2}},
	{rule: "an error is everybody's, and nobody's after",
		works:   []work{{takes: 2 * s, fails: errNone}, {takes: s}},
		callers: []caller{{0, 0, "no such user, at 2s"}, {s, 0, "no such user, coalesced, at 2s"}, {3 * s, 0, "2, at 4s"}},
		runs:    []string{"1: 0s to 2s, ok", "2: 3s to 4s, ok"},
		stats:   stats{Runs: 2, Coalesced: 1}},
	{rule: "a value may come with an error",
		works:   []work{{takes: 2 * s, fails: errWith}},
		callers: []caller{{0, 0, "with a value, at 2s"}, {s, 0, "with a value, coalesced, at 2s"}},
		runs:    []string{"1: 0s to 2s, ok"},
		stats:   stats{Runs: 1, Coalesced: 1}},

	// cockroachdb/cockroach#91038: the first caller's cancellation was
	// everybody's.
	{rule: "the first one leaves, the others do not",
		works:   []work{{takes: 5 * s}},
		callers: []caller{{0, 2 * s, late + "2s"}, {s, 0, "1, coalesced, at 5s"}, {3 * s, 0, "1, coalesced, at 5s"}},
		runs:    []string{"1: 0s to 5s, ok"},
		stats:   stats{Runs: 1, Coalesced: 2, Left: 1}},
	{rule: "a late one with little patience leaves alone",
		works:   []work{{takes: 5 * s}},
		callers: []caller{{0, 0, "1, at 5s"}, {s, s, late + "2s"}, {3 * s, 9 * s, "1, coalesced, at 5s"}},
		runs:    []string{"1: 0s to 5s, ok"},
		stats:   stats{Runs: 1, Coalesced: 2, Left: 1}},
	{rule: "the last one to leave cancels the run",
		works:   []work{{takes: 9 * s}},
		callers: []caller{{0, 2 * s, late + "2s"}, {s, 3 * s, late + "4s"}},
		runs:    []string{"1: 0s to 4s, " + canceled},
		stats:   stats{Runs: 1, Coalesced: 1, Left: 2, Abandoned: 1}},
	{rule: "whoever leaves does so at once, whether or not the run heeds",
		works:   []work{{takes: 9 * s, deaf: true}},
		callers: []caller{{0, 2 * s, late + "2s"}, {s, 3 * s, late + "4s"}},
		runs:    []string{"1: 0s to 9s, " + canceled},
		stats:   stats{Runs: 1, Coalesced: 1, Left: 2, Abandoned: 1}},

	// janos/singleflight#4: a cancelled call was run a second time beside
	// itself.
	{rule: "an abandoned run has no second one beside it; one that fails is begun anew, once",
		works: []work{{takes: 9 * s, deaf: true, fails: errNone}, {takes: 2 * s}},
		callers: []caller{{0, 2 * s, late + "2s"}, {3 * s, 0, "2, at 11s"},
			{10 * s, 0, "2, coalesced, at 11s"}},
		runs:  []string{"1: 0s to 9s, " + canceled, "2: 9s to 11s, ok"},
		stats: stats{Runs: 2, Coalesced: 1, Left: 1, Abandoned: 1}},
	{rule: "one that succeeds after all is taken",
		works:   []work{{takes: 9 * s, deaf: true}},
		callers: []caller{{0, 2 * s, late + "2s"}, {3 * s, 0, "1, coalesced, at 9s"}, {4 * s, 9 * s, "1, coalesced, at 9s"}},
		runs:    []string{"1: 0s to 9s, " + canceled},
		stats:   stats{Runs: 1, Coalesced: 2, Left: 1, Abandoned: 1}},
	{rule: "who waits for it to end may leave, too, and begins nothing",
		works:   []work{{takes: 9 * s, deaf: true, fails: errNone}},
		callers: []caller{{0, 2 * s, late + "2s"}, {3 * s, s, late + "4s"}},
		runs:    []string{"1: 0s to 9s, " + canceled},
		stats:   stats{Runs: 1, Left: 1, Abandoned: 1}},
	{rule: "one that panics is begun anew",
		works:   []work{{takes: 9 * s, deaf: true, panics: "oh"}, {takes: s}},
		callers: []caller{{0, 2 * s, late + "2s"}, {3 * s, 0, "2, at 10s"}},
		runs:    []string{"1: 0s to 9s, " + canceled, "2: 9s to 10s, ok"},
		stats:   stats{Runs: 2, Left: 1, Abandoned: 1, Panics: 1}},
	{rule: "abandoned again and again",
		works: []work{{takes: 2 * s, deaf: true, fails: errNone}},
		callers: []caller{{0, s, late + "1s"}, {s + s/2, s, late + "2.5s"}, {3 * s, 2 * s, late + "5s"},
			{4*s + s/2, 9 * s, "no such user, coalesced, at 6s"}},
		runs:  []string{"1: 0s to 2s, " + canceled, "2: 2s to 4s, " + canceled, "3: 4s to 6s, ok"},
		stats: stats{Runs: 3, Coalesced: 1, Left: 3, Abandoned: 2}},

	{rule: "Timeout ends a run that goes on for others",
		timeout: 4 * s,
		works:   []work{{takes: 9 * s}},
		callers: []caller{{0, 2 * s, late + "2s"}, {s, 0, "run 1: context deadline exceeded, coalesced, at 4s"}},
		runs:    []string{"1: 0s to 4s, context deadline exceeded"},
		stats:   stats{Runs: 1, Coalesced: 1, Left: 1}},
	{rule: "and no run that is in time",
		timeout: 4 * s,
		works:   []work{{takes: 3 * s}},
		callers: []caller{{0, 0, "1, at 3s"}, {s, 9 * s, "1, coalesced, at 3s"}, {3*s + 1, 0, "2, at 6.000000001s"}},
		runs:    []string{"1: 0s to 3s, ok", "2: 3.000000001s to 6.000000001s, ok"},
		stats:   stats{Runs: 2, Coalesced: 1}},
	{rule: "one that does not heed it is waited for",
		timeout: 2 * s,
		works:   []work{{takes: 3 * s, deaf: true}},
		callers: []caller{{0, 0, "1, at 3s"}, {2*s + s/2, 0, "1, coalesced, at 3s"}},
		runs:    []string{"1: 0s to 3s, context deadline exceeded"},
		stats:   stats{Runs: 1, Coalesced: 1}},
	{rule: "a negative Timeout is none",
		timeout: -s,
		works:   []work{{takes: s}},
		callers: []caller{{0, 0, "1, at 1s"}},
		runs:    []string{"1: 0s to 1s, ok"},
		stats:   stats{Runs: 1}},

	{rule: "a panic is every waiter's error",
		works:   []work{{takes: 2 * s, panics: "oh"}, {takes: s}},
		callers: []caller{{0, 0, "flight: panic: oh, at 2s"}, {s, 0, "flight: panic: oh, coalesced, at 2s"}, {3 * s, 0, "2, at 4s"}},
		runs:    []string{"1: 0s to 2s, ok", "2: 3s to 4s, ok"},
		stats:   stats{Runs: 2, Coalesced: 1, Panics: 1}},

	{rule: "Forget begins a new run beside the old one, and each has its callers",
		forget: 2 * s,
		works:  []work{{takes: 5 * s}},
		callers: []caller{{0, 0, "1, at 5s"}, {s, 0, "1, coalesced, at 5s"}, {3 * s, 0, "2, at 8s"},
			{6 * s, 0, "2, coalesced, at 8s"}}, // the end of the first did not remove the second
		runs:  []string{"1: 0s to 5s, ok", "2: 3s to 8s, ok"},
		stats: stats{Runs: 2, Coalesced: 2}},
	{rule: "a forgotten run can be abandoned",
		forget:  2 * s,
		works:   []work{{takes: 5 * s}},
		callers: []caller{{0, 4 * s, late + "4s"}, {3 * s, 0, "2, at 8s"}, {6 * s, 0, "2, coalesced, at 8s"}},
		runs:    []string{"1: 0s to 4s, " + canceled, "2: 3s to 8s, ok"},
		stats:   stats{Runs: 2, Coalesced: 1, Left: 1, Abandoned: 1}},
	{rule: "an abandoned run can be forgotten, and what waits for it waits",
		forget: 4 * s,
		works:  []work{{takes: 9 * s, deaf: true, fails: errNone}, {takes: 2 * s}},
		callers: []caller{{0, 2 * s, late + "2s"}, {3 * s, 0, "3, at 11s"},
			{5 * s, 0, "2, at 7s"}},
		runs:  []string{"1: 0s to 9s, " + canceled, "2: 5s to 7s, ok", "3: 9s to 11s, ok"},
		stats: stats{Runs: 3, Left: 1, Abandoned: 1}},
}
