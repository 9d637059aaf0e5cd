package peer

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

func appendSettle(b []byte, key, id string, n int) []byte {
	return binary.AppendUvarint(appendText(appendText(b, key), id), uint64(n))
}

func appendReturn(b []byte, key, id string, o weir.Outcome) []byte {
	return append(appendText(appendText(b, key), id), byte(o))
}

// Flags of a request for a lease.
const (
	leaseWaits = 1 << iota
	leaseTellsWait
)

func appendLeaseRequest(b []byte, r *decider.LeaseRequest, timeout time.Duration) []byte {
	flags := uint64(0)
	if r.Wait {
		flags |= leaseWaits
	}
	if r.OnWait != nil {
		flags |= leaseTellsWait
	}
	b = binary.AppendUvarint(appendText(appendSpan(b, timeout), r.Key), uint64(r.N))
	return binary.AppendUvarint(appendSpan(b, r.TTL), flags)
}

func (d *decoder) leaseRequest() (r decider.LeaseRequest, timeout time.Duration, tells bool) {
	timeout = d.span()
	r.Key, r.N, r.TTL = d.key(), d.count(), d.span()
	flags := d.uvarint()
	r.Wait = flags&leaseWaits != 0
	return r, timeout, flags&leaseTellsWait != 0
}

func appendLease(b []byte, l *decider.Lease) []byte {
	b = binary.AppendUvarint(appendText(appendText(b, l.Key), l.ID), uint64(l.N))
	b = appendSpan(appendSpan(binary.AppendUvarint(b, l.Token), l.TTL), l.Waited)
	return append(appendSigned(appendSigned(b, int64(l.Limit)), int64(l.Inflight)), stepCode(l.Step))
}

func (d *decoder) lease() decider.Lease {
	return decider.Lease{
		Key: string(d.bytes()), ID: string(d.bytes()), N: d.count(), Token: d.uvarint(), TTL: d.span(), Waited: d.span(),
		Limit: int(d.signed()), Inflight: int(d.signed()), Step: d.step(),
	}
}

// reason reads the number of a reason: weir.Closed for that of a later version.
func (d *decoder) reason() weir.Reason {
	if r := weir.Reason(d.octet()); r <= weir.Recovering {
		return r
	}
	return weir.Closed
}

// stepCodes are the names of steps by their numbers, which are part of the protocol: those of
// decider.Step can change from version to version.
var stepCodes = []string{"exact", "known", "share", "rule", "assigned", "last"}

// toCode and ofCode translate the numbers of steps.
var toCode, ofCode = func() (to [decider.StepsCount]byte, of [256]decider.Step) {
	for code := range of {
		of[code] = decider.ByRule
	}
	for s := range decider.StepsCount {
		if code := slices.Index(stepCodes, s.String()); code >= 0 {
			to[s], of[code] = byte(code), s
		}
	}
	return to, of
}()

func stepCode(s decider.Step) byte {
	if s >= decider.StepsCount {
		s = decider.ByRule
	}
	return toCode[s]
}

// step reads the number of a step.
func (d *decoder) step() decider.Step { return ofCode[d.octet()] }
