package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

// While the server does not answer, all clients together keep to the limit. A client
// that has used up its share gets no second one, however often the server stalls.
func TestAStallGivesNoSecondLimit(t *testing.T) {
	const clients, limit = 4, 100
	for _, used := range []int{0, limit / clients} {
		bubble(t, func(t *testing.T) {
			lock := atOnce(1, time.Hour)
			lock.Glob = "lock"
			s := newSite(t, lock, every(limit, 1000*time.Hour))
			var all []*client.Client
			for range clients {
				c := s.client(client.Config{Away: client.Local, Instances: clients})
				_, err := c.Take(t.Context(), "a", 0) // has the client ask for the limit
				must(t, err)
				time.Sleep(time.Second)
				must(t, weir.Do(t.Context(), c.Lease("lock"), func(context.Context) error { return nil }))
				all = append(all, c)
			}
			for _, c := range all {
				takes(t, c, "a", used, used)
			}
			allowed := map[string]int{}
			for range 10 { // stalls of a second
				s.answer(hang)
				for _, c := range all {
					lose(t, c)
					for range limit {
						for _, key := range []string{"a", "unheard of"} {
							d, err := c.Take(t.Context(), key, 1)
							must(t, err)
							if d.OK {
								allowed[key]++
							} else if d.RetryAfter > 1000*time.Hour {
								t.Errorf("%s: retry after %v: the server may grant it", key, d.RetryAfter)
							}
						}
						for _, key := range []string{"lock", "unheard of"} {
							_, err := c.Lease(key).Acquire(t.Context(), 1)
							check(t, "a lease of "+key, reason(err), weir.OverLimit)
						}
					}
				}
				s.answer(nil)
				time.Sleep(10 * time.Second)
			}
			check(t, "allowed during the stalls", allowed["a"], limit-clients*used)
			check(t, "of a key without a known limit", allowed["unheard of"], 0)
		})
	}
}
