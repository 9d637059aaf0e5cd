package grpcapi

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/descriptor"
	"github.com/weir-go/weir/service/internal/server/decider"
)

func newCall() *call { return new(call) }

// expect checks a decoded call against the message that package proto decodes.
func expect(t *testing.T, c *call, want *rls.RateLimitRequest) {
	t.Helper()
	if len(c.requests) != len(want.Descriptors) || len(c.verdicts) != len(c.requests) {
		t.Fatalf("%d requests, %d verdicts of %d descriptors", len(c.requests), len(c.verdicts), len(want.Descriptors))
	}
	for i, d := range want.Descriptors {
		var entries []descriptor.Entry
		for _, e := range d.Entries {
			entries = append(entries, descriptor.Entry{Key: e.Key, Value: e.Value})
		}
		hits := uint64(max(want.HitsAddend, 1))
		if d.HitsAddend != nil {
			hits = d.HitsAddend.Value
		}
		req := &c.requests[i]
		if d.IsNegativeHits {
			hits = 0
		}
		if key := string(descriptor.Append(nil, want.Domain, entries)); req.Key != key || uint64(req.N) != min(hits, maxHits) {
			t.Errorf("%q, %d: want %q, %d", req.Key, req.N, key, hits)
		}
		if (d.Limit != nil) != (req.Quota != nil) {
			t.Errorf("%+v of the limit %v", req.Quota, d.Limit)
		} else if d.Limit != nil && *req.Quota != quotaOf(d.Limit) {
			t.Errorf("%+v of the limit %v", req.Quota, d.Limit)
		}
	}
}

// quotaOf returns the quota of a limit, without a period if that is not known.
func quotaOf(l *common.RateLimitDescriptor_RateLimitOverride) decider.Quota {
	q, multiplier := decider.Quota{Count: int(l.RequestsPerUnit)}, uint32(1)
	if l.UnitMultiplier != nil {
		multiplier = l.UnitMultiplier.Value
	}
	if l.Unit > 0 && int(l.Unit) < len(config.RateUnits) {
		q.Unit = config.RateUnits[l.Unit]
		if most := math.MaxInt64 / int64(q.Unit); int64(multiplier) <= most {
			q.Period = q.Unit * time.Duration(multiplier)
		}
	}
	return q
}

// A call has what the message has, wherever its buffers were before.
func TestDecode(t *testing.T) {
	c := newCall()
	for range 3 {
		for n := range 40 {
			m := &rls.RateLimitRequest{Domain: "edge", HitsAddend: uint32(n % 3)}
			for i := range n {
				d := &common.RateLimitDescriptor{IsNegativeHits: i%7 == 6}
				for range i % 5 {
					d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: "a|b=c", Value: string(make([]byte, 10*i))})
				}
				if i%3 == 1 {
					d.HitsAddend = wrapperspb.UInt64(uint64(i % 2 * i))
				}
				if i%4 == 1 {
					d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(i % 3), Unit: envoytype.RateLimitUnit(1 + i%6)}
				}
				m.Descriptors = append(m.Descriptors, d)
			}
			b, err := proto.Marshal(m)
			testrig.Must(t, err)
			testrig.Must(t, c.decode(b))
			clear(b) // nothing of it is kept
			expect(t, c, m)
		}
	}
}

// A small message with a long domain or many descriptors takes no more memory than its bounds.
func TestDecodeBounds(t *testing.T) {
	message := func(domain, descriptors int) []byte {
		m := &rls.RateLimitRequest{Domain: strings.Repeat("d", domain)}
		for range descriptors {
			m.Descriptors = append(m.Descriptors, new(common.RateLimitDescriptor))
		}
		b, err := proto.Marshal(m)
		testrig.Must(t, err)
		return b
	}
	entries := func(n int) []byte {
		m := &rls.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{{Entries: make([]*common.RateLimitDescriptor_Entry, n)}}}
		for i := range n {
			m.Descriptors[0].Entries[i] = new(common.RateLimitDescriptor_Entry)
		}
		b, err := proto.Marshal(m)
		testrig.Must(t, err)
		return b
	}
	c := newCall()
	for _, ok := range [][]byte{message(1, maxDescriptors), message(maxKeys/8, 8), entries(maxEntries)} {
		if err := c.decode(ok); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range [][]byte{message(1, maxDescriptors+1), message(maxKeys/8, 9), entries(maxEntries + 1)} {
		if err := c.decode(bad); err != errManyOrLarge || len(c.keys) > maxKeys || len(c.entries) > maxEntries {
			t.Errorf("%v, %d bytes of keys", err, len(c.keys))
		}
	}
}

// Any message is decoded as package proto does, or refused.
func FuzzDecode(f *testing.F) {
	m := &rls.RateLimitRequest{Domain: "edge", HitsAddend: 2, Descriptors: []*common.RateLimitDescriptor{{
		Entries: []*common.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}, HitsAddend: wrapperspb.UInt64(3), IsNegativeHits: true,
		Limit: &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 2, Unit: 1, UnitMultiplier: wrapperspb.UInt32(3)},
	}}}
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(slices.Concat(b, b))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newCall()
		if err := c.decode(b); err != nil {
			return
		}
		var want rls.RateLimitRequest
		if proto.Unmarshal(b, &want) == nil {
			expect(t, c, &want)
		}
	})
}
