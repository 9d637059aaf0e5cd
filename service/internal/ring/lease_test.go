package ring

import (
	"context"
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

// ownedBefore returns a key that a member owns, and that another one owns before it once that is there.
func (f *fleet) ownedBefore(name, first string) string {
	f.t.Helper()
	others := slices.DeleteFunc(slices.Clone(f.names), func(n string) bool { return n == first })
	all, without := rendezvous.New(f.names), rendezvous.New(others)
	for i := range 1000 {
		key := string(rune('A'+i%26)) + string(rune('A'+i/26))
		if at := slot.Of(key); f.names[all.OwnerOf(at)] == first && others[without.OwnerOf(at)] == name {
			return key
		}
	}
	f.t.Fatalf("%s owns no key before %s", first, name)
	return ""
}
