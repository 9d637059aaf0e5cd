package ring

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/ring/handover"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// claimsOf has a member claim the slot of a key from another one, as if it took itself for the owner.
func (f *fleet) claimsOf(name, key, from string, epoch uint64, revision int) error {
	slots := f.slotOf(key)
	caller := wire.Info{Node: f.nodes[name].cfg.Node, Revision: revision}
	_, err := f.nodes[from].Calls()[claimCall](f.t.Context(), caller, handover.AppendClaim(nil, slots, epoch))
	return err
}

// An owner gets its keys back that another member has claimed by mistake, and their counts.
func TestClaimByMistake(t *testing.T) {
	for revision, epoch := range []uint64{0, 0, 1 << 32} {
		inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
			key := f.ownedBy("a")
			f.take("b", key, limit-1)
			if err := f.claimsOf("c", key, "a", epoch, revision); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			for _, want := range []int{1, 0} {
				if n, step := f.take("b", key, 1); n != want || step != decider.Exact {
					t.Errorf("revision %d: %d tokens, %v, want %d", revision, n, step, want)
				}
			}
		})
	}
}

// A member that knows epochs, and has claimed before it knew that others do too, claims again.
func TestClaimWithoutEpoch(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		key := f.ownedBy("a")
		if err := f.claimsOf("c", key, "a", 0, wire.KnowsEpochs); err == nil {
			t.Error("want an error: claims of two such members could wait for each other")
		}
		if _, step := f.take("b", key, 1); step != decider.Exact {
			t.Errorf("%v: the owner has given the key up", step)
		}
	})
}

// The last member of a fleet decides about keys that another one has claimed from it before.
func TestLastMember(t *testing.T) {
	inFleet(t, 2, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		key := f.ownedBy("b")
		f.kill("b")
		f.use(f.nodes["a"], []string{"a"})
		time.Sleep(time.Minute)
		if n, step := f.take("a", key, limit+1); n != limit || step != decider.Exact {
			t.Errorf("%d tokens, %v, want %d", n, step, limit)
		}
	})
}
