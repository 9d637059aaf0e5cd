//go:build system

package redislimit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/redislimit"
)

// The Permit of a decision settles its cost in the server.
func TestDecide(t *testing.T) {
	l := limiter(t, client(t, redistest.Start(t, "redis-server")), gcra.Per(1, time.Hour, 5), patient)
	v, err := l.Decide(t.Context(), "a", 3)
	if err != nil || !v.OK || v.Remaining != 2 || v.Policy != keyed.PolicyOf(gcra.Per(1, time.Hour, 5)) {
		t.Fatalf("%+v %+v, %v", v.Decision, v.Policy, err)
	}
	if v, err := l.Decide(t.Context(), "a", 3); err != nil || v.OK || v.RetryAfter <= 0 {
		t.Errorf("%+v, %v: want a denial", v.Decision, err)
	}
	v.Permit.Use(0)
	v.Permit.Release(weir.Ignored)
	if d := take(t, l, "a", 5); !d.OK { // after the refund, which was sent first
		t.Errorf("%+v: want all tokens back", d)
	}
}

// nowhere is a server that does not exist.
var nowhere = &redistest.Server{Addr: "127.0.0.1:1"}

// Without a server, tokens go back to the share that they came from.
func TestDecideAway(t *testing.T) {
	l := limiter(t, client(t, nowhere), gcra.Per(1, time.Hour, 8), redislimit.Config{Away: redislimit.Share, Instances: 2})
	for range 3 {
		v, err := l.Decide(t.Context(), "a", 4)
		if err != nil || !v.OK {
			t.Fatalf("%+v, %v: want the share", v.Decision, err)
		}
		v.Permit.Use(0)
		v.Permit.Release(weir.Ignored)
	}
	l = limiter(t, client(t, nowhere), gcra.Per(1, time.Hour, 8), redislimit.Config{Away: redislimit.Allow, Instances: 1})
	if v, err := l.Decide(t.Context(), "a", 4); err != nil || !v.OK || v.Policy != (keyed.Policy{}) {
		t.Errorf("%+v %+v, %v: want no policy", v.Decision, v.Policy, err)
	}
}

func TestDecideOfLeases(t *testing.T) {
	leases, err := redislimit.NewLeases(client(t, redistest.Start(t, "redis-server")), 2, redislimit.LeaseConfig{
		Away: redislimit.Deny, Instances: 1, Timeout: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer leases.Close()
	v, err := leases.Decide(t.Context(), "a", 2)
	if err != nil || !v.OK {
		t.Fatalf("%+v, %v", v.Decision, err)
	}
	_, err = leases.Decide(t.Context(), "a", 1)
	if r, ok := errors.AsType[*weir.Rejection](err); !ok || r.Reason != weir.OverLimit {
		t.Errorf("%v: want a denial", err)
	}
	v.Permit.Use(0) // a unit in flight is a unit
	v.Permit.Release(weir.Success)
	if v, err := leases.Decide(t.Context(), "a", 2); err != nil || !v.OK {
		t.Errorf("%+v, %v: want the units that came back", v.Decision, err)
	} else {
		v.Permit.Release(weir.Success)
	}
}
