package grpclimit

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/outcome"
)

// outcomeOf returns the outcome of a handler that has ended, by the table of package
// loadsign. DEADLINE_EXCEEDED is Late: the deadline is
// the client's, so the limit judges by how long the work took.
func outcomeOf(ctx context.Context, err error) weir.Outcome {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err) // as a server does
	}
	sign := loadsign.OfGRPC(uint32(s.Code()), err)
	if sign == loadsign.Silent && ctx.Err() == nil {
		return outcome.Late
	}
	return sign.Ended(ctx.Err())
}

// answered returns the outcome of a call for its client. A server may go on working
// after the deadline of a call.
func answered(ctx context.Context, s *status.Status) weir.Outcome {
	switch sign := loadsign.OfGRPC(uint32(s.Code()), nil); {
	case sign == loadsign.Silent:
		return outcome.TimedOut
	case s.Code() == codes.Canceled:
		return sign.Unseen(ctx.Err())
	default:
		return sign.Outcome()
	}
}

// turnedAway reports whether a status is a refusal: for a quota, or because the
// server is not available.
func turnedAway(s *status.Status) bool {
	return s.Code() == codes.Unavailable || s.Code() == codes.ResourceExhausted && !oversize(s)
}

// oversize reports whether a status is about the size of a message. gRPC says
// RESOURCE_EXHAUSTED to that, too. Only the text differs from a quota's: that of the
// implementations in Go and C++, and in Java.
func oversize(s *status.Status) bool {
	m := s.Message()
	return strings.Contains(m, "larger than max") || strings.Contains(m, "exceeds maximum size")
}
