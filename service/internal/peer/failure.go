package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// codes are the errors that keep their identity over the link, by their numbers, which are part
// of the protocol.
var codes = []error{
	1: decider.ErrQuota, 2: decider.ErrOwnQuota, 3: decider.ErrNoGrant, 4: decider.ErrNoLease, 5: decider.ErrLeaves,
	6: decider.ErrNoLeasing, 7: context.Canceled, 8: context.DeadlineExceeded, 9: ErrUnknown, 10: ErrBusy, 11: ErrTooLarge, 12: ErrUnavailable,
	13: decider.ErrMoved, 14: decider.ErrNoRate,
}

const (
	codeOther     = 0  // an error that only has a text
	codeRejection = 32 // a *weir.Rejection
	codeCall      = 33 // an error of a function of HandlerConfig.Calls, with its text
)

// A callError is an error of the function that serves a Call.
type callError struct{ error }

// maxError bounds the text of an error, in bytes.
const maxError = 1 << 10

// appendFailure appends an error, and the step of the lease that was refused.
func appendFailure(b []byte, err error, step decider.Step) []byte {
	var reason weir.Reason
	var retry time.Duration
	code := uint64(codeOther)
	if r, ok := err.(*weir.Rejection); ok {
		code, reason, retry = codeRejection, r.Reason, r.RetryAfter
	} else if _, ok := err.(callError); ok {
		code = codeCall
	} else {
		for i, e := range codes {
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
	b = appendText(binary.AppendUvarint(b, code), text[:min(len(text), maxError)])
	return append(appendSpan(append(b, byte(reason)), retry), stepCode(step))
}

// failure reads what appendFailure writes.
func (d *decoder) failure() (step decider.Step, err error) {
	code, text := d.uvarint(), string(d.bytes())
	reason, retry := d.reason(), d.span()
	step = d.step()
	switch {
	case code == codeRejection:
		if r := weir.Reject(reason, retry); r.RetryAfter == retry {
			return step, r
		}
		return step, &weir.Rejection{Reason: reason, RetryAfter: retry}
	case code == codeCall:
		return step, errors.New(text)
	case code < uint64(len(codes)) && codes[code] != nil:
		return step, codes[code]
	}
	return step, fmt.Errorf("%w: %s", ErrUnavailable, text)
}
