package ring

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// exactly checks that members give n tokens of a key in all, by its owner.
func (f *fleet) exactly(key string, n int, members ...string) {
	f.t.Helper()
	given := 0
	for _, at := range members {
		more, step := f.take(at, key, limit)
		if given += more; step != decider.Exact {
			f.t.Errorf("%s: %s decides by %v", key, at, step)
		}
	}
	if given != n {
		f.t.Errorf("%s: %d tokens, want %d", key, given, n)
	}
}

// keysOf returns a key of each member.
func (f *fleet) keysOf(members ...string) (keys []string) {
	for _, name := range members {
		keys = append(keys, f.ownedBy(name))
	}
	return keys
}

// watch sends one request for the keys of all members every twenty milliseconds, to each member that runs, until stop is called. It
// returns how long the slowest one took, and how many were not decided by an owner.
func (f *fleet) watch(keys []string) (stop func() (slowest time.Duration, degraded int)) {
	done := make(chan struct{})
	var asking sync.WaitGroup
	var mu sync.Mutex // guards what follows
	var slowest time.Duration
	var degraded int
	asking.Go(func() {
		for range 100_000 {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			f.mu.Lock()
			var at []*node
			for _, n := range f.nodes {
				at = append(at, n)
			}
			f.mu.Unlock()
			for _, n := range at {
				for _, key := range keys {
					asking.Go(func() {
						var v decider.Verdict
						began := time.Now()
						if n.Decide(context.Background(), &decider.Request{Key: key, N: 1}, &v) != nil || n.ctx.Err() != nil || !n.Ready() {
							return
						}
						mu.Lock()
						defer mu.Unlock()
						slowest = max(slowest, time.Since(began))
						if v.Step != decider.Exact {
							degraded++
						}
					})
				}
			}
		}
	})
	return func() (time.Duration, int) {
		close(done)
		asking.Wait()
		return slowest, degraded
	}
}

// A member that only it lists itself joins at once, with the state of its keys. Then the others get its list, one after the
// other. No request is held for long, no key refilled, and no state lost.
func TestGrowOneByOne(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		four := []string{"a", "b", "c", "d"}
		keys := f.keysOf("a", "b", "c")
		for i := range 30 { // some of these move to d
			keys = append(keys, fmt.Sprintf("more:%d", i))
		}
		for _, key := range keys {
			f.exactly(key, limit, "a")
		}
		stop := f.watch(keys[:6])
		f.names, f.lists = four, map[string][]string{"a": {"a", "b", "c"}, "b": {"a", "b", "c"}, "c": {"a", "b", "c"}}
		f.start("d")
		time.Sleep(time.Second)
		all := "live live live live"
		f.want(map[string]string{"a": all, "b": all, "c": all, "d": all})
		for _, key := range keys {
			f.exactly(key, 0, four...)
		}
		for _, name := range []string{"c", "b", "a"} {
			f.roll(name, four...)
			time.Sleep(time.Second)
			f.want(map[string]string{"a": all, "b": all, "c": all, "d": all})
		}
		if slowest, degraded := stop(); slowest > 100*time.Millisecond || degraded > 0 {
			t.Errorf("the slowest request took %v, %d were not decided by an owner", slowest, degraded)
		}
		for _, key := range keys {
			f.exactly(key, 0, four...)
		}
	})
}

// Two members leave, and then the others get a list without them, one after the other.
func TestShrinkOneByOne(t *testing.T) {
	inFleet(t, 5, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		keys := f.keysOf(f.names...)
		for _, key := range keys {
			f.exactly(key, limit, "b")
		}
		stop := f.watch(keys)
		f.roll("e")
		time.Sleep(time.Second)
		f.roll("d")
		three := []string{"a", "b", "c"}
		for _, name := range []string{"c", "b", "a"} {
			time.Sleep(time.Second)
			f.roll(name, three...)
		}
		time.Sleep(time.Second)
		if slowest, degraded := stop(); slowest > 100*time.Millisecond || degraded > 0 {
			t.Errorf("the slowest request took %v, %d were not decided by an owner", slowest, degraded)
		}
		f.names = three
		for _, name := range three {
			if st := f.nodes[name].Stats(); len(st.Members) != 3 || f.statuses(name) != "live live live" {
				t.Errorf("%s knows %+v", name, st.Members)
			}
		}
		for _, key := range keys {
			f.exactly(key, 0, three...)
		}
	})
}

// A member that others cannot ask does not decide with the whole limit, because they do not see it as an owner.
func TestOneWay(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		key := f.ownedBy("c")
		f.mu.Lock()
		f.cuts[[2]string{"a", "c"}], f.cuts[[2]string{"b", "c"}] = true, true
		f.mu.Unlock()
		f.update()
		time.Sleep(3 * time.Second)
		f.want(map[string]string{"a": "live live dead", "b": "live live dead", "c": "live live live, no quorum"})
		if n, step := f.take("c", key, limit); n != limit/3 || step != decider.Share {
			t.Errorf("%d tokens, %v, want the share", n, step)
		}
		f.exactly(key, limit, "a", "b")
	})
}

// A process that no member lists does not join a fleet in which every client can open links.
func TestStrangers(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		f.cfg.Strangers = false
		for _, name := range f.names {
			f.kill(name)
			f.start(name)
		}
		time.Sleep(5 * time.Second)
		key := f.ownedBy("a")
		f.lists["d"] = []string{"a", "b", "c", "d"}
		f.start("d")
		time.Sleep(5 * time.Second)
		f.want(map[string]string{"a": "live live live", "d": "live live live, no quorum"})
		f.exactly(key, limit, "d", "a")
		f.use(f.nodes["a"], f.lists["d"]) // one of them lists it
		time.Sleep(time.Second)
		f.names = f.lists["d"]
		for _, name := range f.names {
			f.want(map[string]string{name: "live live live live"})
		}
	})
}

// Members say how the list of a member differs, and that it is the same again.
func TestListsAreReported(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		var mu sync.Mutex // guards told
		var told []string
		f.cfg.OnChange = func(c Change) {
			mu.Lock()
			defer mu.Unlock()
			if c.Lists != nil {
				told = append(told, fmt.Sprintf("%s here %q there %q", c.Member, c.Lists.OnlyHere, c.Lists.OnlyThere))
			}
		}
		f.kill("a")
		f.start("a")
		time.Sleep(3 * time.Second)
		f.use(f.nodes["b"], []string{"a", "b", "d"})
		time.Sleep(time.Second)
		if st := f.nodes["a"].Stats(); !st.Members[0].Lists.IsEmpty() || !slices.Equal(st.Members[1].Lists.OnlyHere, []string{"c"}) || !slices.Equal(st.Members[1].Lists.OnlyThere, []string{"d"}) {
			t.Errorf("%+v", st.Members)
		}
		f.want(map[string]string{"a": "live live live", "b": "live live live"})
		f.use(f.nodes["b"], f.names)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		want := []string{`b here ["c"] there ["d"]`, `b here [] there []`}
		if !slices.Equal(told, want) {
			t.Errorf("%s, want %s", strings.Join(told, "; "), want)
		}
	})
}

// While the owner of a key cannot be asked, a node explains its share: also keys that have moved to the lost member.
func TestExplainAlone(t *testing.T) {
	inFleet(t, 2, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		keys := f.keysOf("a", "b")
		f.kill("b")
		time.Sleep(5 * time.Second)
		for _, key := range keys {
			f.take("a", key, 1)
			x, err := f.nodes["a"].Explain(context.Background(), key)
			if err != nil || len(x.Rules) != 1 || x.Rules[0].Used == 0 {
				t.Errorf("%s: %+v, %v", key, x, err)
			}
		}
	})
}

// A member that comes back while the others pause between attempts to connect is ready when it decides, and no request waits for it.
func TestComesBack(t *testing.T) {
	for _, gone := range []time.Duration{100 * time.Millisecond, 6 * time.Second} {
		inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
			keys := f.keysOf(f.names...)
			f.pause = time.Minute
			for _, crash := range []bool{false, true} {
				stop := func() (time.Duration, int) { return 0, 0 }
				if !crash {
					stop = f.watch(keys)
					if _, err := f.nodes["c"].Leave(context.Background()); err != nil {
						t.Error(err)
					}
				}
				f.kill("c")
				time.Sleep(gone)
				if crash {
					stop = f.watch(keys)
				}
				f.start("c")
				time.Sleep(100 * time.Millisecond)
				if !f.nodes["c"].Ready() {
					t.Errorf("crash: %v: it is not ready", crash)
				}
				time.Sleep(time.Second)
				if slowest, degraded := stop(); slowest > 100*time.Millisecond || degraded > 0 {
					t.Errorf("crash: %v: the slowest request took %v, %d were not decided by an owner", crash, slowest, degraded)
				}
			}
		})
	}
}
