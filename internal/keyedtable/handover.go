package keyedtable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/pagetable"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/slot"
)

// Share prepares a table to exchange the values of keys with the tables of other processes
// that have the same seed: all of them have the same fingerprint for a key, and its low
// slot.Bits bits are the slot of the key, which is no secret. The other bits decide where the
// table keeps the key. Share must be called before any other use. It panics if K is not string.
func (c *common[K]) Share(seed siphash.Key) {
	sum, ok := any(sumShared).(func(siphash.Key, K) uint64)
	if !ok {
		panic("keyed: Share: the keys are not strings")
	}
	c.hash = hash[K]{sum: sum, stable: true, kind: c.hash.kind | 0x80, shared: true}
	c.table.Load().seed = seed
}

// sumShared is the hash of a shared table.
func sumShared(seed siphash.Key, key string) uint64 { return withSlot(seed.String(key), slot.Of(key)) }

func withSlot(print uint64, of uint16) uint64 { return print&^(slot.Count-1) | uint64(of) }

// Extract takes the buckets of the keys of some slots out of a shared table, and passes them to
// emit in parts of up to 70 KB, for Absorb. A part must not be used after emit returns. Buckets
// of keys with a quota of their own, or with calls that wait in Wait, stay.
//
// Decisions go on meanwhile. A key that is used after its bucket was taken out starts from a
// full one: the next Extract takes out what it has used.
func (l *Buckets[K]) Extract(slots *slot.Set, emit func(part []byte) error) error {
	return l.extract(emit, l.copying(slots))
}

// Extract is Buckets.Extract.
func (l *Windows[K]) Extract(slots *slot.Set, emit func(part []byte) error) error {
	return l.extract(emit, l.copying(slots))
}

func (c *common[K]) extract(emit func([]byte) error, begin func(*segment) copyFunc[K]) error {
	from := copier[K]{table: c.table.Load()}
	slots := make([]uint64, 0, segmentWords+pagetable.Words)
	b := make([]byte, 0, 8*cap(slots)+64)
	for from.shard < len(from.table.shards) {
		var part segment
		var err error
		if part, slots, err = c.copySegment(&from, slots[:0], begin); err != nil {
			return fmt.Errorf("keyed: %w", err)
		}
		if len(slots) == 0 {
			continue
		}
		if err := emit(part.append(b[:0], slots)); err != nil {
			return err
		}
	}
	return nil
}

// append appends a segment and its slots.
func (part segment) append(b []byte, slots []uint64) []byte {
	b, _ = binary.Append(b, binary.LittleEndian, part) // of a type with a fixed size
	for _, word := range slots {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// absorb restores the values of a part.
func (c *common[K]) absorb(part []byte, begin func(*table[K], *segment) (restoreFunc, error)) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	t, in := c.table.Load(), bytes.NewReader(part)
	var head segment
	err := binary.Read(in, binary.LittleEndian, &head)
	switch {
	case err != nil:
	case int64(head.Words)*8 != int64(in.Len()) || head.Words%uint32(t.layout.Words) != 0 || head.Now < 0:
		err = errors.New("it has another size than it says")
	default:
		var restore restoreFunc
		if restore, err = begin(t, &head); err == nil {
			err = t.readSlots(in, int64(head.Words), make([]byte, 1<<13), restore)
		}
	}
	if err != nil {
		return fmt.Errorf("keyed: reading buckets: %w", err)
	}
	return nil
}

// Absorb adds the buckets of a part of another table to a shared table, while decisions go on.
// A key that both tables have has used what it has used in both, so that nothing is refilled
// that one bucket would not have: it can be in debt then, by maxDebt tokens at most.
func (l *Buckets[K]) Absorb(part []byte, maxDebt int) error {
	return l.absorb(part, func(t *table[K], part *segment) (restoreFunc, error) {
		if part.Law != bucketLaw {
			return nil, errOtherLaw
		}
		tokens, now := tokensOf(part.Scale), t.now()
		then := min(part.Now, now)
		return func(print uint64, v pagetable.Value) {
			s := t.shard(print)
			s.mu.Lock()
			defer s.mu.Unlock()
			var p bucketPlace
			s.findBucket(t, &p, print, now)
			moved := tokens.Move(gcra.Bucket(v.A), then, p.quota)
			if p.at != 0 || p.own != nil {
				moved = Sum(p.quota, p.bucket(), moved, then, now, maxDebt)
			}
			s.storeBucket(t, &p, max(moved, p.bucket()))
		}, nil
	})
}

// Sum returns the bucket of a key that has used tokens of two buckets: of moved until the instant
// then, and of here until now. The sum is full no sooner than one bucket with all these requests
// would be, unless that bucket would be in a debt of more than maxDebt.
//
// Proof. A bucket is the instant at which it is full, and a request at the instant t moves it from
// b to max(b, t)+cost. Let the requests of here move a bucket that is full at then, and another
// one that starts from moved. The distance of the two is moved-then at first, and no request
// increases it. So the second bucket, which has had all requests, is at most here+moved-then.
func Sum(q *gcra.Quota, here, moved gcra.Bucket, then, now time.Duration, maxDebt int) gcra.Bucket {
	start := fullAt(q, then)
	if moved <= start {
		return here
	}
	sum, over := bits.Add64(uint64(max(here, start)), uint64(moved-start), 0)
	if over != 0 {
		sum = ^uint64(0)
	}
	most, _ := q.Charge(0, now, q.Burst()+min(maxDebt, 1<<62-q.Burst()), maxDebt)
	return min(gcra.Bucket(sum), max(most, here, moved))
}

// fullAt returns the bucket that is full from an instant on.
func fullAt(q *gcra.Quota, at time.Duration) gcra.Bucket {
	b, n := q.Charge(0, at, 1, 1)
	return q.Refund(b, n)
}

// Absorb is Buckets.Absorb. Counts of the same window add up.
func (l *Windows[K]) Absorb(part []byte) error {
	return l.absorb(part, func(t *table[K], part *segment) (restoreFunc, error) {
		from, err := l.ruleOf(part)
		if err != nil {
			return nil, err
		}
		now := t.now()
		by := l.rule.At(now)
		return func(print uint64, v pagetable.Value) {
			s := t.shard(print)
			s.mu.Lock()
			defer s.mu.Unlock()
			var p place
			s.find(t, &p, print)
			v = l.rule.Moved(from.Restored(v, part.Now, now), now, from)
			switch {
			case by.Weight(v) == 0:
			case p.at != 0:
				t.layout.Set(p.page, p.at, l.rule.Sum(p.value, v, now))
			default:
				add(t, s, &p, l.rule.Join(p.value, v, now), by)
			}
		}, nil
	})
}
