package grpcapi

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/descriptor"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A call is a request of ShouldRateLimit that is being answered. It is reused.
//
// Messages are decoded and encoded by hand, because that of package proto takes longer than
// all the rest of an answer.
type call struct {
	api      *API
	prefix   [prefixLen]byte // of the message
	domain   []byte
	entries  []descriptor.Entry // of one descriptor, in the message
	keys     []byte             // of all descriptors
	requests []decider.Request
	verdicts []decider.Verdict
	limits   []override // of the requests, as far as they have one
	quotas   []decider.Quota
	out      []byte // the answer
	over     bool   // the overall code is OVER_LIMIT
	near     nearest
	passed   []int  // descriptors within the limit of a rule, for dynamic metadata
	hits     uint64 // hits_addend of the request
}

// maxKept bounds the buffers that are kept for the next call, in bytes.
const maxKept = 16 << 10

// forget ends the call.
func (a *API) forget(c *call) {
	if cap(c.keys) > maxKept || cap(c.out) > maxKept || cap(c.verdicts) > maxKept/64 {
		return
	}
	clear(c.entries[:cap(c.entries)])
	clear(c.requests[:cap(c.requests)])
	for i := range c.verdicts {
		c.verdicts[i] = decider.Verdict{Answers: c.verdicts[i].Answers[:0]}
	}
	c.domain, c.near, c.passed = c.domain[:0], nearest{}, c.passed[:0]
	a.calls.Put(c)
}

// An override is the limit that a descriptor brings.
type override struct {
	set        bool
	count      uint32
	unit       uint32 // index in config.RateUnits
	multiplied bool
	multiplier uint32 // of the unit; 1 unless multiplied
}

// Bounds of a request. The domain is part of every key, so that keys can take far more than the
// message.
const (
	maxDescriptors = 1000
	maxEntries     = 1000           // of a descriptor
	maxKeys        = 4 * maxMessage // bytes of all keys
)

var (
	errMessage     = errors.New("the message is not a RateLimitRequest")
	errManyOrLarge = fmt.Errorf("a request has at most %d descriptors of %d entries, and their keys, each with the domain, %d bytes", maxDescriptors, maxEntries, maxKeys)
)

// maxHits bounds the cost of a descriptor.
const maxHits = 1 << 40

// Tags of fields: their number and how they are encoded.
const (
	number = uint64(protowire.VarintType)
	bytes  = uint64(protowire.BytesType)

	requestDomain, requestDescriptors, requestHits                             = 1<<3 | bytes, 2<<3 | bytes, 3<<3 | number
	descriptorEntries, descriptorLimit, descriptorHits, descriptorNegativeHits = 1<<3 | bytes, 2<<3 | bytes, 3<<3 | bytes, 4<<3 | number
	entryKey, entryValue                                                       = 1<<3 | bytes, 2<<3 | bytes
	overrideCount, overrideUnit, overrideMultiplier                            = 1<<3 | number, 2<<3 | number, 3<<3 | bytes
	wrapped                                                                    = 1<<3 | number // in a UInt64Value
)

// decode decodes a RateLimitRequest. It keeps nothing of the message.
func (c *call) decode(b []byte) error {
	hits := uint64(0)
	err := fields(b, func(tag uint64, value []byte, n uint64) {
		switch tag {
		case requestDomain:
			c.domain = append(c.domain[:0], value...)
		case requestHits:
			hits = uint64(uint32(n))
		}
	})
	if err != nil {
		return err
	}
	c.hits, c.keys, c.requests, c.limits, c.quotas = hits, c.keys[:0], c.requests[:0], c.limits[:0], c.quotas[:0]
	// The domain can come after descriptors, so they are decoded in a second pass.
	if failed := fields(b, func(tag uint64, value []byte, _ uint64) {
		if tag == requestDescriptors && err == nil {
			err = c.decodeDescriptor(value, max(hits, 1))
		}
	}); failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	// The keys and the quotas do not move any more.
	c.quotas = append(c.quotas, make([]decider.Quota, len(c.limits))...)
	for i, from := 0, 0; i < len(c.requests); i++ {
		req := &c.requests[i]
		n := len(req.Key)
		req.Key = text(c.keys[from : from+n])
		from += n
		if i < len(c.limits) && c.limits[i].set {
			c.quotas[i] = c.limits[i].quota()
			req.Quota = &c.quotas[i]
		}
	}
	for len(c.verdicts) < len(c.requests) {
		c.verdicts = append(c.verdicts, decider.Verdict{})
	}
	c.verdicts = c.verdicts[:len(c.requests)]
	return nil
}

// decodeDescriptor appends the request of a RateLimitDescriptor.
func (c *call) decodeDescriptor(b []byte, hits uint64) (err error) {
	c.entries = c.entries[:0]
	own, subtract, limit := false, false, override{multiplier: 1}
	failed := fields(b, func(tag uint64, value []byte, n uint64) {
		switch tag {
		case descriptorEntries:
			var e descriptor.Entry
			if wrong := fields(value, func(tag uint64, value []byte, _ uint64) {
				switch tag {
				case entryKey:
					e.Key = text(value)
				case entryValue:
					e.Value = text(value)
				}
			}); wrong != nil {
				err = wrong
			}
			if len(c.entries) == maxEntries {
				err = errManyOrLarge
				return
			}
			c.entries = append(c.entries, e)
		case descriptorHits:
			if !own {
				own, hits = true, 0
			}
			if wrong := fields(value, func(tag uint64, _ []byte, n uint64) {
				if tag == wrapped {
					hits = n
				}
			}); wrong != nil {
				err = wrong
			}
		case descriptorLimit:
			limit.set = true
			if wrong := limit.decode(value); wrong != nil {
				err = wrong
			}
		case descriptorNegativeHits:
			subtract = n != 0
		}
	})
	if failed != nil {
		return failed
	}
	if subtract {
		hits = 0
	}
	from := len(c.keys)
	if len(c.requests) == maxDescriptors || from+len(c.domain) > maxKeys {
		return errManyOrLarge
	}
	c.keys = descriptor.Append(c.keys, text(c.domain), c.entries)
	c.requests = append(c.requests, decider.Request{Key: text(c.keys[from:]), N: int(min(hits, maxHits))})
	if limit.set {
		for len(c.limits) < len(c.requests)-1 {
			c.limits = append(c.limits, override{})
		}
		c.limits = append(c.limits, limit)
	}
	return err
}

// decode decodes a RateLimitOverride.
func (o *override) decode(b []byte) (err error) {
	failed := fields(b, func(tag uint64, value []byte, n uint64) {
		switch tag {
		case overrideCount:
			o.count = uint32(n)
		case overrideUnit:
			o.unit = uint32(n)
		case overrideMultiplier:
			if !o.multiplied {
				o.multiplied, o.multiplier = true, 0
			}
			if wrong := fields(value, func(tag uint64, _ []byte, n uint64) {
				if tag == wrapped {
					o.multiplier = uint32(n)
				}
			}); wrong != nil {
				err = wrong
			}
		}
	})
	return cmp.Or(failed, err)
}

// quota returns the limit as a Quota, which is not valid if the unit or the multiplier is not.
func (o *override) quota() decider.Quota {
	q := decider.Quota{Count: int(o.count)}
	if o.unit < uint32(len(config.RateUnits)) {
		q.Unit = config.RateUnits[o.unit]
	}
	if q.Unit > 0 && time.Duration(o.multiplier) <= weir.Never/q.Unit {
		q.Period = q.Unit * time.Duration(o.multiplier)
	}
	return q
}

// fields calls yield with each field of a message that is bytes or a number.
func fields(b []byte, yield func(tag uint64, value []byte, n uint64)) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMessage
		}
		b = b[n:]
		switch kind {
		case protowire.BytesType:
			var value []byte
			if value, n = protowire.ConsumeBytes(b); n >= 0 {
				yield(uint64(field)<<3|bytes, value, 0)
			}
		case protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); n >= 0 {
				yield(uint64(field)<<3|number, nil, v)
			}
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return errMessage
		}
		b = b[n:]
	}
	return nil
}

// text returns bytes as a string, which must not be used once they change.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
