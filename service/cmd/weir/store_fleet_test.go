//go:build system

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/internal/redistest"
)

const fleetUnits = 4

var fleetRules = fmt.Sprintf(`rules:
  - {name: tokens, glob: "*user=busy*", rate: %d/s, burst: %d}
  - {name: budget, key: budget, rate: 10/h}
  - {name: own, glob: "own:*", rate: 1/h, own_quota: true}
  - {name: jobs, key: jobs, concurrency: {limit: %d}}
`, redistest.TrialRate, redistest.TrialBurst, fleetUnits)

// Clients of three processes ask for one key over every transport, and hold leases, while the
// rules of one process are loaded again and all processes are restarted in turn. The limits
// hold, and every request is answered except by a process that restarts. Each process settles
// what another one has granted, also before it started.
func TestStoreFleet(t *testing.T) {
	t.Parallel()
	f := startStoreFleet(t, "redis://"+redistest.Start(t, "valkey-server").Addr, fleetRules, "--store-timeout", "5s")
	for i := range f.urls {
		f.untilExact(i, "/rate/own:0")
	}
	f.ownQuotas()
	stop := f.holdUnits()
	load := redistest.StartLoad(3*redistest.TrialInstances, 5*time.Millisecond, f.transports())
	time.Sleep(time.Second)
	granted := ask(t, f.client, "POST", f.urls[0]+"/rate/budget?n=10")
	fatal(t, os.WriteFile(f.rules[0], []byte(fleetRules+"  - {name: more, key: more, rate: 1/s}\n"), 0o600))
	if a := f.processes[0].reload(); a.status != http.StatusOK {
		t.Errorf("%v: want a reload", a)
	}
	time.Sleep(500 * time.Millisecond)
	for i := range f.processes {
		f.restarting[i].Store(true)
		f.processes[i].end()
		f.processes[i] = f.start[i]()
		f.restarting[i].Store(false)
		time.Sleep(200 * time.Millisecond)
	}
	f.settledElsewhere(granted)
	if err := load.Stop(); err != nil {
		t.Error(err)
	}
	if most := stop(); most > fleetUnits {
		t.Errorf("%d units were held, want at most %d", most, fleetUnits)
	}
	all := load.Answers(0, time.Hour)
	steps, excess := all.Steps(), all.Excess(redistest.TrialRate)
	t.Logf("%v, %.1f tokens beyond the rate", steps, excess)
	if delete(steps, ""); !maps.Equal(steps, map[string]int{"exact": steps["exact"]}) || excess > redistest.TrialBurst {
		t.Errorf("%v, %.1f tokens beyond the rate, want exact decisions and at most %d", steps, excess, redistest.TrialBurst)
	}
}

// busyKey is the key of the descriptor that limiter.ask sends for the user "busy".
const busyKey = "edge|user=busy"

// transports returns the function for a Load: the callers of each process use HTTP, batches, and
// gRPC or the protocol of Redis.
func (f *storeFleet) transports() func(caller int) (bool, string, error) {
	overGRPC := newLimiter(f.t, f.grpc[0])
	return func(caller int) (granted bool, step string, err error) {
		i := caller % len(f.urls)
		before := f.restarting[i].Load()
		switch kind := caller / len(f.urls); {
		case kind == 0:
			granted, step, err = f.take(i, "/rate/"+busyKey)
		case kind == 1:
			granted, step, err = f.takeBatch(i)
		case i == 0:
			return takeRLS(overGRPC) // its client waits after a failure before it connects again
		default:
			granted, step, err = f.takeRESP(i, "WEIR.TAKE "+busyKey)
		}
		if err == nil && step == "" && !before && !f.restarting[i].Load() {
			err = fmt.Errorf("caller %d has no answer of a process that does not restart", caller)
		}
		return granted, step, err
	}
}

func (f *storeFleet) takeBatch(i int) (granted bool, step string, err error) {
	resp, err := f.client.Post(f.urls[i]+"/rate", "application/json", strings.NewReader(`[{"key":"`+busyKey+`"}]`))
	if err != nil {
		return false, "", nil
	}
	defer resp.Body.Close()
	var answer struct {
		Results []struct {
			OK       bool
			Degraded string
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Results) != 1 {
		return false, "", fmt.Errorf("batch: %s, %v", resp.Status, err)
	}
	return answer.Results[0].OK, stepOf(answer.Results[0].Degraded), nil
}

func takeRLS(l limiter) (granted bool, step string, err error) {
	code, err := l.ask(context.Background(), "busy")
	switch {
	case status.Code(err) == codes.Unavailable:
		return false, "", nil
	case err != nil:
		return false, "", err
	}
	return code == rls.RateLimitResponse_OK, "exact", nil
}

// takeRESP sends a command over its own connection.
func (f *storeFleet) takeRESP(i int, command string) (granted bool, step string, err error) {
	c, err := net.Dial("tcp", f.resp[i])
	if err != nil {
		return false, "", nil
	}
	defer c.Close()
	_, _ = io.WriteString(c, command+"\r\nQUIT\r\n")
	reply, _ := io.ReadAll(c)
	switch text := string(reply); {
	case text == "":
		return false, "", nil
	case !strings.HasPrefix(text, "*") || strings.Contains(text, "degraded"):
		return false, "", fmt.Errorf("%s: %q", command, text)
	default:
		return strings.Contains(text, "allowed\r\n:1") || strings.HasPrefix(text, "*5\r\n:0"), "exact", nil
	}
}

// ownQuotas checks that a quota of a command is one for all processes.
func (f *storeFleet) ownQuotas() {
	f.t.Helper()
	for n := range 6 {
		granted, _, err := f.takeRESP(n%len(f.urls), "CL.THROTTLE own:1 2 1 3600")
		if err != nil || granted != (n < 3) {
			f.t.Errorf("command %d: %v, %v: want 3 that are allowed", n, granted, err)
		}
	}
}

// settledElsewhere gives back a grant of the first process at the others: once.
func (f *storeFleet) settledElsewhere(granted answered) {
	f.t.Helper()
	var grant struct {
		ID string `json:"request_id"`
	}
	fatal(f.t, json.Unmarshal([]byte(granted.body), &grant))
	for _, step := range []struct {
		process      int
		method, path string
		want         int
	}{
		{1, "POST", "/rate/budget", http.StatusTooManyRequests},
		{1, "DELETE", "/rate/budget/" + grant.ID, http.StatusOK},
		{2, "DELETE", "/rate/budget/" + grant.ID, http.StatusNotFound},
		{2, "POST", "/rate/budget?n=10", http.StatusOK},
	} {
		if a := ask(f.t, f.client, step.method, f.urls[step.process]+step.path); a.status != step.want {
			f.t.Errorf("%s %s: %v: want %d", step.method, step.path, a, step.want)
		}
	}
}

// holdUnits holds units of one key at all processes, and returns the most that were held at once
// when stop is called.
func (f *storeFleet) holdUnits() (stop func() (most int)) {
	var ended atomic.Bool
	var mu sync.Mutex // of the units
	held, most, leases := 0, 0, 0
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		held += n
		most, leases = max(most, held), leases+max(n, 0)
	}
	var all sync.WaitGroup
	for i := range 2 * len(f.urls) {
		all.Go(func() {
			for at := i; !ended.Load(); at++ {
				time.Sleep(5 * time.Millisecond)
				l, ok := f.lease(at%len(f.urls), "/lease/jobs")
				if !ok {
					continue
				}
				count(1)
				time.Sleep(10 * time.Millisecond)
				count(-1)
				for f.ask(at%len(f.urls), "DELETE", "/lease/jobs/"+l.ID).status == 0 {
					at++ // every process ends the leases of all
				}
			}
		})
	}
	return func() int {
		ended.Store(true)
		all.Wait()
		if f.t.Logf("%d leases, at most %d at once", leases, most); leases == 0 {
			f.t.Error("no leases")
		}
		return most
	}
}
