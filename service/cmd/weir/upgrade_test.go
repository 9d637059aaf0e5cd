//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
)

// released is the commit of the release before this version.
const released = "f6d7ae140dc5c29435d384af98417784717e060a"

// releasedBinary builds the binary of the release once for all tests.
var releasedBinary = sync.OnceValues(func() (string, error) {
	if err := exec.Command("git", "cat-file", "-e", released+"^{commit}").Run(); err != nil { // a shallow clone
		if out, err := exec.Command("git", "fetch", "--depth=1", "origin", released).CombinedOutput(); err != nil {
			return "", fmt.Errorf("this clone does not have the commit %s, which these tests build: run git fetch --unshallow (%w: %s)", released, err, out)
		}
	}
	dir, err := os.MkdirTemp("", "weir-released-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	script := fmt.Sprintf(`git -C "$(git rev-parse --show-toplevel)" archive %s | tar -x -C '%s'`, released, dir)
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		return "", fmt.Errorf("git archive: %w: %s", err, out)
	}
	return build("weir-released", "./cmd/weir", "-C", filepath.Join(dir, "service"), "-trimpath")
})

// versions returns the binaries of the release and of this version.
func versions(t *testing.T) (before, after string) {
	t.Helper()
	before, err := releasedBinary()
	fatal(t, err)
	return before, binary(t)
}

// A grantedTake is the answer to a take that was allowed.
type grantedTake struct {
	ID string `json:"request_id"`
}

// settle gives a take of one token back by a URL, and returns the status.
func settle(t *testing.T, url, key string, taken answered) int {
	t.Helper()
	var g grantedTake
	fatal(t, json.Unmarshal([]byte(taken.body), &g))
	return ask(t, http.DefaultClient, "DELETE", url+"/rate/"+key+"/"+g.ID).status
}

// Members of a fleet are upgraded in turn under load, and then downgraded. Every request is answered
// but by a process that has ended, no key gets its tokens twice, no lease is lost or granted twice,
// and what the release has granted can be settled.
func TestUpgradePeers(t *testing.T) {
	t.Parallel()
	before, after := versions(t)
	f := newPeerFleet(t, "--rules", file(t, "rules.yaml", peerRules), "--state-interval", "1s")
	f.name = before
	for i := range fleetSize {
		f.own[i] = []string{"--state", filepath.Join(t.TempDir(), "state")}
	}
	f.startAll(t)
	keys := []string{f.ownedBy(0, "a"), f.ownedBy(1, "b"), f.ownedBy(2, "c")}
	once := []string{f.ownedBy(0, "once:a"), f.ownedBy(1, "once:b"), f.ownedBy(2, "once:c")}
	given := map[string]int{}
	takeOnce := func(n int) {
		for _, key := range once {
			for i := range n {
				if f.take(i%fleetSize, "/rate/"+key).ok {
					given[key]++
				}
			}
		}
	}
	takeOnce(10)
	var leases []heldLease
	for range 4 {
		var l heldLease
		fatal(t, json.Unmarshal([]byte(f.take(0, "/lease/job:kept").body), &l))
		leases = append(leases, l)
	}
	var grants []answered
	for range 3 {
		grants = append(grants, ask(t, f.client, "POST", f.urls[0]+"/rate/"+once[1]))
	}
	given[once[1]] += 3
	held := f.holdUnits("job:1")
	load := f.startLoad(keys...)
	renewed := redistest.StartLoad(1, 500*time.Millisecond, func(int) (bool, string, error) {
		for _, l := range leases {
			for i := range fleetSize {
				if !f.down[i].Load() {
					if got := f.take(i, "/lease/job:kept/"+l.ID+"?ttl=5s"); !got.ok && got.status != 0 {
						t.Errorf("instance %d: a lease is lost: %+v", i, got)
					}
					break
				}
			}
		}
		if got := f.take(1, "/lease/job:kept"); got.ok && got.step == "exact" {
			t.Errorf("a lease beside four that are held: %+v", got)
		}
		return true, "", nil
	})
	for _, name := range []string{after, before} {
		f.name = name
		for i := range fleetSize {
			f.down[i].Store(true)
			f.processes[i].end()
			f.start(i)
			f.untilStatuses("live live live", 0, 1, 2)
			time.Sleep(500 * time.Millisecond)
			takeOnce(2)
			if status := settle(t, f.urls[i], once[1], grants[i]); name == after && status == http.StatusOK {
				given[once[1]]--
			} else if name == after {
				t.Errorf("instance %d: status %d to a settlement of what the release has granted", i, status)
			}
		}
	}
	_ = renewed.Stop()
	answers := load.stop()
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
	takeOnce(40)
	for _, key := range once {
		if n := given[key]; n < 30-fleetSize || n > 31 { // a token comes after two minutes
			t.Errorf("%s: %d tokens, want 30", key, n)
		}
	}
}

// Instances that share a store are upgraded and downgraded in turn under load.
func TestUpgradeStore(t *testing.T) {
	t.Parallel()
	before, after := versions(t)
	rules := fleetRules + "  - {name: once, glob: \"once*\", rate: 30/h}\n"
	f := startStoreFleetOf(t, before, "redis://"+redistest.Start(t, "redis-server").Addr, rules, "--store-timeout", "5s")
	for i := range f.urls {
		f.untilExact(i, "/rate/own:0")
	}
	stop := f.holdUnits()
	load := redistest.StartLoad(3*redistest.TrialInstances, 5*time.Millisecond, f.transports())
	given := 0
	takeOnce := func(n int) (last answered) {
		for i := range n {
			if a := f.ask(i%len(f.urls), "POST", "/rate/once"); a.status == http.StatusOK {
				given++
				last = a
			}
		}
		return last
	}
	granted := takeOnce(9)
	for _, name := range []string{after, before} {
		f.name = name
		for i := range f.processes {
			f.restarting[i].Store(true)
			f.processes[i].end()
			f.processes[i] = f.start[i]()
			f.restarting[i].Store(false)
			time.Sleep(200 * time.Millisecond)
			takeOnce(2)
		}
		if name == after {
			if status := settle(t, f.urls[1], "once", granted); status != http.StatusOK {
				t.Errorf("status %d to a settlement of what the release has granted", status)
			}
		}
	}
	if err := load.Stop(); err != nil {
		t.Error(err)
	}
	if most := stop(); most > fleetUnits {
		t.Errorf("%d units were held, want at most %d", most, fleetUnits)
	}
	all := load.Answers(0, time.Hour)
	steps, excess := all.Steps(), all.Excess(redistest.TrialRate)
	t.Logf("%v, %.1f tokens beyond the rate", steps, excess)
	if exact := steps["exact"]; exact == 0 || excess > redistest.TrialBurst {
		t.Errorf("%v, %.1f tokens beyond the rate, want at most %d", steps, excess, redistest.TrialBurst)
	}
	if delete(steps, ""); len(steps) > 1 {
		t.Errorf("%v: want exact decisions", steps)
	}
	takeOnce(60)
	if given < 30 || given > 32 { // one was given back
		t.Errorf("%d tokens, want 30 or 31", given)
	}
}

// A state file is read by the version after and the version before the one that wrote it.
func TestUpgradeState(t *testing.T) {
	t.Parallel()
	before, after := versions(t)
	state := filepath.Join(t.TempDir(), "state")
	rules := file(t, "rules.yaml", peerRules)
	var p *process
	run := func(name string) {
		p = startProcess(t, name, "--rules", rules, "--state", state)
	}
	run(before)
	given := 0
	take := func(n int) {
		for range n {
			if p.post("/rate/once").status == http.StatusOK {
				given++
			}
		}
	}
	take(10)
	var l heldLease
	fatal(t, json.Unmarshal([]byte(ask(t, http.DefaultClient, "POST", p.public+"/lease/job?n=4&ttl=5s").body), &l))
	granted := p.post("/rate/once")
	given++
	for i, name := range []string{after, before} {
		p.end()
		run(name)
		if line := p.until("counts restored"); !strings.Contains(line, "leases=1") {
			t.Errorf("%s: %s", name, line)
		}
		if a := p.post("/lease/job/" + l.ID + "?ttl=5s"); a.status != http.StatusOK {
			t.Errorf("%s: a lease is lost: %v", name, a)
		}
		if a := p.post("/lease/job"); a.status != http.StatusTooManyRequests {
			t.Errorf("%s: a lease beside four units that are held: %v", name, a)
		}
		if i == 0 {
			if status := settle(t, p.public, "once", granted); status != http.StatusOK {
				t.Errorf("status %d to a settlement of what the release has granted", status)
			}
		}
		take(5)
	}
	take(40)
	if given < 30 || given > 32 { // one was given back
		t.Errorf("%d tokens, want 30 or 31", given)
	}
	p.end()
}

// Upstreams and leaves of the two versions work together, also while the upstream recovers from a
// crash.
func TestUpgradeLeaves(t *testing.T) {
	t.Parallel()
	before, after := versions(t)
	for _, pair := range [][2]string{{before, after}, {after, before}} {
		upstream, leaf := pair[0], pair[1]
		t.Run("leaf "+filepath.Base(leaf), func(t *testing.T) {
			t.Parallel()
			rules, state := file(t, "rules.yaml", peerRules), filepath.Join(t.TempDir(), "state")
			port := "127.0.0.1:" + redistest.FreePort(t)
			run := func() *process {
				return startProcess(t, upstream, "--rules", rules, "--state", state, "--listen", port)
			}
			up := run()
			low := startProcess(t, leaf, "--rules", rules, "--upstream", "http://"+port, "--upstream-timeout", "5s")
			take := func(key string, n int) (given int) {
				for range n {
					switch a := low.post("/rate/" + key); a.status {
					case http.StatusOK:
						given++
					case http.StatusTooManyRequests:
					default:
						t.Errorf("%s: %v", key, a)
					}
				}
				return given
			}
			if given := take("once", 40); given < 30 || given > 31 {
				t.Errorf("%d tokens, want 30", given)
			}
			load := redistest.StartLoad(4, 2*time.Millisecond, func(int) (bool, string, error) {
				a := low.post("/rate/a")
				if a.status != http.StatusOK && a.status != http.StatusTooManyRequests {
					return false, "", fmt.Errorf("%v", a)
				}
				return a.status == http.StatusOK, stepOf(a.header.Get("Weir-Degraded")), nil
			})
			granted := low.post("/rate/b")
			if status := settle(t, low.public, "b", granted); status != http.StatusOK {
				t.Errorf("status %d to a settlement", status)
			}
			time.Sleep(3 * time.Second)
			if err := load.Stop(); err != nil {
				t.Error(err)
			}
			if excess := load.Answers(0, time.Hour).Excess(peerRate); excess > peerBurst {
				t.Errorf("%.1f tokens beyond the rate, want at most %d", excess, peerBurst)
			}
			if a := low.post("/lease/job"); a.status != http.StatusOK {
				t.Errorf("a lease: %v", a)
			}
			up.kill()
			up = run()
			up.until("new leases wait")
			redistest.Until(t, "the link to the upstream", func() error {
				if a := low.post("/lease/job:other"); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
					return fmt.Errorf("a lease while the upstream recovers: %v", a)
				}
				return nil
			})
			low.end()
			up.end()
		})
	}
}
