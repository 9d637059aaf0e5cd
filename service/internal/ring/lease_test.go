package ring

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/rendezvous"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// oneLease is rules for all keys: one lease for at most a minute.
func oneLease() *config.Rules {
	r := &config.Rules{Rules: []config.Rule{{Name: "all", Glob: "*", Concurrency: &config.Concurrency{Limit: 1, TTL: time.Minute, MaxTTL: time.Minute}}}}
	if err := r.Complete(); err != nil {
		panic(err)
	}
	return r
}

// refuses checks that a member grants no other lease, and extends the one that is held.
func (f *fleet) refuses(at, key string, held decider.Lease) {
	f.t.Helper()
	_, err := f.nodes[at].Acquire(context.Background(), decider.LeaseRequest{Key: key, N: 1})
	if rejected, _ := err.(*weir.Rejection); rejected == nil || rejected.Reason != weir.Recovering {
		f.t.Errorf("%v: want a refusal while the lease of another process may be held", err)
	}
	if _, err := f.nodes[at].Renew(context.Background(), key, held.ID, 0); err != nil {
		f.t.Errorf("the lease is lost: %v", err)
	}
}

// An owner that has never had the state of the owner before it tells so to the next one.
func TestUnknownLeasesArePassedOn(t *testing.T) {
	inFleet(t, 5, oneLease(), func(t *testing.T, f *fleet) {
		key := f.ownedBefore("b", "c")
		f.kill("c")
		time.Sleep(2 * time.Minute)
		held, err := f.nodes["b"].Acquire(context.Background(), decider.LeaseRequest{Key: key, N: 1})
		if err != nil {
			t.Fatal(err)
		}
		f.cut("b", "c", true)
		c := f.start("c") // its claim does not reach b
		time.Sleep(5 * time.Second)
		f.kill("b")
		time.Sleep(5 * time.Second)
		if moved, err := c.Leave(context.Background()); !moved || err != nil {
			t.Fatalf("%v, %v", moved, err)
		}
		time.Sleep(time.Second)
		f.refuses("a", key, held)
	})
}

// An owner that ends while the next one claims its state leaves leases that are unknown.
func TestDeathDuringAClaim(t *testing.T) {
	for name, again := range map[string]bool{"dead": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 5, oneLease(), func(t *testing.T, f *fleet) {
				key := f.ownedBefore("b", "c")
				f.kill("c")
				time.Sleep(2 * time.Minute)
				held, err := f.nodes["b"].Acquire(context.Background(), decider.LeaseRequest{Key: key, N: 1})
				if err != nil {
					t.Fatal(err)
				}
				f.start("c")
				time.Sleep(latency) // the claim is about to arrive
				f.kill("b")
				if again {
					f.start("b")
				}
				time.Sleep(5 * time.Second)
				f.refuses("c", key, held)
			})
		})
	}
}

// An owner that gets the state of the owner before it after the next owner has claimed it passes it on.
func TestOwnerChangesDuringAClaim(t *testing.T) {
	inFleet(t, 3, oneLease(), func(t *testing.T, f *fleet) {
		f.names = append(f.names, "d", "e")
		key := f.ownedBefore("a", "d", "e")
		held, err := f.nodes["a"].Acquire(context.Background(), decider.LeaseRequest{Key: key, N: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"d", "e"} {
			f.cut("a", name, true) // its claim does not reach a
			f.start(name)
			time.Sleep(500 * time.Millisecond)
		}
		for _, name := range []string{"d", "e"} {
			f.cut("a", name, false)
			time.Sleep(500 * time.Millisecond)
		}
		_, err = f.nodes["e"].Acquire(context.Background(), decider.LeaseRequest{Key: key, N: 1})
		if rejected, _ := err.(*weir.Rejection); rejected == nil || rejected.Reason != weir.OverLimit {
			t.Errorf("%v: want a refusal while the lease is held", err)
		}
		if _, err := f.nodes["e"].Renew(context.Background(), key, held.ID, 0); err != nil {
			t.Errorf("the lease is lost: %v", err)
		}
	})
}

// A claim that has waited for an earlier one for long, and is late then, is made once more: the state of its slots is known.
func TestRefusalAfterAWait(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		slots, c := f.slotOf(f.ownedBy("c")), f.nodes["c"]
		a := f.nodes["a"].claims
		earlier := a.Begin(slots)
		_, epoch := a.Get(earlier)
		c.claims.Note(f.nodes["a"].cfg.Node, slots, epoch)
		cl := c.claims.Begin(slots)
		defer c.claims.End(cl)
		_, own := c.claims.Get(cl)
		time.AfterFunc(2*maxClaimTries, func() {
			a.Note("another", slots, own+1)
			a.End(earlier)
		})
		ctx, cancel := context.WithTimeout(t.Context(), maxClaim)
		defer cancel()
		if rest, err := c.claimFrom(ctx, c.places["a"], cl); err != nil || rest.Len() > 0 {
			t.Errorf("%v: want the state of the slots", err)
		}
		if _, epoch := c.claims.Get(cl); epoch <= own+1 {
			t.Errorf("epoch %d, want one after %d", epoch, own+1)
		}
	})
}

// A claim that has failed leaves slots given up that this node does not decide any more.
func TestFailedClaimOfOthersSlots(t *testing.T) {
	inFleet(t, 3, oneLease(), func(t *testing.T, f *fleet) {
		b := f.nodes["b"]
		for key, want := range map[string]error{f.ownedBy("a"): decider.ErrMoved, f.ownedBy("b"): nil} {
			slots := f.slotOf(key)
			b.server.Expect(slots, 0)
			cl := b.claims.Begin(slots)
			if want != nil {
				b.server.Depart(slots)
				b.claims.Again(cl, b.view.Load().decides(), 1<<40) // another member has claimed it
			}
			b.miss(cl, *slots)
			b.claims.End(cl)
			if _, err := b.server.Explain(t.Context(), key); err != want {
				t.Errorf("%s: %v, want %v", key, err, want)
			}
		}
	})
}

// ownedBefore returns a key that a member owns, and that others own before it once they are there, the last one before all.
func (f *fleet) ownedBefore(name string, before ...string) string {
	f.t.Helper()
	var orders [][]string // members without the ones that are not there yet
	for i := range len(before) + 1 {
		orders = append(orders, slices.DeleteFunc(slices.Clone(f.names), func(n string) bool { return slices.Contains(before[i:], n) }))
	}
	owners := append([]string{name}, before...)
	for i := range 10_000 {
		key := fmt.Sprint("key ", i)
		if !slices.ContainsFunc(owners, func(owner string) bool {
			there := orders[slices.Index(owners, owner)]
			return there[rendezvous.New(there).OwnerOf(slot.Of(key))] != owner
		}) {
			return key
		}
	}
	f.t.Fatalf("%s owns no key before %s", name, before)
	return ""
}
