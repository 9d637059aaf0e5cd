//go:build system

package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
)

// Processes that are leaves of a store decide by parts of a limit: together they keep to it, and
// call the store for at most one in a hundred decisions. While the store is away, they go on by what
// they had.
func TestStoreLeaf(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t, "redis-server")
	f := startStoreFleet(t, "redis://"+store.Addr, "rules: [{name: hot, glob: '*', rate: 2000/s, burst: 200}]", "--store-leaf")
	const batch, length = 50, 5 * time.Second
	body := `{"requests":[` + strings.TrimSuffix(strings.Repeat(`{"key":"api"},`, batch), ",") + `]}`
	var decisions, allowed atomic.Int64
	var callers sync.WaitGroup
	began := time.Now()
	for i := range f.urls {
		callers.Go(func() {
			for tick := time.Duration(0); tick < length; tick += 15 * time.Millisecond {
				time.Sleep(time.Until(began.Add(tick)))
				var got struct{ Results []struct{ OK bool } }
				resp, err := f.client.Post(f.urls[i]+"/rate", "application/json", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				err = json.NewDecoder(resp.Body).Decode(&got)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK || len(got.Results) != batch {
					t.Errorf("status %d, %v", resp.StatusCode, err)
				}
				for _, r := range got.Results {
					decisions.Add(1)
					if r.OK {
						allowed.Add(1)
					}
				}
			}
		})
	}
	callers.Wait()
	// The first requests ask the store, whose bucket has a burst; so have the leaves.
	if most := 2*200 + 2000*time.Since(began).Seconds(); float64(allowed.Load()) > most {
		t.Errorf("%d of %d requests allowed: want at most %.0f", allowed.Load(), decisions.Load(), most)
	}
	scripts := 0
	for _, m := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(store.Do("INFO", "commandstats"), -1) {
		n, _ := strconv.Atoi(m[1])
		scripts += n
	}
	t.Logf("%d of %d decisions allowed, by %d scripts", allowed.Load(), decisions.Load(), scripts)
	if float64(scripts) > float64(decisions.Load())/100 {
		t.Errorf("%d scripts for %d decisions", scripts, decisions.Load())
	}
	store.Kill()
	redistest.Until(t, "the instances go on by their last assignment", func() error {
		_, step, err := f.take(0, "/rate/api")
		if err == nil && step != "last" {
			err = errStep(step)
		}
		return err
	})
}

type errStep string

func (e errStep) Error() string { return "the step is " + string(e) }
