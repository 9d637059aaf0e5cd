package daemon

import (
	"fmt"
	"slices"
	"testing"
)

// An instance that is a tier above itself knows that, and how; and the tiers are bounded.
func TestCheckTiers(t *testing.T) {
	chain := func(n int) (all []tierInfo) {
		for i := range n {
			all = append(all, tierInfo{fmt.Sprint("n", i), fmt.Sprint("http://u", i)})
		}
		return all
	}
	for _, c := range []struct {
		node string
		all  []tierInfo
		keep int // of all
		want string
	}{
		{"own", nil, 0, ""},
		{"own", []tierInfo{{"b", ""}}, 1, ""},
		{"own", chain(maxTiers), maxTiers, ""},
		{"own", chain(maxTiers + 9), maxTiers + 1, "there are more than 8 upstreams, one above the other: 17"},
		{"n0", chain(1), 1, "its upstreams are a cycle: this instance -> http://up (this instance): start one of them without --upstream"},
		{"n1", chain(4), 2, "its upstreams are a cycle: this instance -> http://up -> http://u0 (this instance): start one of them without --upstream"},
	} {
		kept, err := checkTiers(c.node, "http://up", c.all)
		if got := fmt.Sprint(err); got != c.want && (err != nil || c.want != "") || !slices.Equal(kept, c.all[:c.keep]) {
			t.Errorf("%s of %v: %v, %v: want %s", c.node, c.all, kept, err, c.want)
		}
	}
}
