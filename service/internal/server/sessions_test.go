//go:build !race

package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server"
)

// lostKeys are more than one exchange looks at.
const lostKeys = 25_000

// A leaf with many keys crashes: another one has their limits a few exchanges later. So it does if the
// leaf is back for a moment, and crashes again.
func TestManyKeysOfALostLeaf(t *testing.T) {
	for _, back := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			d := learnt(t, server.Config{}, one("all", quota(100, time.Second, "")))
			x := leaf.Exchange{Leaf: "lost"}
			for i := range lostKeys {
				x.Reports = append(x.Reports, leaf.Report{Key: fmt.Sprint(i), Wants: 1000})
			}
			d.exchange(x)
			time.Sleep(server.DefaultAssignmentTTL)
			if back {
				d.needs("other", 0)
				if d.needs("lost", 0); d.Stats().Leaves.Assignments == 0 {
					t.Fatal("all has been looked at in one exchange")
				}
				d.exchange(leaf.Exchange{Leaf: "lost", Reports: x.Reports[:lostKeys/2]})
				time.Sleep(server.DefaultAssignmentTTL)
			}
			for range 3 {
				d.needs("other", 0)
			}
			if got := d.Stats().Leaves; got.Assignments != 0 {
				t.Errorf("back: %v: %d assignments are left", back, got.Assignments)
			}
			if got := d.assign("other", leaf.Report{Key: "7", Wants: 1000}); got.Rate != 100 {
				t.Errorf("back: %v: another leaf has %v of 100", back, got.Rate)
			}
		})
	}
}
