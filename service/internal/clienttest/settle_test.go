package client_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

// A cost that a permit reports leaves the bucket as one from which only that was taken when the permit
// was granted.
func TestPartialSettlements(t *testing.T) {
	for _, tt := range []struct {
		calls, was, n int
		after         time.Duration
		left          int
	}{
		{1, 200, 80, 4 * time.Second, 666},
		{1, 200, 80, 12 * time.Second, 700},
		{7, 100, 20, 15 * time.Second, 700},
	} {
		t.Run(fmt.Sprintf("%d times %d after %v", tt.calls, tt.was, tt.after), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, every(700, time.Minute))
				c := s.client(client.Config{})
				for range tt.calls {
					p, err := c.For("a").Acquire(t.Context(), tt.was)
					must(t, err)
					time.AfterFunc(tt.after, func() {
						p.Use(tt.n)
						p.Release(weir.Success)
					})
				}
				time.Sleep(tt.after)
				synctest.Wait()
				check(t, "left", s.left("a"), tt.left)
			})
		})
	}
}
