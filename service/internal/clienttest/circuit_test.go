package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// A server that is away costs callers nothing, and is asked by one probe at a
// time, less and less often. When it is back, that is noticed.
func TestProbes(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{"refuses connections": nil, "hangs": hang} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, every(1000, time.Second))
				if fault == nil {
					s.network.Refuse()
				}
				s.answer(fault)
				var told []string
				c := s.client(client.Config{OnAway: func(err error) { told = append(told, fmt.Sprint(err != nil)) }})
				lose(t, c)
				before := c.Stats().Requests
				for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(time.Millisecond) {
					asked := time.Now()
					takes(t, c, "a", 1, 1)
					if took := time.Since(asked); took > 0 {
						t.Fatalf("away, a call took %v", took)
					}
				}
				if n := c.Stats().Requests - before; n < 12 || n > 40 {
					t.Errorf("%d probes in a minute", n)
				}
				s.network.Repair()
				s.answer(nil)
				for start := time.Now(); c.Stats().Away; time.Sleep(time.Millisecond) {
					takes(t, c, "a", 1, 1)
					if time.Since(start) > 6*time.Second {
						t.Fatal("still away after six seconds")
					}
				}
				local := c.Stats().Local
				takes(t, c, "a", 1, 1)
				check(t, "decided here when it is back", c.Stats().Local, local)
				synctest.Wait()
				check(t, "told", fmt.Sprint(told), "[true false]")
			})
		})
	}
}

// Two failures are not enough, and an answer resets the count.
func TestAFewFailuresAreBorne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t)
		c := s.client(client.Config{Away: client.Allow})
		for range 10 {
			s.answer(status(500, ""))
			takes(t, c, "a", 2, 2)
			s.answer(nil)
			takes(t, c, "a", 1, 1)
			check(t, "away", c.Stats().Away, false)
		}
		s.answer(status(500, ""))
		takes(t, c, "a", 3, 3)
		check(t, "away after three", c.Stats().Away, true)
	})
}

// An answer that is not from weir serve does not reset the count of failures.
func TestWhatAnybodySaysIsNoSignOfLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, config.Rule{
			Name: "both", Glob: "*",
			Quota:       config.Quota{Rate: config.Rate{Count: 1000, Period: time.Second}},
			Concurrency: &config.Concurrency{Limit: 10},
		})
		c := s.client(client.Config{})
		h := hold(t, c)
		p, err := c.For("a").Acquire(t.Context(), 5)
		must(t, err)
		s.answer(status(200, "{}"))
		takes(t, c, "a", 2, 2)
		h.Release(weir.Success)
		p.Use(1)
		p.Release(weir.Success)
		synctest.Wait()
		check(t, "dropped", c.Stats().Dropped, 0)
		check(t, "away after two", c.Stats().Away, false)
		takes(t, c, "a", 1, 1)
		check(t, "away after three", c.Stats().Away, true)
	})
}

// A server is found to be back whatever it has to say of a key.
func TestAServerIsBack(t *testing.T) {
	unmatched := rules()
	unmatched.Unmatched = "deny"
	forbid := func(*http.Request, token.Action, string) error { return errors.New("not one of your keys") }
	for _, tt := range []struct {
		rule  string
		rules *config.Rules
		cfg   httpapi.Config
	}{
		{"with a limit", rules(every(1, time.Hour)), httpapi.Config{}},
		{"with a limit that it does not tell", rules(every(1, time.Hour)), httpapi.Config{Fields: httpapi.FieldsNone}},
		{"without a rule for the key", rules(), httpapi.Config{}},
		{"with leases alone", rules(atOnce(1, time.Minute)), httpapi.Config{}},
		{"with no tokens for keys without a rule", unmatched, httpapi.Config{}},
		{"for others' keys", rules(), httpapi.Config{Authorize: forbid}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t)
				must(t, s.core.Reload(tt.rules))
				s.configure(tt.cfg)
				s.answer(hang)
				c := s.client(client.Config{Away: client.Allow})
				lose(t, c)
				s.answer(nil)
				time.Sleep(100 * time.Millisecond)
				takes(t, c, "a", 1, 1) // the probe
				synctest.Wait()
				check(t, "away", c.Stats().Away, false)
			})
		})
	}
}

// A connection that leads nowhere is not asked again when the server is found to
// be away.
func TestADeadConnectionIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1000, time.Second))
		c := s.client(client.Config{})
		takes(t, c, "a", 1, 1)
		s.network.Silence()
		lose(t, c)
		time.Sleep(100 * time.Millisecond)
		takes(t, c, "a", 1, 1) // the probe
		synctest.Wait()
		check(t, "away", c.Stats().Away, false)
	})
}

// A connection that takes longer to make than an answer may take is made all the
// same, and then used.
func TestSlowToConnect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1000, time.Second))
		s.delay.Store(int64(200 * time.Millisecond))
		c := s.client(client.Config{HTTP: &http.Client{Transport: &http.Transport{DialContext: s.dial}}}) // HTTP/1.1
		lose(t, c)
		for range 500 {
			takes(t, c, "a", 1, 1)
			time.Sleep(10 * time.Millisecond)
		}
		check(t, "away", c.Stats().Away, false)
	})
}

// OnAway is never called twice at a time, and knows the last state in the end.
func TestOnAwayIsSlow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1000, time.Second))
		var calls atomic.Int32
		var told []string
		c := s.client(client.Config{OnAway: func(err error) {
			check(t, "calls at once", calls.Add(1), 1)
			defer calls.Add(-1)
			told = append(told, fmt.Sprint(err))
			time.Sleep(time.Minute)
		}})
		for range 4 {
			s.answer(status(500, ""))
			lose(t, c)
			s.answer(nil)
			for c.Stats().Away {
				takes(t, c, "a", 1, 1)
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		check(t, "told", fmt.Sprint(told), "[client: not an answer of weir serve: status 500 <nil>]")
	})
}
