package wire

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// MaxBatch bounds the requests of a batch.
const MaxBatch = 100_000

// AppendBatch appends requests that are decided together. all means: allowed together or not at all.
func AppendBatch(b []byte, reqs []decider.Request, all bool, timeout time.Duration) ([]byte, error) {
	if len(reqs) > MaxBatch {
		return b, ErrTooLarge
	}
	b = append(AppendSpan(b, timeout), byte(flagsOf(all)))
	b = binary.AppendUvarint(b, uint64(len(reqs)))
	for i := range reqs {
		at, ok := len(b), false
		b, ok = EndElement(AppendRequest(BeginElement(b), &reqs[i], 0), at)
		if !ok || len(b) > 2*MaxFrame {
			return b, ErrTooLarge
		}
	}
	return b, nil
}

// AppendSettle appends the true cost n of a grant.
func AppendSettle(b []byte, key, id string, n int) []byte {
	return binary.AppendUvarint(AppendText(AppendText(b, key), id), uint64(n))
}

// AppendReturn appends the end of a lease.
func AppendReturn(b []byte, key, id string, o weir.Outcome) []byte {
	return append(AppendText(AppendText(b, key), id), byte(o))
}

// Flags of a request for a lease.
const (
	leaseWaits = 1 << iota
	leaseTellsWait
)

// AppendLeaseRequest appends a request for a lease.
func AppendLeaseRequest(b []byte, r *decider.LeaseRequest, timeout time.Duration) []byte {
	flags := uint64(0)
	if r.Wait {
		flags |= leaseWaits
	}
	if r.OnWait != nil {
		flags |= leaseTellsWait
	}
	b = binary.AppendUvarint(AppendText(AppendSpan(b, timeout), r.Key), uint64(r.N))
	return binary.AppendUvarint(AppendSpan(b, r.TTL), flags)
}

// LeaseRequest reads what AppendLeaseRequest writes. tells is whether the caller is told that the request waits.
func (d *Decoder) LeaseRequest() (r decider.LeaseRequest, timeout time.Duration, tells bool) {
	timeout = d.Span()
	r.Key, r.N, r.TTL = d.Key(), d.Count(), d.Span()
	flags := d.Uvarint()
	r.Wait = flags&leaseWaits != 0
	return r, timeout, flags&leaseTellsWait != 0
}

// AppendLease appends a lease.
func AppendLease(b []byte, l *decider.Lease) []byte {
	b = binary.AppendUvarint(AppendText(AppendText(b, l.Key), l.ID), uint64(l.N))
	b = AppendSpan(AppendSpan(binary.AppendUvarint(b, l.Token), l.TTL), l.Waited)
	return append(appendSigned(appendSigned(b, int64(l.Limit)), int64(l.Inflight)), stepCode(l.Step))
}

// Lease reads what AppendLease writes.
func (d *Decoder) Lease() decider.Lease {
	return decider.Lease{
		Key: string(d.bytes()), ID: string(d.bytes()), N: d.Count(), Token: d.Uvarint(), TTL: d.Span(), Waited: d.Span(),
		Limit: int(d.signed()), Inflight: int(d.signed()), Step: d.step(),
	}
}

// reason reads the number of a reason: weir.Closed for that of a later version.
func (d *Decoder) reason() weir.Reason {
	if r := weir.Reason(d.Octet()); r <= weir.Recovering {
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
func (d *Decoder) step() decider.Step { return ofCode[d.Octet()] }
