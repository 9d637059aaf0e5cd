package httpapi_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// A settlement leaves the bucket as one from which only the true cost was taken at the instant of the
// grant, and says so.
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
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, httpapi.Config{}, allKeys(700, time.Minute, ""))
				var ids []string
				for range tt.calls {
					ids = append(ids, s.ask("POST", fmt.Sprintf("/rate/a?n=%d", tt.was), "").text("request_id"))
				}
				time.Sleep(tt.after)
				for _, id := range ids {
					(&step{method: "POST", url: fmt.Sprintf("/rate/a/%s?n=%d", id, tt.n), status: 200, body: fmt.Sprintf(`{"was":%d,"charged":%d}`, tt.was, tt.n)}).take(t, s)
				}
				(&step{method: "GET", url: "/rate/a?n=0", status: 200, body: fmt.Sprintf(`{"remaining":%d}`, tt.left)}).take(t, s)
			})
		})
	}
}
