package loadsign_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/outcome"
)

// A client's own quota, its errors and a gateway's 502 say nothing about load.
func TestStatus(t *testing.T) {
	for code, want := range map[int]weir.Outcome{
		101: weir.Success, 200: weir.Success, 204: weir.Success, 304: weir.Success, 399: weir.Success,
		400: weir.Ignored, 404: weir.Ignored, 408: weir.Ignored, 429: weir.Ignored, 499: weir.Ignored,
		500: weir.Ignored, 501: weir.Ignored, 502: weir.Ignored, 599: weir.Ignored,
		503: weir.Dropped, 504: weir.Dropped, 0: weir.Ignored, -1: weir.Ignored,
	} {
		if got := loadsign.OfStatus(code).Outcome(); got != want {
			t.Errorf("%d: %v: want %v", code, got, want)
		}
	}
}

func TestError(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want loadsign.Sign
	}{
		{nil, loadsign.Served},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, loadsign.Refused},
		{&net.OpError{Op: "dial", Err: context.DeadlineExceeded}, loadsign.Silent},
		{fmt.Errorf("asking: %w", context.DeadlineExceeded), loadsign.Silent},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, loadsign.None},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, loadsign.Unreachable},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, loadsign.Silent},
		{&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, loadsign.Unreachable},
		{&net.OpError{Op: "dial", Net: "unix", Err: syscall.ENOENT}, loadsign.Unreachable},
		{&net.OpError{Op: "dial", Net: "unix", Err: syscall.EACCES}, loadsign.Unreachable},
		{&net.OpError{Op: "read", Err: syscall.EACCES}, loadsign.None},
		{&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, loadsign.Unreachable},
		{tls.RecordHeaderError{Msg: "no TLS"}, loadsign.Unreachable},
		{context.Canceled, loadsign.None},
		{weir.Reject(weir.OverRate, 0), loadsign.None},
		{weir.Reject(weir.OverBurst, 0), loadsign.None},
		{weir.Reject(weir.Closed, 0), loadsign.None},
		{weir.Reject(weir.Throttled, 0), loadsign.None},
		{weir.Reject(weir.OverLimit, 0), loadsign.Rejected},
		{fmt.Errorf("asking: %w", weir.Reject(weir.QueueFull, 0)), loadsign.Rejected},
		{weir.Reject(weir.Overdue, 0), loadsign.Rejected},
		{weir.Reject(weir.TooLate, 0), loadsign.Rejected},
		{weir.Dropped.Wrap(errors.New("no connection left")), loadsign.Rejected},
		{weir.Ignored.Wrap(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), loadsign.None},
		{weir.Success.Wrap(errors.New("no rows")), loadsign.Served},
		{errors.New("a bug"), loadsign.None},
	} {
		if got := loadsign.OfError(tt.err); got != tt.want {
			t.Errorf("%v: %v: want %v", tt.err, got, tt.want)
		}
		if got := outcome.Plain(weir.OutcomeOf(tt.err)); got != tt.want.Outcome() {
			t.Errorf("%v: %v for weir.Do: want %v, as at the edges", tt.err, got, tt.want.Outcome())
		}
	}
}

// A service that cannot be reached says nothing about its load.
func TestUnreachable(t *testing.T) {
	if got := loadsign.Unreachable.Outcome(); got != weir.Ignored {
		t.Errorf("%v", got)
	}
}

func TestGRPC(t *testing.T) {
	for code, want := range map[uint32]loadsign.Sign{
		0: loadsign.Served, 1: loadsign.None, 4: loadsign.Silent, 5: loadsign.None, 8: loadsign.None, 13: loadsign.None,
		14: loadsign.Unavailable, 99: loadsign.None,
	} {
		if got := loadsign.OfGRPC(code, errors.New("as a status")); got != want {
			t.Errorf("%d: %v: want %v", code, got, want)
		}
	}
	if got := loadsign.OfGRPC(2, weir.Reject(weir.OverLimit, 0)); got != loadsign.Rejected {
		t.Errorf("a limiter further down: %v", got)
	}
	if got := loadsign.OfGRPC(2, weir.Reject(weir.OverRate, 0)); got != loadsign.None {
		t.Errorf("a quota further down: %v", got)
	}
}

// If no caller waits any more, that says more than the answer: the work has
// ended, or may be going on.
func TestCallersThatHaveLeft(t *testing.T) {
	for _, tt := range []struct {
		sign          loadsign.Sign
		ctx           error
		ended, unseen weir.Outcome
	}{
		{loadsign.Served, nil, weir.Success, weir.Success},
		{loadsign.Unavailable, nil, weir.Dropped, weir.Dropped},
		{loadsign.None, nil, weir.Ignored, weir.Ignored},
		{loadsign.Served, context.DeadlineExceeded, outcome.Late, outcome.TimedOut},
		{loadsign.None, context.DeadlineExceeded, outcome.Late, outcome.TimedOut},
		{loadsign.Refused, context.DeadlineExceeded, outcome.Late, weir.Dropped},
		{loadsign.Served, context.Canceled, outcome.Gone, outcome.Left},
		{loadsign.None, context.Canceled, outcome.Gone, outcome.Left},
		{loadsign.Unavailable, context.Canceled, outcome.Gone, weir.Dropped},
	} {
		if got := tt.sign.Ended(tt.ctx); got != tt.ended {
			t.Errorf("%v, %v: ended %v: want %v", tt.sign, tt.ctx, got, tt.ended)
		}
		if got := tt.sign.Unseen(tt.ctx); got != tt.unseen {
			t.Errorf("%v, %v: unseen %v: want %v", tt.sign, tt.ctx, got, tt.unseen)
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for s := range loadsign.Sign(loadsign.Count) {
		if s.String() == "" || s.String() == "unknown" || seen[s.String()] {
			t.Errorf("sign %d: %q", uint8(s), s)
		}
		seen[s.String()] = true
	}
	if got := loadsign.Sign(99).String(); got != "unknown" {
		t.Error(got)
	}
}
