package grpcapi

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Codes of answers.
const (
	codeOK        = 1
	codeOverLimit = 2
)

// Fields of the messages RateLimitResponse, DescriptorStatus, RateLimit, HeaderValue and
// Duration.
const (
	responseCode, responseStatuses, responseHeaders, responseMetadata = 1, 2, 3, 6
	statusCode, statusLimit, statusRemaining, statusReset             = 1, 2, 3, 4
	limitRequests, limitUnit, limitName                               = 1, 2, 3
	headerKey, headerValue                                            = 1, 2
	durationSeconds                                                   = 1
)

// A rateStatus is the answer for one descriptor.
type rateStatus struct {
	code      uint64
	limit     rateLimit
	remaining uint32
	reset     time.Duration // 0 if the answer has none
	quota     bool          // the rule has quota_mode
	unlimited bool          // the rule has no rate
}

// A rateLimit describes a limit.
type rateLimit struct {
	known bool
	count uint32
	unit  uint64 // index in config.RateUnits; 0 is none
	name  string
}

func limitOf(r *decider.RuleRef) rateLimit {
	l := rateLimit{known: true, count: number32(r.Rate.Count), unit: config.RateUnit(r.Rate.Period), name: r.Name}
	if r.Descriptor != nil {
		l.name = r.Descriptor.Name
	}
	return l
}

// nearest is the status that is closest to its limit.
type nearest struct {
	rateStatus
	found bool
}

// consider replaces the nearest status by one that is closer. As in envoyproxy/ratelimit, one
// with the largest number of remaining requests is not near.
func (n *nearest) consider(s *rateStatus, over bool) {
	least := uint32(math.MaxUint32)
	if n.found {
		least = n.remaining
	}
	if s.limit.known && (over || s.remaining < least) {
		n.rateStatus, n.found = *s, true
	}
}

// render encodes the answer.
func (c *call) render() {
	cfg := &c.api.cfg
	step := decider.Exact
	over, quotas, quotasOver := false, 0, 0
	b := append(c.out[:0], responseCode<<3, codeOK) // the code is set at the end
	for i := range c.verdicts {
		s := c.statusOf(i)
		step = max(step, c.verdicts[i].Step)
		quota := s.quota || cfg.Quota && !s.unlimited
		beyond := s.code == codeOverLimit
		c.near.consider(&s, beyond && !quota)
		if quota {
			quotas++
		}
		switch {
		case beyond && quota:
			quotasOver++
		case beyond:
			over = true
		case cfg.Metadata && s.limit.known:
			c.passed = append(c.passed, i)
		}
		b = s.append(b)
	}
	if cfg.Headers && c.near.found {
		b = appendCount(b, cfg.LimitHeader, uint64(c.near.limit.count))
		b = appendCount(b, cfg.RemainingHeader, uint64(c.near.remaining))
		b = appendCount(b, cfg.ResetHeader, seconds(c.near.reset))
	}
	if step.Degraded() {
		b = appendHeader(b, degradedHeader, step.String())
	}
	if cfg.Metadata {
		b = c.appendMetadata(b)
	}
	// As in envoyproxy/ratelimit, a quota denies a request only together with all its quotas.
	c.over = (over || quotas > 0 && quotas == quotasOver) && !cfg.Shadow
	if c.over {
		b[1] = codeOverLimit
	}
	c.out = b
}

// statusOf returns the status of a descriptor, and counts it.
func (c *call) statusOf(i int) rateStatus {
	req, v, own := &c.requests[i], &c.verdicts[i], override{}
	if i < len(c.limits) {
		own = c.limits[i]
	}
	switch {
	case len(v.Answers) == 0 && !v.OK && v.Reason != 0: // of keys without a rule, which are denied
		return rateStatus{code: codeOverLimit}
	case len(v.Answers) == 0 && v.Rule == nil:
		return rateStatus{code: codeOK}
	case len(v.Answers) == 0: // it has no rate
		return rateStatus{code: codeOK, remaining: math.MaxUint32, unlimited: true}
	}
	a := binding(v)
	s := rateStatus{code: codeOK, limit: limitOf(a.Rule), remaining: number32(a.Remaining), reset: a.ResetAfter}
	limit := a.Rule.Limit
	if own.set {
		limit = int(own.count)
		s.limit = rateLimit{known: true, count: own.count, unit: uint64(own.unit)}
	}
	of := a.Rule.Descriptor
	s.quota = of != nil && of.Quota && !own.set
	if v.Denied() == a {
		s.code = codeOverLimit
	}
	if !a.OK {
		s.remaining = 0
		if a.RetryAfter > 0 && a.RetryAfter != weir.Never {
			s.reset = a.RetryAfter
		}
		if s.quota && !of.Shadow {
			s.code = codeOverLimit
		}
	} else if !v.OK { // another descriptor was denied, and the tokens are returned
		s.remaining = number32(min(a.Remaining+req.N, limit))
	}
	c.api.stats.add(a, limit, req.N)
	return s
}

// binding returns the answer that denied or, if none did, the one with the fewest tokens.
func binding(v *decider.Verdict) *decider.Answer {
	if a := v.Denied(); a != nil {
		return a
	}
	least := &v.Answers[0]
	for i := range v.Answers[1:] {
		if a := &v.Answers[1+i]; !a.Rule.Shadow() && (least.Rule.Shadow() || a.Remaining < least.Remaining) {
			least = a
		}
	}
	return least
}

// number32 returns a number >= 0, or the largest one of 32 bits.
func number32(n int) uint32 { return uint32(min(uint64(n), math.MaxUint32)) }

// seconds rounds up to whole seconds.
func seconds(d time.Duration) uint64 { return uint64((d + time.Second - 1) / time.Second) }

// append appends the status as a field of the answer.
func (s *rateStatus) append(b []byte) []byte {
	b, begin := beginField(b, responseStatuses)
	b = appendNumber(b, statusCode, s.code)
	if s.limit.known {
		limit := 0
		b, limit = beginField(b, statusLimit)
		b = appendNumber(b, limitRequests, uint64(s.limit.count))
		b = appendNumber(b, limitUnit, s.limit.unit)
		b = appendString(b, limitName, s.limit.name)
		b = endField(b, limit)
	}
	b = appendNumber(b, statusRemaining, uint64(s.remaining))
	if s.reset > 0 && s.reset != weir.Never {
		reset := 0
		b, reset = beginField(b, statusReset)
		b = appendNumber(b, durationSeconds, seconds(s.reset))
		b = endField(b, reset)
	}
	return endField(b, begin)
}

// degradedHeader names the response header for decisions that the store of shared limits has not
// made. Its value is the worst step of all descriptors.
const degradedHeader = "x-weir-degraded"

// appendCount appends a response header with a number.
func appendCount(b []byte, name string, n uint64) []byte {
	var digits [20]byte
	return appendHeader(b, name, strconv.AppendUint(digits[:0], n, 10))
}

// appendHeader appends a response header.
func appendHeader[T string | []byte](b []byte, name string, value T) []byte {
	b, begin := beginField(b, responseHeaders)
	b = appendString(b, headerKey, name)
	b = protowire.AppendTag(b, headerValue, protowire.BytesType)
	b = append(protowire.AppendVarint(b, uint64(len(value))), value...)
	return endField(b, begin)
}

// appendNumber appends a number, unless it is zero.
func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// appendString appends a text, unless it is empty.
func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// beginField begins a message with a length of one byte, and returns where it begins.
func beginField(b []byte, field protowire.Number) ([]byte, int) {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0)
	return b, len(b)
}

// endField sets the length of the message that begins at an index.
func endField(b []byte, begin int) []byte {
	n := len(b) - begin
	if n < 1<<7 {
		b[begin-1] = byte(n)
		return b
	}
	var size [binary.MaxVarintLen64]byte
	return slices.Replace(b, begin-1, begin, size[:binary.PutUvarint(size[:], uint64(n))]...)
}
