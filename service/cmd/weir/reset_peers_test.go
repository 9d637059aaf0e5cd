//go:build system

package main

import (
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

// With peers, the owner of the key resets it, whichever instance is asked.
func TestResetPeers(t *testing.T) {
	t.Parallel()
	f := newPeerFleet(t, "--rules", file(t, "rules.yaml", `rules: [{name: user, glob: "*", rate: 3/h}]`))
	for i := range fleetSize {
		f.admin[i] = "127.0.0.1:" + redistest.FreePort(t)
		f.start(i)
	}
	f.untilStatuses("live live live", 0, 1, 2)
	for i := range fleetSize {
		key := f.ownedBy(i, "a")
		for round := range 2 {
			for n := range 4 {
				want := 200
				if n == 3 {
					want = 429
				}
				if a := ask(t, f.client, "POST", f.urls[n%fleetSize]+"/rate/"+key); a.status != want {
					t.Errorf("owner %d, round %d, request %d: %d %s", i, round, n, a.status, a.body)
				}
			}
			if code, stdout, stderr := weir(t, "reset", "--admin", f.admin[0], key); code != 0 || stdout != key+": rule user: 3 tokens returned\n" {
				t.Errorf("%d, %s, %s", code, stdout, stderr)
			}
		}
	}
}
