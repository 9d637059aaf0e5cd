//go:build system

package main

import (
	"fmt"
	"testing"
	"time"
)

// A fleet of two grows to three and shrinks again, one instance after the other, while their lists differ. Each key has one
// owner, nothing is refilled, and the log and the metric tell which lists differ.
func TestPeersGrowAndShrink(t *testing.T) {
	t.Parallel()
	f := newPeerFleet(t, "--rules", file(t, "rules.yaml", `rules: [{name: once, glob: "*", rate: 30/day}]`), "--peer-secret-file", file(t, "secret", "0123456789abcdef"))
	two := f.urls[:2]
	f.lists[0], f.lists[1] = two, two
	f.start(0)
	f.start(1)
	f.untilStatuses("live live", 0, 1)
	var keys []string
	for i := range 20 { // some of these move
		keys = append(keys, fmt.Sprintf("once:%d", i))
	}
	wantAll := func(want int, members ...int) {
		t.Helper()
		for _, key := range keys {
			given := 0
			for _, i := range members {
				for range 31 {
					got := f.take(i, "/rate/"+key)
					if got.ok {
						given++
					}
					if got.step != "exact" {
						t.Errorf("%s at instance %d: %+v", key, i, got)
					}
				}
			}
			if given != want {
				t.Errorf("%s: %d tokens, want %d", key, given, want)
			}
		}
	}
	differs := func(at, from int) int {
		return metricOf(t, f.client, f.processes[at].admin, fmt.Sprintf(`weir_peer_list_differs{name="serve",peer=%q}`, f.urls[from]))
	}
	roll := func(i int, list []string) {
		t.Helper()
		f.down[i].Store(true)
		f.processes[i].end()
		f.processes[i].until("the keys of this instance have moved to its peers")
		f.lists[i] = list
		f.start(i)
	}
	wantAll(30, 0, 1)
	f.start(2)
	f.untilStatuses("live live live", 0, 1, 2)
	wantAll(0, 0, 1, 2)
	f.processes[0].until("a peer has another list of peers: give all instances the same --peers\" peer=" + f.urls[2] + ` only_here="" only_there=` + f.urls[2])
	if differs(0, 2) != 1 || differs(2, 0) != 1 || differs(0, 1) != 0 {
		t.Error("the metric does not tell which lists differ")
	}
	for _, i := range []int{1, 0} {
		roll(i, f.urls)
		f.untilStatuses("live live live", 0, 1, 2)
		time.Sleep(time.Second)
		wantAll(0, 0, 1, 2)
	}
	if differs(0, 1) != 0 || differs(2, 0) != 0 {
		t.Error("the metric tells of lists that are the same")
	}
	f.down[2].Store(true)
	f.processes[2].end()
	roll(1, two)
	f.untilStatuses("live live dead", 1) // the other one lists it
	f.untilStatuses("live live left", 0)
	roll(0, two)
	f.untilStatuses("live live", 0, 1)
	wantAll(0, 0, 1)
}
