package recording

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/weir-go/weir"
)

// A Record describes one request. Instants count from the epoch of the recording.
type Record struct {
	// Intended is the arrival of the request at a limiter. In a recording of a load generator, it is
	// the instant at which the request should have been sent.
	Intended time.Duration
	// Wait is the time in the limiter's queue. In httplimit and grpclimit, it is the time from Intended to
	// Start, with waits for rules and for a body.
	Wait time.Duration
	// Start is the admission: the work begins. Of a request that was not admitted, it is the end.
	Start time.Duration
	// End is the end of the work.
	End time.Duration
	// Deadline is the instant at which the caller stops waiting; 0 if it is not known.
	Deadline time.Duration
	// Inflight are the units in flight at Start. They contain those of this request, if it was admitted.
	Inflight int
	// Class and Tenant are the numbers of Recorder.Class and Recorder.Tenant.
	Class, Tenant uint16
	Outcome       Outcome
	// Origin is the number of the origin that did the work.
	Origin uint8
}

// Response returns the time from the admission to the end.
func (r Record) Response() time.Duration { return r.End - r.Start }

// Latency returns the time from the intended start to the end.
func (r Record) Latency() time.Duration { return r.End - r.Intended }

// Size is the length of a record in a file, and in the memory of a Recorder.
const Size = 32

const (
	tick = 7 // log2 of the unit of times, in nanoseconds

	// Longest is the longest time that a record can have.
	Longest = math.MaxUint32 << tick * time.Nanosecond
)

// packed is a Record in a file.
type packed [Size]byte

func (p *packed) pack(r *Record) {
	binary.LittleEndian.PutUint64(p[0:], uint64(r.Intended))
	binary.LittleEndian.PutUint32(p[8:], ticks(r.Start-r.Intended))
	binary.LittleEndian.PutUint32(p[12:], ticks(r.Wait))
	binary.LittleEndian.PutUint32(p[16:], ticks(r.End-r.Start))
	deadline := uint32(0)
	if r.Deadline != 0 {
		deadline = max(ticks(r.Deadline-r.Intended), 1)
	}
	binary.LittleEndian.PutUint32(p[20:], deadline)
	binary.LittleEndian.PutUint16(p[24:], uint16(min(max(r.Inflight, 0), math.MaxUint16)))
	binary.LittleEndian.PutUint16(p[26:], r.Class)
	binary.LittleEndian.PutUint16(p[28:], r.Tenant)
	p[30], p[31] = byte(r.Outcome), r.Origin
}

func (p *packed) record() Record {
	intended := time.Duration(binary.LittleEndian.Uint64(p[0:]))
	span := func(at int) time.Duration { return time.Duration(binary.LittleEndian.Uint32(p[at:])) << tick }
	r := Record{
		Intended: intended, Start: intended + span(8), Wait: span(12),
		Inflight: int(binary.LittleEndian.Uint16(p[24:])),
		Class:    binary.LittleEndian.Uint16(p[26:]), Tenant: binary.LittleEndian.Uint16(p[28:]),
		Outcome: Outcome(p[30]), Origin: p[31],
	}
	r.End = r.Start + span(16)
	if d := span(20); d > 0 {
		r.Deadline = intended + d
	}
	return r
}

// end returns the End of a record.
func (p *packed) end() time.Duration {
	ticks := uint64(binary.LittleEndian.Uint32(p[8:])) + uint64(binary.LittleEndian.Uint32(p[16:]))
	return time.Duration(binary.LittleEndian.Uint64(p[0:]) + ticks<<tick)
}

// ticks returns a time in the unit of a file.
func ticks(d time.Duration) uint32 {
	return uint32(min(max(d, 0)>>tick, math.MaxUint32))
}

// An Outcome says how a request ended: the weir.Outcome of its work, Cancelled, or the weir.Reason of
// a rejection.
type Outcome uint8

const (
	// Cancelled is a request that was neither admitted nor rejected: its caller gave up, or its body
	// could not be read.
	Cancelled Outcome = 7
	// Allowed is a request that a rate has let pass. What it did then is not known: Start and End are when it
	// was allowed.
	Allowed Outcome = 8
	// rejected is a rejection without a reason; with one, the reason is added.
	rejected Outcome = 16
)

// Ended returns the Outcome of work that has ended.
func Ended(o weir.Outcome) Outcome { return min(Outcome(o), Cancelled-1) }

// Rejected returns the Outcome of a request that was rejected; 0 is a reason that is not known.
func Rejected(why weir.Reason) Outcome { return rejected + Outcome(why) }

// Success reports whether the work was done in time.
func (o Outcome) Success() bool { return o == Outcome(weir.Success) }

// Rejected reports whether the request was rejected.
func (o Outcome) Rejected() bool { return o >= rejected }

// Reason returns the reason of a rejection.
func (o Outcome) Reason() weir.Reason {
	if !o.Rejected() {
		return 0
	}
	return weir.Reason(o - rejected)
}

// Worked reports whether the request was admitted, so that work was done from Start to End.
func (o Outcome) Worked() bool { return o < Cancelled }

// Outcome returns the outcome of the work, if there was any.
func (o Outcome) Outcome() weir.Outcome {
	if !o.Worked() {
		return weir.Ignored
	}
	return weir.Outcome(o)
}

// String returns the name of the outcome or the reason.
func (o Outcome) String() string {
	switch {
	case o == rejected:
		return "rejected"
	case o.Rejected():
		return o.Reason().String()
	case o.Worked():
		return weir.Outcome(o).String()
	case o == Cancelled:
		return "cancelled"
	case o == Allowed:
		return "allowed"
	}
	return "unknown"
}
