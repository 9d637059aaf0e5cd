package observe

import (
	"context"
	"errors"
	"net/http"

	"github.com/weir-go/weir"
)

// Outcome is what a run of a handler, which has ended, tells about load. 503 and
// 504 are signs of overload. 429 is not: it is what one client may ask for, and
// 502 can be a single request that nobody could carry. Else a client that gets
// them on purpose could lower the limit for all.
func Outcome(ctx context.Context, status int) weir.Outcome {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return weir.Late
	case ctx.Err() != nil:
		return weir.Ignored
	}
	switch {
	case status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return weir.Dropped
	case status >= 200 && status < 400:
		return weir.Success
	}
	return weir.Ignored
}
