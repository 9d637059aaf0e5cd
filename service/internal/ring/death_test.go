package ring

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/ring/census"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// limit is the capacity of each bucket in these tests. It is not refilled.
const limit = 30

// A member that has ended without a word costs one burst for each of its keys, and no more.
func TestDeathCostsOneBurst(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		moved, stays := f.ownedBy("c"), f.ownedBy("a")
		f.take("a", moved, limit)
		f.take("b", stays, limit)
		f.kill("c")
		// Until the others have told that they do not see it either, this node decides by its share.
		if n, step := f.take("a", moved, limit); n != limit/3 || step != decider.Share {
			t.Errorf("at first: %d tokens, %v: want the share", n, step)
		}
		time.Sleep(time.Second)
		f.want(map[string]string{"a": "live live dead", "b": "live live dead"})
		first, step := f.take("a", moved, limit)
		again, _ := f.take("b", moved, limit)
		if first+again != limit || step != decider.Exact {
			t.Errorf("%d and %d tokens, %v, want %d", first, again, step, limit)
		}
		if n, _ := f.take("a", stays, limit); n != 0 {
			t.Errorf("%d tokens of a key that has not moved", n)
		}
	})
}

// A member that another process replaces gets its keys back, and no others.
func TestReplacement(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		key := f.ownedBy("c")
		f.kill("c")
		time.Sleep(time.Second)
		f.start("c")
		time.Sleep(3 * time.Second)
		f.want(map[string]string{"a": "live live live", "b": "live live live", "c": "live live live"})
		given := 0
		for _, at := range f.names {
			n, step := f.take(at, key, limit)
			if given += n; step != decider.Exact {
				t.Errorf("%s: %v", at, step)
			}
		}
		if given != limit {
			t.Errorf("%d tokens, want %d", given, limit)
		}
	})
}

// Members between which nothing passes, while a third one sees both: the owner decides exactly, and
// the other member gives its share.
func TestPartitionOfTwo(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		key := f.ownedBy("b")
		f.cut("a", "b", true)
		time.Sleep(5 * time.Second)
		f.want(map[string]string{"a": "live cut live", "b": "cut live live", "c": "live live live"})
		cut, step := f.take("a", key, limit)
		if cut != limit/3 || step != decider.Share {
			t.Errorf("%d tokens, %v, of a member that is cut off from the owner", cut, step)
		}
		rest := 0
		for _, at := range []string{"b", "c"} {
			n, step := f.take(at, key, limit)
			if rest += n; step != decider.Exact {
				t.Errorf("%s: %v", at, step)
			}
		}
		if rest != limit {
			t.Errorf("%d tokens of the owner, want %d", rest, limit)
		}
		f.cut("a", "b", false)
		time.Sleep(time.Second)
		if n, step := f.take("a", key, limit); n != 0 || step != decider.Exact {
			t.Errorf("afterwards: %d tokens, %v", n, step)
		}
	})
}

// The side of a partition with the fewer members gives its share of every key, also of its own.
func TestMinority(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		own, other := f.ownedBy("a"), f.ownedBy("b")
		f.cut("a", "b", true)
		f.cut("a", "c", true)
		time.Sleep(5 * time.Second)
		f.want(map[string]string{"a": "live cut cut, no quorum", "b": "dead live live", "c": "dead live live"})
		for _, key := range []string{own, other} {
			if n, step := f.take("a", key, limit); n != limit/3 || step != decider.Share {
				t.Errorf("%s: %d tokens, %v, of the minority", key, n, step)
			}
			if n, step := f.take("b", key, limit); n != limit || step != decider.Exact {
				t.Errorf("%s: %d tokens, %v, of the majority", key, n, step)
			}
		}
	})
}

// Members of a minority that reach each other give one share each: they do not ask each other.
func TestMinorityOfSeveral(t *testing.T) {
	inFleet(t, 5, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		key := f.ownedBy("b")
		for _, far := range []string{"c", "d", "e"} {
			f.cut("a", far, true)
			f.cut("b", far, true)
		}
		time.Sleep(5 * time.Second)
		for _, at := range []string{"a", "b"} {
			if n, step := f.take(at, key, limit); n != limit/5 || step != decider.Share {
				t.Errorf("%s gives %d tokens, %v, want %d", at, n, step, limit/5)
			}
		}
		if n, step := f.take("c", key, limit); n != limit || step != decider.Exact {
			t.Errorf("%d tokens, %v, of the majority", n, step)
		}
	})
}

// Without a majority anywhere, the sides give no more than the limit together.
func TestEqualSides(t *testing.T) {
	inFleet(t, 2, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		f.cut("a", "b", true)
		time.Sleep(5 * time.Second)
		f.want(map[string]string{"a": "live cut, no quorum", "b": "cut live, no quorum"})
		for _, key := range []string{f.ownedBy("a"), f.ownedBy("b")} {
			n, _ := f.take("a", key, limit)
			m, _ := f.take("b", key, limit)
			if n != limit/2 || m != limit/2 {
				t.Errorf("%d and %d tokens, want %d each", n, m, limit/2)
			}
		}
	})
}

// A member that is listed and never comes owns no keys, once the others have agreed.
func TestMemberThatNeverComes(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		f.names = append(f.names, "d")
		for _, n := range f.nodes {
			var all []census.Member
			for _, name := range f.names {
				all = append(all, census.Member{Name: name, URL: "http://" + name})
			}
			if err := n.Use(all); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		f.want(map[string]string{"a": "live live live dead", "b": "live live live dead", "c": "live live live dead"})
		for i := range 100 {
			key := string(rune('A' + i))
			n, step := f.take(f.names[i%3], key, limit)
			m, _ := f.take(f.names[(i+1)%3], key, limit)
			if n+m != limit || step != decider.Exact {
				t.Errorf("%s: %d and %d tokens, %v", key, n, m, step)
			}
		}
	})
}

// A member that all others lose and find again costs two bursts at most, however often that happens.
func TestFlapping(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		key, given := f.ownedBy("c"), 0
		for round := range 20 {
			for range 20 {
				for _, at := range []string{"a", "b"} {
					n, _ := f.take(at, key, 2)
					given += n
				}
				time.Sleep(50 * time.Millisecond)
			}
			f.cut("a", "c", round%2 == 0)
			f.cut("b", "c", round%2 == 0)
		}
		// The bucket of the owner, that of the next owner, and the shares of two members.
		if most := 2*limit + 2*limit/3; given > most {
			t.Errorf("%d tokens, want at most %d", given, most)
		}
	})
}

// wait waits at a member for a token, and returns when it has it.
func (f *fleet) wait(at, key string) (waited time.Duration, v decider.Verdict) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := f.nodes[at].Wait(ctx, &decider.Request{Key: key, N: 1}, &v); err != nil {
		f.t.Errorf("%s: %v", at, err)
	}
	return time.Since(start), v
}

// Requests that wait get an answer when the owner of their key ends.
func TestWaitingRequestsOutliveTheOwner(t *testing.T) {
	inFleet(t, 3, bucket(1, time.Second), func(t *testing.T, f *fleet) {
		key := f.ownedBy("c")
		f.take("a", key, 1)
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				waited, v := f.wait(f.names[i%2], key)
				if !v.OK || v.Step != decider.Exact || v.Waited < waited-100*time.Millisecond {
					t.Errorf("%+v after %v", v, waited)
				}
			})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2500 * time.Millisecond)
		f.kill("c")
		all.Wait()
	})
}

// On a stable ring, requests get their turns in the order in which they came, at any members.
func TestOrderOfArrival(t *testing.T) {
	inFleet(t, 3, bucket(1, time.Second), func(t *testing.T, f *fleet) {
		key := f.ownedBy("b")
		f.take("a", key, 1)
		var mu sync.Mutex
		var turns []int
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				if _, v := f.wait(f.names[i%3], key); !v.OK || v.Place != i {
					t.Errorf("request %d: %+v", i, v)
				}
				mu.Lock()
				turns = append(turns, i)
				mu.Unlock()
			})
			time.Sleep(5 * time.Millisecond)
		}
		all.Wait()
		if !slices.IsSorted(turns) {
			t.Errorf("the turns were %v", turns)
		}
	})
}
