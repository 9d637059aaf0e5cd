package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Errors of a link, besides those of decider.Decider.
var (
	// ErrUnavailable says that the other instance cannot be reached, does not answer, or is
	// shutting down.
	ErrUnavailable = errors.New("the peer is not available")
	// ErrBusy says that there are too many requests: on the link, or at the other instance.
	ErrBusy = errors.New("too many requests to the peer")
	// ErrSecret says that one of the instances has another secret than the other, or none.
	ErrSecret = errors.New("the peer has another secret")
	// ErrUnknown says that the other instance does not know the kind of request: it has an
	// older version.
	ErrUnknown = errors.New("the peer does not know this kind of request")
	// ErrSelf says that the other instance is this one: see serve.Config.Others.
	ErrSelf = errors.New("the peer is this instance itself")
	// ErrTooLarge says that a request or its answer is larger than MaxFrame.
	ErrTooLarge = errors.New("the request or its answer is too large for the link")
	// ErrInvalid ends a link on which the peer sends frames that the protocol does not allow.
	ErrInvalid = errors.New("it sends frames that are not valid")
)

// errorCodes are the errors that keep their identity over the link, by their numbers, which are part
// of the protocol.
var errorCodes = []error{
	1: decider.ErrQuota, 2: decider.ErrOwnQuota, 3: decider.ErrNoGrant, 4: decider.ErrNoLease, 5: decider.ErrLeaves,
	6: decider.ErrNoLeasing, 7: context.Canceled, 8: context.DeadlineExceeded, 9: ErrUnknown, 10: ErrBusy, 11: ErrTooLarge, 12: ErrUnavailable,
	13: decider.ErrMoved, 14: decider.ErrNoRate,
}

const (
	codeOther     = 0  // an error that only has a text
	codeRejection = 32 // a *weir.Rejection
	codeCall      = 33 // a CallError
)

// A CallError is an error of a function of serve.Config.Calls. It is told with its text.
type CallError struct{ Err error }

func (e CallError) Error() string { return e.Err.Error() }

// maxError bounds the text of an error, in bytes.
const maxError = 1 << 10

// AppendFailure appends an error, and the step of the lease that was refused.
func AppendFailure(b []byte, err error, step decider.Step) []byte {
	var reason weir.Reason
	var retry time.Duration
	code := uint64(codeOther)
	if r, ok := err.(*weir.Rejection); ok {
		code, reason, retry = codeRejection, r.Reason, r.RetryAfter
	} else if _, ok := err.(CallError); ok {
		code = codeCall
	} else {
		for i, e := range errorCodes {
			if e != nil && errors.Is(err, e) {
				code = uint64(i)
				break
			}
		}
	}
	text := ""
	if code == codeOther || code == codeCall {
		text = err.Error()
	}
	b = AppendText(binary.AppendUvarint(b, code), text[:min(len(text), maxError)])
	return append(AppendSpan(append(b, byte(reason)), retry), stepCode(step))
}

// Failure reads what AppendFailure writes.
func (d *Decoder) Failure() (step decider.Step, err error) {
	code, text := d.Uvarint(), string(d.bytes())
	reason, retry := d.reason(), d.Span()
	step = d.step()
	switch {
	case code == codeRejection:
		if r := weir.Reject(reason, retry); r.RetryAfter == retry {
			return step, r
		}
		return step, &weir.Rejection{Reason: reason, RetryAfter: retry}
	case code == codeCall:
		return step, errors.New(text)
	case code < uint64(len(errorCodes)) && errorCodes[code] != nil:
		return step, errorCodes[code]
	}
	return step, fmt.Errorf("%w: %s", ErrUnavailable, text)
}
