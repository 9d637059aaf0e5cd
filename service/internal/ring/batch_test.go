package ring

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// batch asks a member for tokens of keys.
func (f *fleet) batch(at string, all bool, reqs ...decider.Request) (ok bool, allowed []bool) {
	f.t.Helper()
	verdicts := make([]decider.Verdict, len(reqs))
	ok, err := f.nodes[at].Batch(context.Background(), reqs, all, verdicts)
	if err != nil {
		f.t.Errorf("%s: %v", at, err)
	}
	for i := range verdicts {
		allowed = append(allowed, verdicts[i].OK)
	}
	return ok, allowed
}

// A batch that one owner denies takes no tokens of others.
func TestBatchIsAllOrNothing(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		a, b, c := f.ownedBy("a"), f.ownedBy("b"), f.ownedBy("c")
		for _, cut := range []bool{false, true} {
			want := limit
			if cut {
				f.cut("a", "c", true)
				want = limit / 3
			}
			reqs := []decider.Request{{Key: a, N: 3}, {Key: b, N: 4}, {Key: c, N: 31}, {Key: c, N: 1}}
			if ok, allowed := f.batch("a", true, reqs...); ok || fmt.Sprint(allowed) != "[false false false false]" {
				t.Errorf("cut: %v: %v, %v", cut, ok, allowed)
			}
			reqs[2].N = 2
			if ok, allowed := f.batch("a", true, reqs...); !ok || fmt.Sprint(allowed) != "[true true true true]" {
				t.Errorf("cut: %v: %v, %v", cut, ok, allowed)
			}
			if !cut {
				for key, left := range map[string]int{a: limit - 3, b: limit - 4, c: limit - 3} {
					if n, _ := f.take("b", key, limit); n != left {
						t.Errorf("%s: %d tokens are left, want %d", key, n, left)
					}
				}
				f.kill("b") // full buckets
				f.start("b")
				f.kill("a")
				f.start("a")
				time.Sleep(5 * time.Second)
				a, b, c = f.ownedBy("a"), f.ownedBy("b"), f.ownedBy("c")
			} else if n, _ := f.take("a", c, limit); n != want-3 {
				t.Errorf("%d tokens of the share are left, want %d", n, want-3)
			}
		}
	})
}

// The verdicts of a batch that no owner decides can have more room than there are requests.
func TestBatchWithRoom(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		key := f.ownedBy("c")
		f.cut("a", "c", true)
		verdicts := make([]decider.Verdict, 3)
		if ok, err := f.nodes["a"].Batch(context.Background(), []decider.Request{{Key: key, N: 1}}, false, verdicts); !ok || err != nil || verdicts[0].Step != decider.Share {
			t.Errorf("%v, %v, %v", ok, err, verdicts[0])
		}
	})
}

// Any member settles a grant, also one that a member has given by its share.
func TestSettleAnywhere(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		for _, owner := range f.names {
			key := f.ownedBy(owner)
			req := decider.Request{Key: key, N: 10, WantID: true}
			for i, at := range f.names {
				var v decider.Verdict
				if err := f.nodes[at].Decide(context.Background(), &req, &v); err != nil || !v.OK {
					t.Fatalf("%v, %v", v, err)
				}
				id := string(f.nodes[at].AppendGrantID(nil, v.Grant, key))
				next := f.nodes[f.names[(i+1)%3]]
				if done, err := next.Settle(context.Background(), key, id, 0); err != nil || done.Was != 10 {
					t.Errorf("%s of %s: %+v, %v", key, owner, done, err)
				}
				if _, err := f.nodes[at].Settle(context.Background(), key, id, 0); err != decider.ErrNoGrant {
					t.Errorf("again: %v", err)
				}
			}
			if n, _ := f.take("a", key, limit+1); n != limit {
				t.Errorf("%d tokens, want %d", n, limit)
			}
		}
		key := f.ownedBy("c")
		f.cut("a", "c", true)
		var v decider.Verdict
		if err := f.nodes["a"].Decide(context.Background(), &decider.Request{Key: key, N: 10, WantID: true}, &v); err != nil || v.Step != decider.Share {
			t.Fatalf("%+v, %v", v, err)
		}
		f.cut("a", "c", false)
		time.Sleep(time.Second)
		id := string(f.nodes["a"].AppendGrantID(nil, v.Grant, key))
		if _, err := f.nodes["a"].Settle(context.Background(), key, id, 0); err != nil {
			t.Error(err)
		}
		if n, _ := f.take("a", key, limit); n != 0 {
			t.Errorf("the owner got %d tokens back that it has not given", n)
		}
	})
}

// jobs is a rule with units for each key.
func jobs(units int) *config.Rules {
	r := &config.Rules{Rules: []config.Rule{{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: config.Limit(units), TTL: 10 * time.Second, MaxTTL: 10 * time.Second}}}}
	if err := r.Complete(); err != nil {
		panic(err)
	}
	return r
}

// acquire leases units at a member until that refuses, and returns the ids.
func (f *fleet) acquire(at, key string) (ids []string, step decider.Step) {
	f.t.Helper()
	for {
		l, err := f.nodes[at].Acquire(context.Background(), decider.LeaseRequest{Key: key, N: 1})
		step = l.Step
		if err != nil {
			if _, refused := err.(*weir.Rejection); !refused {
				f.t.Errorf("%s: %v", at, err)
			}
			return ids, step
		}
		ids = append(ids, l.ID)
	}
}

// Any member leases units of a key, and renews and returns the leases of others.
func TestLeases(t *testing.T) {
	inFleet(t, 3, jobs(6), func(t *testing.T, f *fleet) {
		ctx := context.Background()
		for _, owner := range f.names {
			key := f.ownedBy(owner)
			ids, step := f.acquire("a", key)
			if more, _ := f.acquire("b", key); len(ids) != 6 || len(more) != 0 || step != decider.Exact {
				t.Errorf("%d and %d units, %v", len(ids), len(more), step)
			}
			for i, id := range ids {
				at := f.nodes[f.names[i%3]]
				if _, err := at.Renew(ctx, key, id, 0); err != nil {
					t.Error(err)
				}
				if err := f.nodes[f.names[(i+1)%3]].Return(ctx, key, id, weir.Success); err != nil {
					t.Error(err)
				}
				if err := at.Return(ctx, key, id, weir.Success); err != decider.ErrNoLease {
					t.Errorf("again: %v", err)
				}
			}
		}
		key := f.ownedBy("c")
		f.cut("a", "c", true)
		ids, step := f.acquire("a", key)
		if len(ids) != 2 || step != decider.Share {
			t.Errorf("%d units, %v, of a member that is cut off", len(ids), step)
		}
		if l, err := f.nodes["a"].Renew(ctx, key, ids[0], 0); err != nil || l.Step != decider.Share {
			t.Errorf("%+v, %v", l, err)
		}
		f.cut("a", "c", false)
		time.Sleep(time.Second)
		if err := f.nodes["a"].Return(ctx, key, ids[0], weir.Success); err != nil {
			t.Error(err)
		}
	})
}

// Top has the keys of all members.
func TestTop(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		for i, owner := range f.names {
			f.take("a", f.ownedBy(owner), 10*(i+1))
		}
		top, err := f.nodes["b"].Top(context.Background(), 2)
		if err != nil || len(top) != 2 || top[0].Key != f.ownedBy("c") || top[0].Allowed != 30 || top[1].Key != f.ownedBy("b") {
			t.Errorf("%+v, %v", top, err)
		}
	})
}
