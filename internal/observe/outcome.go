package observe

import (
	"context"
	"errors"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/problem"
)

// Outcome is what a run of a handler, which has ended, tells about load.
func Outcome(ctx context.Context, status int) weir.Outcome {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return weir.Late
	case ctx.Err() != nil:
		return weir.Ignored
	}
	switch {
	case problem.Overload(status):
		return weir.Dropped
	case status >= 200 && status < 400:
		return weir.Success
	}
	return weir.Ignored
}
