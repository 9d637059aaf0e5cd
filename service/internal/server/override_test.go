//go:build !race

package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

const overridden = `
domain: edge
descriptors:
- {key: a, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: path, value: "/x*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 2}}
`

// limit asks for n tokens of a descriptor that brings a limit for an hour.
func (d desk) limit(key string, count, n int) decider.Verdict {
	d.t.Helper()
	q := decider.Quota{Count: count, Period: time.Hour, Unit: time.Hour}
	return d.descriptors(false, decider.Request{Key: key, N: n, Quota: &q})[0]
}

// The counts of limits that descriptors bring outlive reloads and restarts.
func TestOverridesAreKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newLimits(t, config.FixedWindow, overridden)
		for range 3 {
			d.limit("edge|b=", 5, 1)
		}
		rules := d.Rules()
		must(t, d.Reload(rules))
		if v := d.limit("edge|b=", 5, 1); !v.OK || v.Answers[0].Remaining != 1 {
			t.Errorf("after a reload: %+v", v)
		}
		again, done := d.next(server.Config{Rules: rules}, d.snapshot())
		if len(done.Skipped) > 0 {
			t.Error(done.Skipped)
		}
		if v := again.limit("edge|b=", 5, 0); !v.OK || v.Answers[0].Remaining != 1 {
			t.Errorf("after a restart: %+v", v)
		}
		again.limit("edge|b=", 5, 9)
		if v := again.limit("edge|b=", 5, 1); v.OK || v.Reason != weir.OverRate || v.RetryAfter != time.Hour {
			t.Errorf("beyond the limit: %+v", v)
		}
		time.Sleep(time.Hour)
		if v := again.limit("edge|b=", 5, 1); !v.OK {
			t.Errorf("in the next window: %+v", v)
		}
	})
}

// A bucket that values share is not that of a descriptor with a limit.
func TestOverrideOfASharedBucket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newLimits(t, config.FixedWindow, overridden)
		for range 3 {
			if v := d.limit("edge|path=/xy", 3, 1); !v.OK {
				t.Errorf("%+v", v)
			}
		}
		d.allows("edge|path=/xz", 2, 3)
		if v := d.limit("edge|path=/x*", 4, 1); !v.OK || v.Answers[0].Remaining != 0 {
			t.Errorf("the text of the rule names its bucket, with three requests: %+v", v)
		}
	})
}

// A flood of descriptors with limits stays within the memory.
func TestFloodOfOverrides(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newLimits(t, config.FixedWindow, overridden)
		empty := d.Stats().OwnMemoryMax
		for i := range 50_000 {
			d.limit(fmt.Sprint("edge|b=", i), 5, 1)
		}
		if st := d.Stats(); st.OwnMemory > st.OwnMemoryMax || st.OwnMemoryMax != empty || empty > server.DefaultMemory/2 {
			t.Errorf("%d bytes of %d, %d before", st.OwnMemory, st.OwnMemoryMax, empty)
		}
	})
}
