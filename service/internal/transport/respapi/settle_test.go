package respapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/transport/respapi"
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
		bubble(t, func(t *testing.T) {
			p := serve(t, respapi.Config{}, perKey(700, time.Minute)).dial()
			var ids []any
			for range tt.calls {
				ids = append(ids, fields(p.do(fmt.Sprintf("WEIR.TAKE a %d", tt.was)))["request_id"])
			}
			time.Sleep(tt.after)
			for _, id := range ids {
				if got := fields(p.do(fmt.Sprintf("WEIR.SETTLE a %s %d", id, tt.n))); fmt.Sprint(got) != fmt.Sprintf("map[charged:%d was:%d]", tt.n, tt.was) {
					t.Errorf("%d times %d after %v: %v", tt.calls, tt.was, tt.after, got)
				}
			}
			if got := fields(p.do("WEIR.TAKE a 0"))["remaining"]; fmt.Sprint(got) != fmt.Sprint(tt.left) {
				t.Errorf("%d times %d after %v: %v left: want %d", tt.calls, tt.was, tt.after, got, tt.left)
			}
		})
	}
}
