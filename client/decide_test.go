package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/keyed"
)

// The Permit of a decision reports the cost to where the tokens came from.
func TestDecide(t *testing.T) {
	bubble(t, client.Config{Away: client.Local, LocalQuota: gcra.Per(2, time.Hour, 2)}, func(t *testing.T, f *fake, c *client.Client) {
		f.tokens["a"] = 3
		v, err := c.Decide(t.Context(), "a", 2)
		if err != nil || !v.OK || v.Remaining != 1 || v.Policy != (keyed.Policy{}) {
			t.Fatalf("%+v, %v", v.Decision, err)
		}
		v.Permit.Use(0)
		v.Permit.Release(weir.Ignored)
		synctest.Wait()
		if len(f.settled) != 1 {
			t.Errorf("settled: %v: want one request", f.settled)
		}
		for id, n := range f.settled {
			if n != 0 {
				t.Errorf("%s cost %d: want a refund", id, n)
			}
		}
		if v, err := c.Decide(t.Context(), "a", 2); v.OK || err != nil {
			t.Errorf("%+v, %v: want a denial", v.Decision, err)
		}

		f.set(func() { f.down = true })
		v, err = c.Decide(t.Context(), "b", 2)
		if err != nil || !v.OK {
			t.Fatalf("%+v, %v: want the share", v.Decision, err)
		}
		v.Permit.Use(0)
		v.Permit.Release(weir.Ignored)
		if v, err := c.Decide(t.Context(), "b", 2); !v.OK || err != nil {
			t.Errorf("%+v, %v: want the share that came back", v.Decision, err)
		}
	})
}

func TestDecideOfLeases(t *testing.T) {
	bubble(t, client.Config{}, func(t *testing.T, f *fake, c *client.Client) {
		f.units["a"] = 1
		began := time.Now()
		v, err := c.Leases().Decide(t.Context(), "a", 1)
		if err != nil || !v.OK || c.Stats().Leases != 1 {
			t.Fatalf("%+v, %v, %d leases", v.Decision, err, c.Stats().Leases)
		}
		v.Permit.Use(5) // a unit is a unit
		if _, err := c.Leases().Decide(t.Context(), "a", 1); reasonOf(err) != weir.OverLimit || time.Since(began) > 10*time.Millisecond {
			t.Errorf("%v after %v: want a denial without a wait", err, time.Since(began))
		}
		v.Permit.Release(weir.Dropped)
		synctest.Wait()
		if c.Stats().Leases != 0 || f.units["a"] != 1 || f.outcomes[0] != "dropped" {
			t.Errorf("%d leases, %d units, %v", c.Stats().Leases, f.units["a"], f.outcomes)
		}
	})
}

// As a rule of httplimit: a client that chooses its key is not admitted by a key that the server
// does not take, and the Client's own failure admits.
func TestDecideAsARule(t *testing.T) {
	bubble(t, client.Config{}, func(t *testing.T, f *fake, c *client.Client) {
		f.tokens["a"] = 2
		m, err := httplimit.New(httplimit.Config{Rules: []httplimit.Rule{
			httplimit.PerKey("fleet", c, httplimit.Header("X-Client")),
			httplimit.PerKey("once", once{}, httplimit.Header("X-Once")),
		}})
		if err != nil {
			t.Fatal(err)
		}
		h := m.Handler(http.NotFoundHandler())
		get := func(want int, headers ...string) {
			t.Helper()
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, testrig.Request("GET", "/", headers...)); w.Code != want {
				t.Errorf("%q: %d: want %d", headers, w.Code, want)
			}
		}
		get(404, "X-Client: a")
		get(429, "X-Client: a", "X-Once: no") // gives a token back
		synctest.Wait()
		if n := f.settled["id2"]; len(f.settled) != 1 || n != 0 {
			t.Errorf("settled: %v: want the token of the second back", f.settled)
		}
		get(429, "X-Client: a")
		for _, bad := range []string{"", "\xff", "x\x01", strings.Repeat("é", 100) + "\xff"} {
			get(429, "X-Client: "+bad)
		}
		get(429) // no key
		f.set(func() { f.status = 404 })
		get(404, "X-Client: unknown")
		if s := m.Stats().Rules[0]; s.Failed != 1 || s.Allowed != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// once denies the key "no".
type once struct{}

func (once) Decide(_ context.Context, key string, _ int) (keyed.Verdict, error) {
	return keyed.Verdict{Decision: weir.Decision{OK: key != "no"}}, nil
}
