//go:build system && !race

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/lab/internal/incident"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

const ms = time.Millisecond

// Incidents of services that real callers ask through a real proxy.
var scenes = []*scene{
	{
		cause: incident.Slow, suffers: []string{"--limit", "10000"}, pods: 1, workers: 20, queue: 300,
		routes:  map[string]work{"orders": {own: 10 * ms, dependency: 40 * ms}, "catalog": {own: 15 * ms}},
		streams: []stream{{path: "/orders/{n}", rate: "90..160@12s,160..100@12s,120"}, {path: "/catalog", rate: "20"}},
		happens: func(pods []*pod) { pods[0].slower.Store(int64(200 * ms)) },
		left:    20, slower: 200 * ms,
	},
	{
		cause: incident.LostCapacity, suffers: []string{"--limit", "80"}, pods: 1, workers: 16, queue: 300,
		routes:  map[string]work{"search": {own: 60 * ms}},
		streams: []stream{{path: "/search", rate: "100..170@16s,120@4s,150"}},
		happens: func(pods []*pod) { pods[0].workers.SetAlgorithm(limit.Fixed(5)) },
		left:    5,
	},
	{
		cause: incident.RetryStorm, suffers: []string{"--limit", "10000"}, pods: 1, workers: 10, queue: 400,
		routes:  map[string]work{"pay": {own: 50 * ms}},
		streams: []stream{{path: "/pay", rate: "110..150@20s,130"}},
		retries: 3,
		happens: func(pods []*pod) { pods[0].stalled.Store(time.Now().Add(stall).UnixNano()) },
		left:    10, nothingServed: stall,
	},
	{
		cause: incident.BadOrigin, suffers: []string{"--limit", "200"}, pods: 3, workers: 8, queue: 300,
		routes:  map[string]work{"users": {own: 60 * ms}},
		streams: []stream{{path: "/users/{n}", rate: "140..210@12s,180..210@12s,200"}},
		happens: func(pods []*pod) { pods[1].fails.Store(math.Float64bits(0.7)) },
		left:    16,
	},
	{
		cause: incident.HeavyRoute, suffers: []string{"--limit", "100"}, pods: 1, workers: 12, queue: 300,
		routes:  map[string]work{"items": {own: 25 * ms}, "export": {own: 500 * ms}},
		streams: []stream{{path: "/items/{n}", rate: "130..220@16s,170"}, {path: "/export/{n}", rate: "30", new: true}},
		left:    12,
	},
}

// stall is how long the service of the retry storm stands still. The callers go on with the storm by themselves.
const stall = 3 * time.Second

var keep = flag.String("keep", "", "a directory for recordings of incidents of 100 s, which have numbers for names, and for truth.json")

// A truth describes an incident to someone with its recording.
type truth struct {
	Number  int       `json:"number"`
	Cause   string    `json:"cause"` // as package incident names it
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds_from_first_request"`
	Offered float64   `json:"offered_per_second"`
	Served  float64   `json:"served_per_second"`
	Could   float64   `json:"could_have_been_served_per_second"`
}

// The report on a recording names the cause of an incident, alone or beside one other, and when it began, and the setting really serves
// nine tenths of what can be served: of five incidents, in at least four.
func TestIncidents(t *testing.T) {
	weir := buildWeir(t)
	accounts := playAll(t, func(i int) *account {
		quiet := 30*time.Second + rand.N(15*time.Second)
		lasts := span{quiet, 30 * time.Second}
		if *keep != "" {
			lasts = span{quiet + 10*time.Second, 90*time.Second - quiet}
		}
		return scenes[i].run(t, weir, scenes[i].suffers, 0, lasts)
	})
	if *keep != "" {
		keepIncidents(t, accounts)
		return
	}
	settings, wrong := make([]*incident.Setting, len(scenes)), make([]string, len(scenes))
	for i, s := range scenes {
		a := accounts[i]
		if could := s.could(a); sum(a.served) > 0.8*could {
			t.Errorf("%s is no incident: %.1f requests/s were served, of %.1f", s.cause, sum(a.served), could)
		}
		said, began := advised(t, a.recording), startOf(t, a)
		settings[i] = said.Setting
		switch {
		case said.Cause != s.cause && !slices.Contains(said.Also, s.cause):
			wrong[i] = fmt.Sprintf("the cause is said to be %s", said.Cause)
		case said.Began == nil || math.Abs(*said.Began-began) > 5:
			wrong[i] = "it did not begin then"
		case said.Setting == nil:
			wrong[i] = "there is no setting"
		}
		t.Logf("%s: served %.1f of %.1f/s; it began at %.1f s; the report: %s", s.cause, sum(a.served), s.could(a), began, asJSON(t, said))
	}
	after := playAll(t, func(i int) *account {
		if settings[i] == nil {
			return nil
		}
		flags, without := proxyFlags(t, scenes[i].suffers, settings[i])
		return scenes[i].run(t, weir, flags, without, span{5 * time.Second, 24 * time.Second})
	})
	right := 0
	for i, s := range scenes {
		if a := after[i]; a != nil {
			saved := sum(a.served) / s.could(a)
			t.Logf("%s, with the setting: served %.1f of %.1f/s; before the incident, %.0f %% of what came", s.cause, sum(a.served), s.could(a), 100*a.well)
			if saved < 0.9 && wrong[i] == "" {
				wrong[i] = fmt.Sprintf("the setting saves %.0f %%", 100*saved)
			}
		}
		if wrong[i] == "" {
			right++
		} else {
			t.Logf("%s: %s", s.cause, wrong[i])
		}
	}
	if right < 4 {
		t.Errorf("%d of %d reports are right", right, len(scenes))
	}
}

// playAll plays all scenes at once. It plays them again if the machine was so busy that requests were sent late.
func playAll(t *testing.T, play func(i int) *account) []*account {
	t.Helper()
	for tries := 3; ; tries-- {
		all := make([]*account, len(scenes))
		var runs sync.WaitGroup
		for i := range scenes {
			runs.Go(func() { all[i] = play(i) })
		}
		runs.Wait()
		if t.Failed() {
			t.FailNow()
		}
		sent, late := 0, 0
		for _, a := range all {
			if a != nil {
				sent, late = sent+a.sent, late+a.late
			}
		}
		share := float64(late) / float64(max(sent, 1))
		t.Logf("%.1f %% of the requests were sent 100 ms late or more", 100*share)
		switch {
		case share <= 0.05:
			return all
		case tries == 1:
			t.Fatal("the machine is too busy")
		}
	}
}

// advised returns what weirlab advise says of a recording.
func advised(t *testing.T, recording []byte) *incident.Incident {
	t.Helper()
	name := filepath.Join(t.TempDir(), "it.rec")
	testrig.Must(t, os.WriteFile(name, recording, 0o600))
	code, stdout, stderr := weirlab(t, "advise", "--json", name)
	var a struct {
		Incident *incident.Incident `json:"incident"`
	}
	if err := json.Unmarshal([]byte(stdout), &a); err != nil || code != 0 || a.Incident == nil {
		t.Fatalf("weirlab advise: %d, %v, %s, %s", code, err, stdout, stderr)
	}
	return a.Incident
}

// startOf returns when an incident began, in seconds since the first request of its recording.
func startOf(t *testing.T, a *account) float64 {
	t.Helper()
	f, err := recorded.Read(bytes.NewReader(a.recording), "it")
	testrig.Must(t, err)
	return a.began.Sub(f.Epoch.Add(recorded.Came(&f.Records[0]))).Seconds()
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	testrig.Must(t, err)
	return string(b)
}

// proxyFlags returns the flags of weir proxy with a setting instead of the limit that was in force, and the number of the origin
// that the setting takes out, or 0.
func proxyFlags(t *testing.T, were []string, s *incident.Setting) (flags []string, without int) {
	t.Helper()
	switch {
	case s.Origin > 0 && s.Limit == "0":
		flags, without = were, int(s.Origin)
	case s.Class != "":
		file := filepath.Join(t.TempDir(), "rules.yaml")
		routes, _, _ := strings.Cut(s.Class, "*") // a pattern of a path and all below it
		testrig.Must(t, os.WriteFile(file, fmt.Appendf(nil, "classes: [{name: heavy, routes: %q, limit: %s%s}]\n", routes, s.Limit, queue(s, ", queue: %d", ", max_wait: %.3fs")), 0o600))
		flags = append([]string{"--rules", file}, were...)
	default:
		flags = append([]string{"--limit", s.Limit}, strings.Fields(queue(s, " --queue=%d", " --max-wait=%.3fs"))...)
	}
	return flags, without
}

// queue writes what a setting says of the queue.
func queue(s *incident.Setting, size, wait string) (text string) {
	if s.Queue != nil {
		text += fmt.Sprintf(size, *s.Queue)
	}
	if s.MaxWait != nil {
		text += fmt.Sprintf(wait, *s.MaxWait)
	}
	return text
}

// keepIncidents writes recordings for a reader without knowledge of them, and the truth.
func keepIncidents(t *testing.T, accounts []*account) {
	t.Helper()
	truths := make([]truth, len(accounts))
	for i, number := range rand.Perm(len(accounts)) {
		a := accounts[i]
		truths[number] = truth{number + 1, string(scenes[i].cause), a.began.UTC(), startOf(t, a), sum(a.offered), sum(a.served), scenes[i].could(a)}
		testrig.Must(t, os.WriteFile(filepath.Join(*keep, fmt.Sprintf("%d.rec", number+1)), a.recording, 0o600))
	}
	testrig.Must(t, os.WriteFile(filepath.Join(*keep, "truth.json"), []byte(asJSON(t, truths)+"\n"), 0o600))
}
