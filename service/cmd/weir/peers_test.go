//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
)

// Bursts and rate of the keys of these tests.
const (
	peerBurst = 50
	peerRate  = 20 // a second
)

var peerRules = fmt.Sprintf(`rules:
  - {name: jobs, glob: "job*", concurrency: {limit: 4, ttl: 5s, max_ttl: 5s}}
  - {name: once, glob: "once*", rate: 30/h}
  - {name: slow, glob: "slow*", rate: 5/s, burst: 1}
  - {name: all, glob: "*", rate: %d/s, burst: %d}
`, peerRate, peerBurst)

// One of three members is killed and replaced. The other two answer all requests, waiting ones
// too. A key that the killed member owned gets its burst twice at most, besides the shares of the
// other members until they have agreed; other keys get nothing more.
func TestPeersKill(t *testing.T) {
	t.Parallel()
	f := startPeerFleet(t, "--rules", file(t, "rules.yaml", peerRules))
	moves, stays := f.ownedBy(2, "a"), f.ownedBy(0, "b")
	l := f.startLoad(moves, stays)
	time.Sleep(time.Second)
	f.down[2].Store(true)
	f.processes[2].kill()
	f.untilStatuses("live live dead", 0, 1)
	time.Sleep(time.Second)
	f.start(2)
	f.untilStatuses("live live live", 0, 1, 2)
	time.Sleep(2 * time.Second)
	answers := l.stop()
	for key, most := range map[string]float64{moves: 2*peerBurst + 2*peerBurst/fleetSize + peerRate, stays: peerBurst} {
		excess := answers[key].Excess(peerRate)
		t.Logf("%s: %v, %.1f tokens beyond the rate, at most %.0f", key, answers[key].Steps(), excess, most)
		if excess > most {
			t.Errorf("%s: %.1f tokens beyond the rate, want at most %.0f", key, excess, most)
		}
	}
}

// All members are restarted in turn, under load. Every request is answered, except by a process
// that has ended, and no key gets a burst more than its limit: its state moves.
func TestPeersRollingRestart(t *testing.T) {
	t.Parallel()
	f := startPeerFleet(t, "--rules", file(t, "rules.yaml", peerRules))
	keys := []string{f.ownedBy(0, "a"), f.ownedBy(1, "b"), f.ownedBy(2, "c")}
	held := f.holdUnits("job:1")
	l := f.startLoad(keys...)
	time.Sleep(time.Second)
	for i := range fleetSize {
		f.down[i].Store(true)
		f.processes[i].end()
		f.start(i)
		f.untilStatuses("live live live", 0, 1, 2)
		time.Sleep(500 * time.Millisecond)
	}
	answers := l.stop()
	if most := held(); most > 4 {
		t.Errorf("%d units were held at once, want 4", most)
	}
	for _, key := range keys {
		excess := answers[key].Excess(peerRate)
		t.Logf("%s: %v, %.1f tokens beyond the rate", key, answers[key].Steps(), excess)
		if most := peerBurst + peerBurst/fleetSize + 2.0*peerRate; excess > most {
			t.Errorf("%s: %.1f tokens beyond the rate, want at most %.0f", key, excess, most)
		}
	}
}

// holdUnits leases units of a key at all members, and returns the most that were held at once
// when stop is called.
func (f *peerFleet) holdUnits(key string) (stop func() (most int)) {
	var mu sync.Mutex // guards what follows
	held, most, leases := 0, 0, 0
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		held += n
		most, leases = max(most, held), leases+max(n, 0)
	}
	load := redistest.StartLoad(2*fleetSize, 10*time.Millisecond, func(caller int) (bool, string, error) {
		got := f.take(caller%fleetSize, "/lease/"+key)
		var l heldLease
		if !got.ok || json.Unmarshal([]byte(got.body), &l) != nil {
			return false, got.step, nil
		}
		if got.step == "exact" { // others are of the share of a member
			count(1)
			time.Sleep(20 * time.Millisecond)
			count(-1)
		}
		for i := caller; ; i++ { // any member ends the lease
			at := i % fleetSize
			before := f.down[at].Load()
			a, err := tryAsk(f.client, "DELETE", f.urls[at]+"/lease/"+key+"/"+l.ID)
			if err == nil && a.status < 500 {
				if a.status != http.StatusOK {
					f.t.Errorf("instance %d: DELETE /lease, which instance %d granted, %s: %v", at, caller%fleetSize, got.step, a)
				}
				return true, got.step, nil
			}
			if !before && !f.down[at].Load() {
				f.t.Errorf("instance %d: DELETE /lease: %v, %v", at, a, err)
				return true, got.step, nil
			}
		}
	})
	return func() int {
		_ = load.Stop() // it has no error
		if f.t.Logf("%d leases, at most %d at once", leases, most); leases == 0 {
			f.t.Error("no leases")
		}
		return most
	}
}

// While the members stay, requests that wait for a key get their turns in order of arrival, at
// whichever members they arrive.
func TestPeersOrder(t *testing.T) {
	t.Parallel()
	f := startPeerFleet(t, "--rules", file(t, "rules.yaml", peerRules))
	key := f.ownedBy(1, "slow")
	f.take(0, "/rate/"+key)
	var mu sync.Mutex
	var turns []int
	var all sync.WaitGroup
	for i := range 9 {
		all.Go(func() {
			if got := f.take(i%fleetSize, "/rate/"+key+"?canWait=true&timeout=15s"); !got.ok {
				t.Errorf("request %d: %+v", i, got)
			}
			mu.Lock()
			turns = append(turns, i)
			mu.Unlock()
		})
		f.processes[1].waiting(i + 1)
	}
	all.Wait()
	for at, i := range turns {
		if at != i {
			t.Fatalf("the turns were %v", turns)
		}
	}
}

// A member that is listed and never comes owns no keys.
func TestPeersNeverComes(t *testing.T) {
	t.Parallel()
	f := newPeerFleet(t, "--rules", file(t, "rules.yaml", peerRules))
	f.start(0)
	f.start(1)
	f.untilStatuses("live live dead", 0, 1)
	for n := range 20 {
		given := 0
		for range 20 {
			for i := range 2 {
				got := f.take(i, fmt.Sprintf("/rate/once:%d", n))
				if got.ok {
					given++
				}
				if got.step != "exact" {
					t.Errorf("%+v", got)
				}
			}
		}
		if given != 30 {
			t.Errorf("key %d: %d tokens, want 30", n, given)
		}
	}
}

// The environment of GoCC's StatefulSet is enough, for its API.
func TestPeersGoCC(t *testing.T) {
	f := newPeerFleet(t)
	t.Setenv("INSTANCE_URLS", strings.Join(f.urls, ","))
	t.Setenv("MAX_REQUESTS", "5")
	t.Setenv("WINDOW_MILLIS", "3600000")
	for i := range fleetSize {
		f.processes[i] = startProcess(t, f.name, "--listen", strings.TrimPrefix(f.urls[i], "http://"))
	}
	f.untilStatuses("live live live", 0, 1, 2)
	for n := range 9 {
		for i := range 6 {
			got := ask(t, f.client, "GET", fmt.Sprintf("%s/rate/key%d", f.urls[(n+i)%fleetSize], n))
			if want := i < 5; (got.status == http.StatusOK) != want {
				t.Errorf("key %d, request %d: %v", n, i, got)
			}
		}
	}
	var grant struct {
		ID string `json:"request_id"`
	}
	fatal(t, json.Unmarshal([]byte(f.take(0, "/rate/other").body), &grant))
	for i, want := range []int{200, 404, 404} {
		if a := ask(t, f.client, "DELETE", f.urls[i]+"/rate/other/"+grant.ID); a.status != want {
			t.Errorf("DELETE at instance %d: %v, want %d", i, a, want)
		}
	}
	for i, url := range f.urls {
		if a := ask(t, f.client, "GET", url+"/healthz"); a.status != http.StatusOK {
			t.Errorf("%v", a)
		}
		if a := ask(t, f.client, "GET", url+"/debug"); !strings.Contains(a.body, "key1") || !strings.Contains(a.body, "key2") || !strings.Contains(a.body, "key3") {
			t.Errorf("instance %d: /debug does not have all keys: %v", i, a)
		}
	}
}

// Peers without the secret are refused.
func TestPeersSecret(t *testing.T) {
	t.Parallel()
	f := newPeerFleet(t, "--rules", file(t, "rules.yaml", peerRules))
	secret, other := file(t, "secret", "0123456789abcdef\n"), file(t, "other", "0123456789abcdeX")
	for i, path := range []string{secret, secret, other} {
		args := []string{"--listen", strings.TrimPrefix(f.urls[i], "http://"), "--peers", strings.Join(f.urls, ","), "--peer-secret-file", path}
		f.processes[i] = startProcess(t, f.name, args...)
	}
	f.untilStatuses("live live dead", 0, 1)
	f.processes[0].until("a peer cannot be used")
	f.processes[2].until("a peer was refused")
	if got := f.statuses(2); got != "cut cut live, no quorum" {
		t.Errorf("the stranger knows %s", got)
	}
}

// Two peers are too few to tell a death from a broken network: the log says so.
func TestPeersTwo(t *testing.T) {
	serving(t, "--peers", "http://127.0.0.1:1,http://127.0.0.1:2").until("there are two peers")
}
