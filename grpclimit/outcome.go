package grpclimit

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
)

// outcomeOf is what a run of a handler, which has ended, tells about load.
func outcomeOf(ctx context.Context, err error) weir.Outcome {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return weir.Late
	case ctx.Err() != nil:
		return weir.Ignored
	case err == nil:
		return weir.Success
	}
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err) // as a server does
	}
	switch s.Code() {
	case codes.Unavailable:
		return weir.Dropped
	case codes.DeadlineExceeded:
		return weir.Late
	case codes.ResourceExhausted:
		return weir.Ignored
	}
	if why, ok := errors.AsType[*weir.Rejection](err); ok && why.Reason != weir.OverRate && why.Reason != weir.OverBurst {
		return weir.Dropped
	}
	return weir.Ignored
}

// answered is what a status tells a client about load. One whose time ran out may
// still be at work on the server. A quota is this client's own, and says nothing.
func answered(ctx context.Context, s *status.Status) weir.Outcome {
	switch s.Code() {
	case codes.OK:
		return weir.Success
	case codes.Unavailable:
		return weir.Dropped
	case codes.DeadlineExceeded:
		return weir.TimedOut
	case codes.Canceled:
		if ctx.Err() != nil {
			return weir.Left
		}
	}
	return weir.Ignored
}

// turnedAway reports whether a status says that the server has not let a call in:
// for a quota, or because it is not available.
func turnedAway(s *status.Status) bool {
	return s.Code() == codes.Unavailable || s.Code() == codes.ResourceExhausted && !oversize(s)
}

// oversize reports whether a status is about the size of a message. gRPC says
// RESOURCE_EXHAUSTED to that, too, and only the text, which is that of its
// implementations in Go and C++, and in Java, tells it from a quota.
func oversize(s *status.Status) bool {
	m := s.Message()
	return strings.Contains(m, "larger than max") || strings.Contains(m, "exceeds maximum size")
}
