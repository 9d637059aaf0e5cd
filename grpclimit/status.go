package grpclimit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
)

// The trailers of a refused call.
const (
	// ReasonTrailer is the weir.Reason, or "timeout" or "client_gone".
	ReasonTrailer = "weir-reason"
	// PushbackTrailer is the wait in milliseconds, or negative if a retry is
	// useless. A client with a retry policy obeys it (gRPC proposal A6).
	PushbackTrailer = "grpc-retry-pushback-ms"
)

// An answer is the status for a Reason.
type answer struct {
	code   codes.Code
	detail string
}

// answers holds the status for each Reason; index 0 is for unknown ones.
//
// RESOURCE_EXHAUSTED means that the client exceeds a quota. UNAVAILABLE means that
// the server did not do the work, so that the client may try another server.
// Therefore TooLate is not DEADLINE_EXCEEDED, which leaves open whether the work
// was done.
var answers = [...]answer{
	0:               {codes.Unavailable, "the call was refused"},
	weir.OverRate:   {codes.ResourceExhausted, "more calls than allowed"},
	weir.OverLimit:  {codes.Unavailable, "as many calls are in flight as can be served"},
	weir.QueueFull:  {codes.Unavailable, "as many calls are in flight as can be served, and the queue is full"},
	weir.Overdue:    {codes.Unavailable, "the call waited in the queue for too long"},
	weir.TooLate:    {codes.Unavailable, "the answer would have come after the call's deadline"},
	weir.Closed:     {codes.Unavailable, "no more calls are served"},
	weir.OverBurst:  {codes.ResourceExhausted, "the call costs more than is ever allowed"},
	weir.Throttled:  {codes.Unavailable, "too many calls have failed recently"},
	weir.Recovering: {codes.Unavailable, "no leases are granted for a while after a crash"},
}

// overUnits is the status for OverLimit of a rule: a quota of the client.
var overUnits = answer{codes.ResourceExhausted, "more calls in flight than allowed"}

// Reject returns the gRPC error of a call that was refused because of err: a
// *weir.Rejection, or the error of the call's context. It sets the trailers of the
// call under ctx. Handlers that ask a limiter themselves return its result.
//
//   - RESOURCE_EXHAUSTED: the client exceeds a quota (OverRate, OverBurst, and OverLimit
//     if a Rule refused the call), with a QuotaFailure,
//   - UNAVAILABLE: the server is overloaded or closed (all other rejections),
//   - DEADLINE_EXCEEDED, CANCELED: the error of the context,
//   - INTERNAL: any other error without a gRPC status.
//
// A rejection comes with a RetryInfo and a PushbackTrailer: after its RetryAfter
// or, if that is unknown, after a random time between one and two seconds. If it
// is Never, there is no RetryInfo; a quota then has the pushback -1, and an
// overload has none, since another server may have room. TooLate has neither.
//
// The error wraps err.
func Reject(ctx context.Context, err error) error { return tell(ctx, unnamed, err, 0) }

// tell does the same as Reject, for the quota of a rule.
func tell(ctx context.Context, q *quota, err error, jitter time.Duration) error {
	r := refusalOf(q, err, jitter)
	if r.trailer != nil {
		_ = grpc.SetTrailer(ctx, r.trailer) // fails only without a call
	}
	return r
}

// A refusal is the gRPC error of a refused call.
type refusal struct {
	status  *status.Status
	trailer metadata.MD
	why     error
}

func (r *refusal) Error() string              { return r.status.String() }
func (r *refusal) GRPCStatus() *status.Status { return r.status }
func (r *refusal) Unwrap() error              { return r.why }

func refusalOf(q *quota, err error, jitter time.Duration) *refusal {
	why := admission.Rejection(err)
	switch {
	case why != nil:
		return rejected(q, why, err, jitter)
	case errors.Is(err, context.DeadlineExceeded):
		return ended(codes.DeadlineExceeded, "timeout", "there was no answer in time", err)
	case errors.Is(err, context.Canceled):
		return ended(codes.Canceled, "client_gone", "the client left before the answer", err)
	}
	s, ok := status.FromError(err)
	if !ok {
		s = status.New(codes.Internal, "the limiter failed")
	}
	return &refusal{status: s, why: err}
}

func ended(code codes.Code, reason, detail string, err error) *refusal {
	return &refusal{status.New(code, detail), metadata.MD{ReasonTrailer: {reason}}, err}
}

// rejected returns the refusal for a rejection. Most are cached, since rejections
// are shared.
func rejected(q *quota, why *weir.Rejection, err error, jitter time.Duration) *refusal {
	unknown := 0
	if why.RetryAfter <= 0 {
		unknown = rand.N(spread)
	}
	if err != error(why) || jitter > 0 || why != weir.Reject(why.Reason, why.RetryAfter) {
		return q.refusal(why, err, unknown, jitter)
	}
	key := sharing{why, unknown}
	if r, ok := q.shared.Load(key); ok {
		return r.(*refusal)
	}
	r, _ := q.shared.LoadOrStore(key, q.refusal(why, err, unknown, 0))
	return r.(*refusal)
}

// A sharing is the key of a cached refusal.
type sharing struct {
	why     *weir.Rejection
	unknown int
}

func (q *quota) refusal(why *weir.Rejection, err error, unknown int, jitter time.Duration) *refusal {
	reason, name := why.Reason, why.Reason.String()
	if reason == 0 || int(reason) >= len(answers) {
		reason, name = 0, "unknown"
	}
	a := &answers[reason]
	if reason == weir.OverLimit && q.rule != "" {
		a = &overUnits
	}
	s, trailer := status.New(a.code, a.detail), metadata.MD{ReasonTrailer: {name}}
	var details []protoadapt.MessageV1
	if a.code == codes.ResourceExhausted {
		details = append(details, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
			{Subject: q.rule, Description: a.detail},
		}})
		trailer[PushbackTrailer] = []string{"-1"}
	}
	if wait, ok := wait(why, unknown, jitter); ok {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
		trailer[PushbackTrailer] = []string{strconv.FormatInt(milliseconds(wait), 10)}
	}
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return &refusal{s, trailer, err}
}

// spread is the number of different waits if the wait is unknown.
const spread = 64

// wait returns the wait that a client is told, if any.
func wait(why *weir.Rejection, unknown int, jitter time.Duration) (d time.Duration, ok bool) {
	switch d = why.RetryAfter; {
	case why.Reason == weir.TooLate:
		return 0, false
	case d <= 0:
		d = time.Second + time.Duration(unknown)*time.Second/spread
	}
	return d + jitter, d < weir.Never-jitter
}

// milliseconds rounds up, to at most what all clients can parse.
func milliseconds(d time.Duration) int64 {
	return (min(d, math.MaxInt32*time.Millisecond) + time.Millisecond - 1).Milliseconds()
}

// A quota holds the refusals of a rule.
type quota struct {
	rule   string
	shared sync.Map // *refusal by sharing; there are few shared rejections
}

// unnamed is the quota of limiters without a rule.
var unnamed = new(quota)
