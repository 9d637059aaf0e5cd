package server_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

const resetRules = `
apply: all
rules:
  - {name: bucket, glob: "*", rate: 10/h, burst: 20}
  - {name: fixed, glob: "*", rate: 15/h, algorithm: fixed}
  - {name: sliding, glob: "*", rate: 25/h, algorithm: sliding}
  - {name: jobs, glob: "*", concurrency: {limit: 1}}
`

type resetter interface {
	decider.Decider
	server.Resetter
}

// spend takes tokens of a key until it is denied, and returns how many.
func spend(t *testing.T, d decider.Decider, key string) (n int) {
	t.Helper()
	for ; n < 1000; n++ {
		var v decider.Verdict
		if err := d.Decide(t.Context(), &decider.Request{Key: key, N: 1}, &v); err != nil {
			t.Fatal(err)
		}
		if !v.OK {
			break
		}
	}
	return n
}

// After a reset, a key has its whole limit again, and other keys are as before. Tokens that
// were given before cannot be returned once more.
func resets(t *testing.T, d resetter) {
	t.Helper()
	if n := spend(t, d, "a"); n != 15 {
		t.Fatalf("%d tokens at first: want 15", n)
	}
	if n := spend(t, d, "b"); n != 15 {
		t.Fatalf("%d tokens of another key: want 15", n)
	}
	done, err := d.Reset(t.Context(), "a")
	if err != nil || len(done) != 3 || done[0] != (decider.Reset{Rule: "bucket", Returned: 15}) || done[1] != (decider.Reset{Rule: "fixed", Returned: 15}) || done[2] != (decider.Reset{Rule: "sliding", Returned: 15}) {
		t.Errorf("%+v, %v", done, err)
	}
	if n := spend(t, d, "a"); n != 15 {
		t.Errorf("%d tokens after the reset: want 15", n)
	}
	if n := spend(t, d, "b"); n != 0 {
		t.Errorf("%d tokens of another key", n)
	}
	for range 2 { // a reset of what is full returns nothing, and does not overfill
		if _, err := d.Reset(t.Context(), "c"); err != nil {
			t.Error(err)
		}
	}
	if n := spend(t, d, "c"); n != 15 {
		t.Errorf("%d tokens after resets of a full key: want 15", n)
	}
}

func rulesOf(t *testing.T, text string) *config.Rules {
	t.Helper()
	rules, err := config.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestReset(t *testing.T) {
	bubble(t, func(t *testing.T) { resets(t, newDesk(t, server.Config{Rules: rulesOf(t, resetRules)}).Server) })
}

// A sliding window forgets what the window before it has counted, too.
func TestResetSliding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("sliding", quota(10, time.Minute, config.Sliding)))
		spend(t, d.Server, "a")
		time.Sleep(70 * time.Second) // the window before still counts
		spend(t, d.Server, "a")
		if _, err := d.Server.Reset(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if n := spend(t, d.Server, "a"); n != 10 {
			t.Errorf("%d tokens after the reset: want 10", n)
		}
	})
}

// Requests that wait for tokens get them from a reset, in order, and a debt ends.
func TestResetServesWaiters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, one("r", quota(2, time.Hour, config.GCRA)))
		spend(t, d.Server, "a")
		waited := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				var v decider.Verdict
				if err := d.Server.Wait(t.Context(), &decider.Request{Key: "a", N: 1}, &v); err != nil || !v.OK {
					t.Errorf("%+v, %v", v, err)
				}
				waited <- v.Waited
			}()
		}
		time.Sleep(time.Second)
		if done, err := d.Server.Reset(t.Context(), "a"); err != nil || len(done) != 1 {
			t.Errorf("%+v, %v", done, err)
		}
		for range 2 {
			if w := <-waited; w != time.Second {
				t.Errorf("waited for %v: want 1s", w)
			}
		}
		if n := spend(t, d.Server, "a"); n != 0 {
			t.Errorf("%d tokens: the requests that waited have them", n)
		}
	})
}

// A node that decides by assignments refuses to reset; without a rule there is nothing to do.
func TestResetElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules := rulesOf(t, `rules: [{key: a, rate: 1/h}, {key: b, concurrency: {limit: 1}}]`)
		up := newDesk(t, server.Config{Rules: rules})
		z := newZone(t, up.Server, "zone", rules, server.TierConfig{})
		if _, err := z.Reset(t.Context(), "a"); err != decider.ErrResetUpstream {
			t.Error(err)
		}
		for _, key := range []string{"b", "c"} {
			for _, d := range []server.Resetter{z, up.Server} {
				if done, err := d.Reset(t.Context(), key); err != nil || len(done) != 0 {
					t.Errorf("%s: %+v, %v", key, done, err)
				}
			}
		}
	})
}
