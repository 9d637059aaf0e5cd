//go:build system

package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/redistest"
)

// A client that knows all members asks the owner of each key itself. When the owner dies, it
// asks another member, without an error.
func TestPeersClient(t *testing.T) {
	t.Parallel()
	f := startPeerFleet(t, "--rules", file(t, "rules.yaml", peerRules))
	keys := []string{f.ownedBy(0, "a"), f.ownedBy(1, "b"), f.ownedBy(2, "c")}
	var before [fleetSize]int
	for i := range fleetSize {
		before[i] = f.forwarded(i)
	}
	var wasAway atomic.Int32
	c, err := client.New(client.Config{URLs: f.urls, Away: client.Deny, Timeout: 5 * time.Second, OnAway: func(err error) {
		if err != nil {
			wasAway.Add(1)
		}
	}})
	fatal(t, err)
	defer c.Close()
	load := redistest.StartLoad(2*len(keys), 10*time.Millisecond, func(caller int) (bool, string, error) {
		d, err := c.Take(context.Background(), keys[caller%len(keys)], 1)
		return d.OK, "", err
	})
	time.Sleep(time.Second)
	for i := range fleetSize {
		if n := f.forwarded(i) - before[i]; n != 0 {
			t.Errorf("instance %d has forwarded %d requests", i, n)
		}
	}
	f.processes[2].kill()
	f.untilStatuses("live live dead", 0, 1)
	since := load.Now()
	time.Sleep(2 * time.Second)
	if err := load.Stop(); err != nil {
		t.Error(err)
	}
	given := [3]int{}
	for _, a := range load.Answers(since, time.Hour) {
		if a.Granted {
			given[a.Caller%len(keys)]++
		}
	}
	for i, n := range given {
		if n == 0 {
			t.Errorf("no tokens of the key of instance %d after the death of instance 2", i)
		}
	}
	if st := c.Stats(); st.Local > 0 || wasAway.Load() > 0 {
		t.Errorf("%+v, away %d times: want that members decide", st, wasAway.Load())
	}
}

// leafRules are rules of which leaves have assignments.
const leafRules = `rules: [{name: all, glob: "*", rate: 200/s, burst: 40}]`

// Leaves of a fleet have assignments of several owners: a client, and an instance that is a leaf. One of the
// owners dies, and is replaced: the leaves go on, and all together keep to the limit.
func TestPeersLeaves(t *testing.T) {
	t.Parallel()
	const rate, burst = 200, 40
	rules := file(t, "rules.yaml", leafRules)
	f := startPeerFleet(t, "--rules", rules, "--rlqs-ttl", "2s")
	keys := []string{f.ownedBy(0, "a"), f.ownedBy(1, "b"), f.ownedBy(2, "c")}
	zone := startProcess(t, f.name, "--rules", rules, "--upstream", f.urls[1])
	c, err := client.New(client.Config{URL: f.urls[0], Leaf: &client.LeafConfig{}, Away: client.Local, Instances: 2, Timeout: 2 * time.Second})
	fatal(t, err)
	defer c.Close()
	load := redistest.StartLoad(4*len(keys), 5*time.Millisecond, func(caller int) (bool, string, error) {
		key := keys[caller%len(keys)]
		if caller%2 == 0 {
			d, err := c.Take(context.Background(), key, 1)
			return d.OK, "", err
		}
		a, err := tryAsk(f.client, "POST", zone.public+"/rate/"+key)
		if err == nil && a.status != http.StatusOK && a.status != http.StatusTooManyRequests {
			t.Errorf("the zone: %v", a)
		}
		return a.status == http.StatusOK, stepOf(a.header.Get("Weir-Degraded")), err
	})
	steady := func() { // the members have learned, and leaves have assignments of all owners
		t.Helper()
		time.Sleep(4 * time.Second)
		before, since := c.Stats().Leaf, load.Now()
		time.Sleep(time.Second)
		after := c.Stats().Leaf
		if after.Assigned != len(keys) || after.ByAssigned == before.ByAssigned || after.Asked != before.Asked || after.ByShare != before.ByShare {
			t.Errorf("the client: %+v, before %+v: want decisions by assignments alone", after, before)
		}
		for _, a := range load.Answers(since, time.Hour) {
			if a.Step == "share" || a.Step == "rule" {
				t.Errorf("the zone decides by %s", a.Step)
				break
			}
		}
	}
	steady()
	f.processes[2].kill()
	f.untilStatuses("live live dead", 0, 1)
	steady()
	f.start(2)
	f.untilStatuses("live live live", 0, 1, 2)
	steady()
	if err := load.Stop(); err != nil {
		t.Error(err)
	}
	byKey := map[string]redistest.Answers{}
	for _, a := range load.Answers(0, time.Hour) {
		byKey[keys[a.Caller%len(keys)]] = append(byKey[keys[a.Caller%len(keys)]], a)
	}
	for _, key := range keys {
		excess := byKey[key].Excess(rate)
		t.Logf("%s: %v, %.1f tokens beyond the rate", key, byKey[key].Steps(), excess)
		if most := 2.0*burst + rate; excess > most { // see package ring
			t.Errorf("%s: %.1f tokens beyond the rate, want at most %.0f", key, excess, most)
		}
	}
}
