//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
)

// A storeFleet is processes that share a store, at addresses that outlive them.
type storeFleet struct {
	t         *testing.T
	name      string // of the binary
	start     [redistest.TrialInstances]func() *process
	processes [redistest.TrialInstances]*process
	urls      [redistest.TrialInstances]string // of HTTP
	grpc      [redistest.TrialInstances]string // addresses
	resp      [redistest.TrialInstances]string
	rules     [redistest.TrialInstances]string // files
	client    *http.Client

	restarting [redistest.TrialInstances]atomic.Bool
}

// startStoreFleet starts the processes, with the rules in files of their own.
func startStoreFleet(t *testing.T, url, rules string, more ...string) *storeFleet {
	return startStoreFleetOf(t, binary(t), url, rules, more...)
}

// startStoreFleetOf starts processes of a binary.
func startStoreFleetOf(t *testing.T, name, url, rules string, more ...string) *storeFleet {
	f := &storeFleet{t: t, name: name, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	for i := range f.processes {
		port := func() string { return "127.0.0.1:" + redistest.FreePort(t) }
		public := port()
		f.urls[i], f.grpc[i], f.resp[i], f.rules[i] = "http://"+public, port(), port(), file(t, "rules.yaml", rules)
		f.start[i] = func() *process {
			return startProcess(t, f.name, append(more, "--listen", public, "--grpc-listen", f.grpc[i], "--resp-listen", f.resp[i], "--rules", f.rules[i],
				"--watch-interval", "1h", "--store", url, "--instances", fmt.Sprint(redistest.TrialInstances))...)
		}
		f.processes[i] = f.start[i]()
	}
	return f
}

// ask sends a request to an instance. The status is 0 if that does not answer.
func (f *storeFleet) ask(instance int, method, path string) answered {
	a, err := tryAsk(f.client, method, f.urls[instance]+path)
	if err != nil {
		return answered{}
	}
	return a
}

// take asks an instance for tokens of a key by HTTP. The step is empty if that does not answer.
func (f *storeFleet) take(instance int, path string) (granted bool, step string, err error) {
	a := f.ask(instance, "POST", path)
	switch a.status {
	case 0:
		return false, "", nil
	case http.StatusOK, http.StatusTooManyRequests:
		return a.status == http.StatusOK, stepOf(a.header.Get("Weir-Degraded")), nil
	}
	return false, "", fmt.Errorf("%d: %s", a.status, a.body)
}

// untilExact waits until the store decides for an instance.
func (f *storeFleet) untilExact(instance int, path string) {
	f.t.Helper()
	redistest.Until(f.t, "the store decides", func() error {
		if _, step, err := f.take(instance, path); err != nil || step != "exact" {
			return fmt.Errorf("%s, %v", step, err)
		}
		return nil
	})
}

// lease asks an instance for a lease; ok reports whether there is one.
func (f *storeFleet) lease(instance int, path string) (l heldLease, ok bool) {
	a := f.ask(instance, "POST", path)
	return l, a.status == http.StatusOK && json.Unmarshal([]byte(a.body), &l) == nil
}

// tryPost sends a POST request, and returns an error unless the store has decided to allow it.
func (s *served) tryPost(path string) error {
	if a := s.post(path); a.status != http.StatusOK || a.header.Get("Weir-Degraded") != "" {
		return fmt.Errorf("%v", a)
	}
	return nil
}
