package observe

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
)

// Outcome returns the outcome of a handler that has ended, by the table of package
// loadsign.
func Outcome(ctx context.Context, status int) weir.Outcome {
	return loadsign.OfStatus(status).Ended(ctx.Err())
}
