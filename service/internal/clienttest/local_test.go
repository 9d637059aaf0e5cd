package client_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// While the server is away each key has the Client's share of what the server
// would give it, as it said when it was last heard of.
func TestShareOfWhatWasLearnt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		few, many := every(20, 10*time.Second), every(400, 10*time.Second)
		few.Name, few.Glob = "few", "few:*"
		s := newSite(t, few, many)
		c := s.client(client.Config{Instances: 4, LocalQuota: gcra.Per(1, time.Hour, 3)})
		for _, key := range []string{"few:1", "few:2", "any"} {
			takes(t, c, key, 1, 1)
			time.Sleep(time.Second)
		}
		s.network.Refuse()
		s.answer(hang)
		lose(t, c)
		takes(t, c, "few:1", 5, 50)
		d, err := c.Take(t.Context(), "few:1", 0)
		must(t, err)
		check(t, "a look", d.OK, false)
		takes(t, c, "few:2", 5, 50)
		takes(t, c, "any", 100, 500)
		takes(t, c, "unheard of", 3, 50)
		time.Sleep(2 * time.Second)
		takes(t, c, "few:1", 1, 50) // a quarter of 2/s
		start := time.Now()
		_, err = c.For("few:1").Acquire(t.Context(), 1)
		must(t, err)
		check(t, "Acquire waits here", time.Since(start), 2*time.Second)
	})
}

// What the server never grants is not granted here, either.
func TestWhatIsForbiddenStaysForbidden(t *testing.T) {
	blocked, gone := every(0, time.Second), every(0, time.Second)
	blocked.Algorithm = config.Fixed
	gone.Burst = 8
	unmatched := rules()
	unmatched.Unmatched = "deny"
	for _, tt := range []struct {
		rule  string
		rules *config.Rules
		cfg   httpapi.Config
		want  int
	}{
		{"windows of nothing", rules(blocked), httpapi.Config{}, 0},
		{"nothing comes back, and two of four were taken", rules(gone), httpapi.Config{}, 2},
		{"no rule matches, and it must", unmatched, httpapi.Config{}, 0},
		{"no rule matches, and the server does not tell limits", unmatched, httpapi.Config{Fields: httpapi.FieldsNone}, 0},
		{"no rule matches", rules(), httpapi.Config{}, 50},
		{"the server does not tell limits", rules(every(1, time.Hour)), httpapi.Config{Fields: httpapi.FieldsNone}, 50},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t)
				must(t, s.core.Reload(tt.rules))
				s.configure(tt.cfg)
				c := s.client(client.Config{Instances: 2, LocalQuota: gcra.Unlimited(), MaxWait: 2 * time.Hour})
				_, err := c.Take(t.Context(), "a", 1)
				must(t, err)
				synctest.Wait()                                           // it has asked for the limit
				go func() { _, _ = c.For("a").Acquire(t.Context(), 1) }() // stands in line, if there is one
				time.Sleep(time.Minute + time.Second)
				_, err = c.Take(t.Context(), "a", 1)
				must(t, err)
				time.Sleep(time.Second)
				s.network.Refuse()
				s.answer(hang)
				lose(t, c)
				takes(t, c, "a", tt.want, 50)
			})
		})
	}
}

// A limit that changes is heard of within a minute.
func TestLessonsAreRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(10, time.Hour))
		c := s.client(client.Config{})
		for range 600 { // a minute
			_, err := c.Take(t.Context(), "a", 0)
			must(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		check(t, "lessons", s.requests("GET /rate/a"), 1)
		must(t, s.core.Reload(rules(every(20, time.Hour))))
		for range 20 {
			_, err := c.Take(t.Context(), "a", 0)
			must(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		check(t, "lessons", s.requests("GET /rate/a"), 2)
		s.network.Refuse()
		s.answer(hang)
		lose(t, c)
		takes(t, c, "a", 20, 50)
	})
}

// One lesson at a time, however many keys there are.
func TestLessonsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(10, time.Hour))
		lessons := func(cfg client.Config, each time.Duration) int {
			before := s.requests("GET /rate/")
			s.answer(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == "GET" {
					time.Sleep(each)
				}
				s.api.ServeHTTP(w, r)
			})
			c := s.client(cfg)
			for i := range 1000 {
				takes(t, c, fmt.Sprint(each, i, cfg.Away), 1, 1)
				time.Sleep(100 * time.Microsecond)
			}
			return s.requests("GET /rate/") - before
		}
		if n := lessons(client.Config{}, 0); n < 9 || n > 11 {
			t.Errorf("%d lessons in a tenth of a second", n)
		}
		check(t, "slow lessons", lessons(client.Config{}, 30*time.Millisecond), 3)
		check(t, "lessons of who does not need any", lessons(client.Config{Away: client.Allow}, 0), 0)
	})
}
