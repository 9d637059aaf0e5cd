//go:build !race

package server_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// TestManyAreSettled: a grant can be settled for an hour and once, however many others
// are settled.
func TestManyAreSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("r", quota(1<<30, 2*time.Hour, "")))
		eldest, first := d.grant(1), d.grant(1)
		_, err := d.Settle("a", first, 0)
		must(t, err)
		for range 12 {
			time.Sleep(time.Second)
			for range 100_000 {
				if _, err := d.Settle("a", d.grant(1), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		check(t, "life", d.Stats().GrantLife, decider.GrantLife)
		if _, err := d.Settle("a", first, 0); !errors.Is(err, decider.ErrNoGrant) {
			t.Errorf("settled twice: %v", err)
		}
		time.Sleep(decider.GrantLife - 13*time.Second)
		_, err = d.Settle("a", eldest, 0)
		check(t, "the eldest", err, nil)
	})
}
