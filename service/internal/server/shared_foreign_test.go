//go:build system

package server_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Other programs may write to the keys of a store. A string that is no state counts as none. A
// value of another type degrades the requests for its key alone, and what it cannot be charged
// is dropped.
func TestSharedForeignValues(t *testing.T) {
	store := redistest.Start(t, "redis-server")
	cfg := patient()
	cfg.Known = -1
	s := shared(t, `
rules:
  - {name: bucket, glob: "b*", rate: 10/h}
  - {name: fixed, glob: "f*", rate: 10/h, algorithm: fixed}
`, "redis://"+store.Addr, cfg)
	for key, stored := range map[string]string{"b1": "weir:{b1}:bucket", "f1": "weir:{f1}:fixed:fixed"} {
		for _, value := range []string{"junk", "1+", "+1", "1:2", "x:y:z", ""} {
			store.Do("SET", stored, value)
			if v := decide(t, s, key); !v.OK || v.Step != decider.Exact || v.Answers[0].Remaining != 9 {
				t.Errorf("%s was %q: %+v", stored, value, v)
			}
			if v := decide(t, s, key); v.Step != decider.Exact || v.Answers[0].Remaining != 8 {
				t.Errorf("%s was %q, then: %+v", stored, value, v)
			}
		}
		before := s.StoreStats()
		store.Do("DEL", stored)
		store.Do("LPUSH", stored, "x")
		if v := decide(t, s, key); !v.OK || v.Step != decider.Share {
			t.Errorf("%s was a list: %+v", stored, v)
		}
		redistest.Until(t, "the debt is dropped", func() error {
			if v := decide(t, s, key+"other"); v.Step != decider.Exact {
				t.Fatalf("another key: %+v", v)
			}
			if s.StoreStats().Dropped == before.Dropped {
				return errors.New("not yet")
			}
			return nil
		})
		quiet := s.StoreStats().Pipelines
		time.Sleep(100 * time.Millisecond)
		if n := s.StoreStats().Pipelines - quiet; n > 10 {
			t.Errorf("%d pipelines without a request", n)
		}
	}
}
