package ring

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// An exchange without reports gets the keys that the leaf should report, of which other members
// are the owners.
func TestChangedSharesAtOtherMembers(t *testing.T) {
	inFleet(t, 2, bucket(1000, time.Second), func(t *testing.T, f *fleet) {
		time.Sleep(time.Minute) // the owner knows what leaves have
		key := f.ownedBy("b")
		exchange := func(name string, reports ...leaf.Report) (got decider.LeafAnswer) {
			t.Helper()
			x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: name, Reports: reports}, Single: true}
			if err := f.nodes["a"].Exchange(t.Context(), &x, &got); err != nil {
				t.Fatal(err)
			}
			return got
		}
		exchange("first", leaf.Report{Key: key, Wants: 5000})
		if got := exchange("first"); len(got.Watch) > 0 {
			t.Errorf("alone, it should report %q", got.Watch)
		}
		exchange("second", leaf.Report{Key: key, Wants: 5000})
		if got := exchange("first"); len(got.Watch) != 1 || got.Watch[0] != key {
			t.Errorf("it should report %q: want %q", got.Watch, key)
		}
	})
}
