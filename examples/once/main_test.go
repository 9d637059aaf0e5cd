package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/examples/internal/weirserve"
)

// Many processes, each with its own client, ask for results at once: each result is made
// once. After a call that fails, another process makes it.
func TestOnceInTheFleet(t *testing.T) {
	url, dir := weirserve.Start(t, `rules: [{name: once, glob: "once:*", concurrency: {limit: 1, ttl: 10s}}]`), files(t.TempDir())
	var calls [3]atomic.Int64
	broken := errors.New("broken")
	call := func(_ context.Context, key string) (string, error) {
		i := int(key[0] - '0')
		if n := calls[i].Add(1); i == 2 && n == 1 {
			return "", broken
		}
		return "result of " + key, nil
	}
	var processes sync.WaitGroup
	var failures atomic.Int64
	for range 8 {
		c := newClient(t, url)
		processes.Go(func() {
			f := fleet{leases: c, results: dir, call: call}
			for i := range calls {
				key := fmt.Sprint(i)
				switch result, err := f.get(t.Context(), key); {
				case errors.Is(err, broken):
					failures.Add(1)
				case err != nil || result != "result of "+key:
					t.Errorf("%s: %q, %v", key, result, err)
				}
			}
		})
	}
	processes.Wait()
	for i, want := range []int64{1, 1, 2} {
		if n := calls[i].Load(); n != want {
			t.Errorf("result %d: %d calls: want %d", i, n, want)
		}
	}
	if n := failures.Load(); n != 1 {
		t.Errorf("%d processes saw the error: want 1", n)
	}
}

// Without weir serve, no process works: two could.
func TestAway(t *testing.T) {
	f := fleet{leases: newClient(t, "http://"+weirserve.FreeAddr(t)), results: files(t.TempDir()), call: func(context.Context, string) (string, error) {
		t.Error("it works without a lease")
		return "", nil
	}}
	if _, err := f.get(t.Context(), "a"); err == nil {
		t.Error("no error")
	}
}

func newClient(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: url, Away: client.Deny, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
