package keyedtable

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/pagetable"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/window"
)

// A head begins a snapshot. After it come the slots of all keys, as in a page, of which
// the one with the fingerprint 0 is the last; then a CRC-32 of all. The lowest byte of
// a number comes first.
type head struct {
	Magic [8]byte // the name and the version of the format
	Keys  byte    // kind of keys
	Law   byte    // what values mean
	Seed  siphash.Key
	Now   time.Duration
	Scale uint64 // of buckets: the burst of tokensOf; of windows: their Period
}

var magic = [8]byte([]byte("weirkey3"))

// Laws of a head.
const (
	bucketLaw  = 'b'
	fixedLaw   = 'f'
	slidingLaw = 's'
	datedLaw   = 'd'
)

var (
	errUnstable = errors.New("keyed: no snapshots of this type of keys: their hash differs in every process " +
		"(use strings, integers, arrays of bytes or netip)")
	errOtherLaw = errors.New("it has buckets instead of windows, or windows instead of buckets")
)

// A copyFunc appends the slots of the page with the prefix at, under the lock of its
// shard, and returns the bits of its prefix.
type copyFunc[K comparable] func(t *table[K], s *shard[K], at uint64, slots []uint64) ([]uint64, uint8)

// A restoreFunc restores the value of a key.
type restoreFunc func(print uint64, v pagetable.Value)

// write writes a snapshot. law returns the Law and Scale of its head.
func (c *common[K]) write(w io.Writer, law func() (byte, uint64), copyPage copyFunc[K]) error {
	if !c.hash.stable {
		return errUnstable
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	t := c.table.Load()
	h := head{Magic: magic, Keys: c.hash.kind, Seed: t.seed, Now: t.now()}
	h.Law, h.Scale = law()
	sum := crc32.NewIEEE()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	_ = binary.Write(out, binary.LittleEndian, h) // Flush returns the error
	var slots []uint64
	for i := range t.shards {
		s := &t.shards[i]
		for at, more := uint64(0), true; more; { // the prefix of the next page
			var depth uint8
			s.mu.Lock()
			slots, depth = copyPage(t, s, at, slots[:0])
			s.mu.Unlock()
			_ = binary.Write(out, binary.LittleEndian, slots)
			// A page that is split meanwhile is before or after the next prefix with
			// both its halves.
			at += 1 << (64 - depth)
			more = at != 0 && depth > 0
		}
	}
	_ = binary.Write(out, binary.LittleEndian, make([]uint64, t.layout.Words)) // the end
	err := out.Flush()
	if err == nil {
		err = binary.Write(w, binary.LittleEndian, sum.Sum32())
	}
	if err != nil {
		return fmt.Errorf("keyed: writing a snapshot: %w", err)
	}
	return nil
}

// copySlots appends the slots of the page with the prefix at, and returns the bits of
// that prefix. save returns a value as it is saved, zero if it counts nothing.
func (s *shard[K]) copySlots(
	t *table[K], at uint64, slots []uint64, save func(pagetable.Value) pagetable.Value,
) ([]uint64, uint8) {
	if s.dir.Pages == nil {
		return slots, 0
	}
	p := s.dir.Pages[at>>(64-s.dir.Depth)]
	for i := t.layout.First; i < pagetable.Words; i += t.layout.Words {
		if v := save(t.layout.Get(p, i+1)); v != (pagetable.Value{}) {
			slots = append(slots, p[i], v.A, v.B)[:len(slots)+t.layout.Words]
		}
	}
	return slots, p.Depth()
}

// read reads a snapshot into a new table. begin returns that table, and how to restore
// a value into it.
func (c *common[K]) read(r io.Reader, begin func(*head) (*table[K], restoreFunc, error)) error {
	if !c.hash.stable {
		return errUnstable
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	t, err := c.readTable(bufio.NewReaderSize(r, 1<<16), begin)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("keyed: reading a snapshot: %w", err)
	}
	c.table.Store(t)
	return nil
}

func (c *common[K]) readTable(r io.Reader, begin func(*head) (*table[K], restoreFunc, error)) (*table[K], error) {
	sum := crc32.NewIEEE()
	in := io.TeeReader(r, sum)
	var h head
	if err := binary.Read(in, binary.LittleEndian, &h); err != nil {
		return nil, err
	}
	if h.Magic != magic {
		return nil, fmt.Errorf("it begins with %q: not a snapshot, or of another version", h.Magic)
	}
	if h.Keys != c.hash.kind {
		return nil, errors.New("it is of another type of keys")
	}
	t, restore, err := begin(&h)
	if err != nil {
		return nil, err
	}
	for slot := [3]uint64{}; ; restore(slot[0], pagetable.Value{A: slot[1], B: slot[2]}) {
		if err := binary.Read(in, binary.LittleEndian, slot[:t.layout.Words]); err != nil {
			return nil, err
		}
		if slot[0] == 0 {
			break
		}
	}
	want := sum.Sum32()
	var got uint32
	if err := binary.Read(r, binary.LittleEndian, &got); err != nil {
		return nil, err
	}
	if got != want {
		return nil, fmt.Errorf("its checksum is %08x: want %08x", got, want)
	}
	return t, nil
}

// tokensOf returns a Quota that keeps the tokens of a bucket, and no time: buckets are
// saved under it.
func tokensOf(burst uint64) gcra.Quota { return gcra.Per(0, 0, int(burst)) }

// Snapshot writes the buckets of all keys, as keyed.Limiter.Snapshot says.
func (l *Buckets[K]) Snapshot(w io.Writer) error {
	var tokens gcra.Quota
	return l.write(w, func() (byte, uint64) {
		burst := 0
		for _, q := range append(slices.Collect(maps.Values(l.quotas)), &l.quota) {
			if *q != gcra.Unlimited() { // else its buckets are full
				burst = max(burst, q.Burst())
			}
		}
		tokens = tokensOf(uint64(burst))
		return bucketLaw, uint64(burst)
	}, func(t *table[K], s *shard[K], at uint64, slots []uint64) ([]uint64, uint8) {
		now := t.now()
		save := func(q *gcra.Quota, b gcra.Bucket) uint64 {
			if b <= q.Level(now) {
				return 0
			}
			return uint64(q.Move(b, now, &tokens))
		}
		slots, depth := s.copySlots(t, at, slots, func(v pagetable.Value) pagetable.Value {
			return pagetable.Value{A: save(s.quota, gcra.Bucket(v.A))}
		})
		// A bucket moves from its slot into own, and back, under the lock.
		for print, o := range s.own {
			if pagetable.Prefix(print, uint64(len(t.shards)), depth) == int(at>>(64-depth)) {
				// Calls that wait will ask again.
				if b := save(o.quota, o.quota.Refund(o.bucket, o.queue.Taken(o.quota, now))); b > 0 {
					slots = append(slots, print, b)
				}
			}
		}
		return slots, depth
	})
}

// Restore puts the buckets of a Snapshot in place of the present ones.
func (l *Buckets[K]) Restore(r io.Reader) error {
	return l.read(r, func(h *head) (*table[K], restoreFunc, error) {
		if h.Law != bucketLaw {
			return nil, nil, errOtherLaw
		}
		q, tokens := l.quota, tokensOf(h.Scale)
		t := newTable[K](l.cfg.Memory, h.Seed, &q, nil)
		for key, q := range l.quotas { // they change under l.changes only
			l.setQuotaFor(t, key, q, true)
		}
		now := t.now()
		then := min(h.Now, now) // a clock that was set back must not make debts larger
		return t, func(print uint64, v pagetable.Value) {
			s := t.shard(print)
			var p bucketPlace
			s.findBucket(t, &p, print, now)
			s.storeBucket(t, &p, max(tokens.Move(gcra.Bucket(v.A), then, p.quota), p.bucket()))
		}, nil
	})
}

// Snapshot writes the counts of all keys, as keyed.Windows.Snapshot says.
func (l *Windows[K]) Snapshot(w io.Writer) error {
	return l.write(w, func() (byte, uint64) {
		law := byte(fixedLaw)
		switch {
		case l.rule.Sliding:
			law = slidingLaw
		case l.rule.Dated():
			law = datedLaw
		}
		return law, uint64(l.rule.Period)
	}, func(t *table[K], s *shard[K], at uint64, slots []uint64) ([]uint64, uint8) {
		by := s.rule.At(t.now())
		return s.copySlots(t, at, slots, func(v pagetable.Value) pagetable.Value {
			if by.Weight(v) == 0 {
				return pagetable.Value{}
			}
			return v
		})
	})
}

// Restore puts the counts of a Snapshot in place of the present ones.
func (l *Windows[K]) Restore(r io.Reader) error {
	return l.read(r, func(h *head) (*table[K], restoreFunc, error) {
		from := &pagetable.Rule{Quota: window.Quota{Period: time.Duration(h.Scale), Sliding: h.Law == slidingLaw}}
		switch {
		case h.Law == bucketLaw:
			return nil, nil, errOtherLaw
		case from.Period < MinPeriod || h.Law != fixedLaw && h.Law != slidingLaw && h.Law != datedLaw:
			return nil, nil, errors.New("it is of windows that cannot be")
		case h.Law == datedLaw && l.rule.Dated() && from.Period == l.rule.Period:
			from = l.rule // in another time zone too
		}
		t := newTable[K](l.cfg.Memory, h.Seed, nil, l.rule)
		now := t.now()
		by := l.rule.At(now)
		return t, func(print uint64, v pagetable.Value) {
			s := t.shard(print)
			var p place
			s.find(t, &p, print)
			v = l.rule.Moved(from.Restored(v, h.Now, now), now, from)
			switch {
			case by.Weight(v) == 0:
			case p.at != 0:
				t.layout.Set(p.page, p.at, v)
			default:
				add(t, s, &p, v, by)
			}
		}, nil
	})
}
