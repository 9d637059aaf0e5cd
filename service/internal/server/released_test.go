package server_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

var record = flag.String("record", "", "record the state of this version as testdata/released/`NAME`")

// A releasedState says what a state has.
type releasedState struct {
	Used   map[string]int    // tokens of each key of rate/…
	Leases map[string]string // ids of leases of one unit, by key
	Grants map[string]string // ids of grants of four tokens, by key
}

// releasedRules have all that a state can have.
func releasedRules() []config.Rule {
	day := func(name string, a config.Algorithm) config.Rule {
		return config.Rule{Name: name, Glob: name + ":*", Quota: quota(100, 24*time.Hour, a)}
	}
	tokens := day("tokens", config.GCRA)
	tokens.Candidate = ptr(quota(50, 24*time.Hour, config.GCRA))
	whole := day("whole", config.GCRA)
	whole.Per = config.PerRule
	own := day("own", config.GCRA)
	own.OwnQuota = true
	jobs := config.Rule{Name: "jobs", Glob: "job:*", Concurrency: &config.Concurrency{Limit: 2, TTL: time.Hour}}
	return []config.Rule{tokens, whole, day("fixed", config.Fixed), day("sliding", config.Sliding), own, jobs}
}

// ownRequest brings a quota of 100 a day.
func ownRequest(n int) *decider.Request {
	return &decider.Request{Key: "own:f", N: n, Quota: &decider.Quota{Count: 100, Period: 24 * time.Hour, Burst: 100}}
}

// recordState writes a state with some counts, leases and grants.
func recordState(t *testing.T, path string) {
	d := newDesk(t, server.Config{}, releasedRules()...)
	st := releasedState{Used: map[string]int{}, Leases: map[string]string{}, Grants: map[string]string{}}
	time.Sleep(time.Hour)
	for i, key := range []string{"tokens:a", "tokens:b", "whole:c", "fixed:d", "sliding:e"} {
		st.Used[key] = 10*i + 4
		var v decider.Verdict
		d.Decide(&decider.Request{Key: key, N: 10 * i}, &v)
		d.Decide(&decider.Request{Key: key, N: 4, WantID: true}, &v)
		st.Grants[key] = string(d.AppendGrantID(nil, v.Grant, key))
	}
	var v decider.Verdict
	d.Decide(ownRequest(30), &v)
	for _, key := range []string{"job:a", "job:b"} {
		l, err := d.Acquire(t.Context(), decider.LeaseRequest{Key: key, N: 1})
		must(t, err)
		st.Leases[key] = l.ID
	}
	must(t, d.SaveFile(path+".state", true))
	text, err := json.MarshalIndent(&st, "", " ")
	must(t, err)
	must(t, os.WriteFile(path+".json", append(text, '\n'), 0o644))
}

// The states of releases are restored: counts, leases and grants. What this version writes next is
// restored as well.
func TestReleasedStates(t *testing.T) {
	dir := "testdata/released"
	if *record != "" {
		bubble(t, func(t *testing.T) { recordState(t, filepath.Join(dir, *record)) })
		return
	}
	releases, err := filepath.Glob(dir + "/*.state")
	if err != nil || len(releases) < 2 {
		t.Fatal(releases, err)
	}
	for _, path := range releases {
		release := strings.TrimSuffix(path, ".state")
		t.Run(filepath.Base(release), func(t *testing.T) {
			var st releasedState
			text, err := os.ReadFile(release + ".json")
			must(t, err)
			must(t, json.Unmarshal(text, &st))
			bubble(t, func(t *testing.T) {
				time.Sleep(time.Hour) // when the state was written
				d := newDesk(t, server.Config{}, releasedRules()...)
				done, err := d.LoadFile(path)
				if err != nil || done.Crashed || done.Rules != 5 || done.Leases != len(st.Leases) || len(done.Skipped) > 0 {
					t.Fatalf("%+v, %v", done, err)
				}
				d.hasState(&st)
				next := filepath.Join(t.TempDir(), "next")
				must(t, d.SaveFile(next, true))
				d = newDesk(t, server.Config{}, releasedRules()...)
				if done, err := d.LoadFile(next); err != nil || done.Crashed {
					t.Fatalf("%+v, %v", done, err)
				}
				d.hasState(&st)
				for key, id := range st.Grants {
					if done, err := d.Settle(key, id, 0); err != nil || done.Was != 4 || done.Charged < 0 || done.Charged > 4 {
						t.Errorf("%s: %+v, %v: want a settlement", key, done, err)
					}
					if _, err := d.Settle(key, id, 0); err != decider.ErrNoGrant {
						t.Errorf("%s: %v: settled twice", key, err)
					}
				}
			})
		})
	}
}

// hasState checks that what is used is used, and what is held is held.
func (d desk) hasState(st *releasedState) {
	d.t.Helper()
	for key, used := range st.Used {
		v := d.ask(key, 0)
		if left, _ := v.Remaining(); left < 100-used || left > 100-used+1 {
			d.t.Errorf("%s: %d left, want %d", key, left, 100-used)
		}
		if v := d.ask(key, 101-used+1); v.OK {
			d.t.Errorf("%s: refilled", key)
		}
	}
	var v decider.Verdict
	d.Decide(ownRequest(0), &v)
	if left, _ := v.Remaining(); left != 70 {
		d.t.Errorf("%d left of a quota of a request, want 70", left)
	}
	for key, id := range st.Leases {
		if _, err := d.Renew(key, id, 0); err != nil {
			d.t.Errorf("%s: %v", key, err)
		}
		if l, err := d.Acquire(d.t.Context(), decider.LeaseRequest{Key: key, N: 2}); err == nil {
			d.t.Errorf("%s: %+v beside the lease that is held", key, l)
		}
	}
}
