//go:build system && !race

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A server with new rules denies the share of requests that weir check --against says from the recording of a server with old ones,
// within 0.5 % of the requests, under rates of a second.
func TestCheckAgainstRates(t *testing.T) {
	const perSecond, seconds = 400, 5
	dir := t.TempDir()
	old := file(t, "old.yaml", `rules: [{name: all, glob: "*", rate: 30/s, queue: 0}]`)
	rules := file(t, "new.yaml", `
rules:
  - {name: logins, glob: "login:*", rate: 5/s, burst: 10, queue: 0}
  - {name: numbers, regex: "^user:[0-9]+$", rate: 8/s, queue: 0}
  - {name: windows, glob: "job:*", rate: 6/s, algorithm: sliding, queue: 0}
  - {name: rest, glob: "*", per: rule, rate: 50/s, algorithm: fixed, queue: 0}
`)
	was := serving(t, "--rules", old, "--record-decisions", dir)
	is := serving(t, "--rules", rules)
	keys := []string{"login:jane", "login:bob", "login:7", "job:a", "job:b", "other", "tenant:x:y"}
	for i := range 8 {
		keys = append(keys, fmt.Sprintf("user:%d", i))
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	denied, n, rng := map[*served]int{}, 0, rand.New(rand.NewPCG(1, 2))
	for start, next := time.Now(), time.Duration(0); next < seconds*time.Second; n++ {
		time.Sleep(time.Until(start.Add(next)))
		next += time.Duration(rng.ExpFloat64() * float64(time.Second) / perSecond)
		key := keys[rng.IntN(len(keys))]
		for _, s := range []*served{was, is} {
			all.Go(func() {
				resp, err := http.Post(s.public+"/rate/"+key, "", nil)
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
				mu.Lock()
				defer mu.Unlock()
				if resp.StatusCode == http.StatusTooManyRequests {
					denied[s]++
				}
			})
		}
	}
	all.Wait()
	was.end()
	is.end()
	code, text, stderr := weir(t, "check", "--against", dir, rules)
	if code != 0 || strings.Contains(text, "not known") {
		t.Error(code, text, stderr)
	}
	got, _, _ := against(t, "--against", dir, rules)
	off := float64(got.Denied.Now-denied[is]) / float64(n)
	t.Logf("%d requests: %d would be denied, %d were: %+.3f %%", n, got.Denied.Now, denied[is], 100*off)
	if got.Requests != n || got.Denied.Then != denied[was] || off > 0.005 || off < -0.005 {
		t.Errorf("%s\nwant %d requests, %d denied then, %d now", text, n, denied[was], denied[is])
	}
}
