//go:build system

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

// Instances with upstreams that are a cycle say so, do not use them, and recover when the cycle is broken.
func TestUpstreamCycle(t *testing.T) {
	name, rules := binary(t), file(t, "rules.yaml", zoneRules)
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			var hosts []string
			for range n {
				hosts = append(hosts, "127.0.0.1:"+redistest.FreePort(t))
			}
			start := func(i int, args ...string) *process {
				return startProcess(t, name, append([]string{"--rules", rules, "--listen", hosts[i]}, args...)...)
			}
			var all []*process
			for i := range n {
				all = append(all, start(i, "--upstream", "http://"+hosts[(i+1)%n]))
			}
			for i, p := range all {
				way := "its upstreams are a cycle: this instance"
				for k := range n {
					way += " -> http://" + hosts[(i+k+1)%n]
				}
				p.until(way + " (this instance): start one of them without --upstream")
				redistest.Until(t, "the status", func() error {
					if a := ask(t, http.DefaultClient, "GET", p.admin+"/-/status"); !strings.Contains(a.body, `"away":true,"error":"its upstreams are a cycle`) {
						return fmt.Errorf("%s", a.body)
					}
					return nil
				})
				if a := p.post("/rate/login"); a.status != 200 || a.header.Get("Weir-Degraded") != "share" {
					t.Errorf("%v, want a decision by share", a)
				}
			}
			all[0].end()
			start(0)
			for _, p := range all[1:] {
				p.until("the upstream can be used again")
			}
			redistest.Until(t, "an exact decision", func() error {
				if a := all[n-1].post("/rate/login"); a.header.Get("Weir-Degraded") != "" {
					return fmt.Errorf("%v", a)
				}
				return nil
			})
		})
	}
}
