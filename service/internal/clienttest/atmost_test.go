package client_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

// parts expects the numbers of tokens that calls for n tokens get.
func parts(t *testing.T, c *client.Client, key string, n int, want ...int) {
	t.Helper()
	for i, w := range want {
		got, err := c.AllowAtMost(t.Context(), key, n)
		must(t, err)
		if got != w {
			t.Errorf("call %d of %s for %d: %d: want %d", i, key, n, got, w)
		}
	}
}

// A call gets as many tokens as there are: of the server, of the share while it is away, and of
// an assignment.
func TestAllowAtMost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(5, time.Hour))
		c := s.client(client.Config{})
		parts(t, c, "a", 3, 3, 2, 0)
		parts(t, c, "b", 5, 5, 0)
		parts(t, c, "c", 0, 0)
		check(t, "left of c", s.left("c"), 5)
		if _, err := c.AllowAtMost(t.Context(), "", 1); err == nil {
			t.Error("want an error for an empty key")
		}
		c.Close()
		_, err := c.AllowAtMost(t.Context(), "c", 1)
		check(t, "closed", reason(err), weir.Closed)
	})
}

func TestAllowAtMostAway(t *testing.T) {
	for _, tt := range []struct {
		away client.Away
		want []int
	}{
		{client.Deny, []int{0}},
		{client.Allow, []int{4, 4, 4}},
		{client.Local, []int{3, 0}},
	} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, every(6, time.Hour))
			c := s.client(client.Config{Away: tt.away, Instances: 2})
			takes(t, c, "a", 1, 1) // and learns the limit
			time.Sleep(10 * time.Minute)
			s.network.Silence()
			lose(t, c)
			parts(t, c, "a", 4, tt.want...)
		})
	}
}

func TestAllowAtMostByLeaf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rule := every(1000, time.Second)
		rule.Burst = 200
		s := newSite(t, rule)
		time.Sleep(time.Minute) // it has learnt
		c := s.client(client.Config{Leaf: &client.LeafConfig{}})
		parts(t, c, "a", 3, 3) // asked
		for range 500 {
			_, err := c.AllowAtMost(t.Context(), "a", 5)
			must(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		before, total := s.requests("POST /rate"), 0
		for range 3 {
			got, err := c.AllowAtMost(t.Context(), "a", 500)
			must(t, err)
			total += got
		}
		if total < 20 || total > 200 || s.requests("POST /rate") != before {
			t.Errorf("%d of at most 200 tokens, %d requests", total, s.requests("POST /rate")-before)
		}
	})
}

// Tokens of the server are taken from the client's share, too: a part of them if the call gets a part.
func TestAllowAtMostIsCharged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(6, time.Hour))
		c := s.client(client.Config{Away: client.Local, Instances: 2})
		takes(t, c, "a", 1, 1) // and learns the limit
		time.Sleep(10 * time.Minute)
		parts(t, c, "a", 2, 2)
		s.network.Silence()
		lose(t, c)
		parts(t, c, "a", 4, 1, 0)
	})
}
